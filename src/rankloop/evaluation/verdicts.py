"""What a judged log says of each policy, in plain words."""

from __future__ import annotations

from rankloop.evaluation.estimates import Estimate
from rankloop.evaluation.judgement import CURRENT, UNIFORM, Judgement
from rankloop.evaluation.overlap import FEW_REWARDS, is_off_balance, rests_on
from rankloop.evaluation.units import CLICKS, Unit

MOST_TIMES = 100  # nobody waits for a log so many times as long


def verdicts(judgement: Judgement) -> list[str]:
    """What the log says of every policy but the current and the uniform one, in plain words, with its doubts."""
    found = []
    for name, one in judgement.estimates.items():
        if name not in (CURRENT, UNIFORM):
            found.append(verdict(name, one, judgement.unit))
            found += [f"Beware: {judgement.unit.told(warning)}." for warning in _untold(one)]
    return found


def verdict(name: str, found: Estimate, unit: Unit = CLICKS) -> str:
    """One or two plain sentences: better, not better, or the log cannot tell."""
    if is_off_balance(found.overlap):
        return _cannot_tell(name, found.overlap.mean_weight)
    if (carried := rests_on(found.overlap, found.bound)) < FEW_REWARDS:
        longer = FEW_REWARDS / max(carried, 0.5)
        reason = unit.told(found.warnings[0].split(": ", 1)[1])
        return f"The log is too small to tell how good the {name} is: {reason}. {enough(longer)}"
    earned = f"{unit.of(found.value)} {unit.name} instead of {unit.of(found.current)}"
    sure = f"{found.level:.0%} sure"
    if found.gain_lower > 0:
        return f"The {name} earns {earned}: at least {unit.of(found.gain_lower)} more ({sure})."
    if found.gain <= 0:
        return f"The {name} is not better than the current one on this log: it earns {earned}."
    return (
        f"The gain of the {name} cannot be told from chance: it earns {earned}, but to be {sure} only "
        f"{unit.of(found.gain_lower)} more can be promised. "
        f"{enough(((found.gain - found.gain_lower) / found.gain) ** 2)}"
    )


def enough(longer: float) -> str:
    """How many times as long a log would do, if it went on like this: bounds narrow with the root of its length."""
    times = max(1.1, longer)
    if times > MOST_TIMES:
        return f"No realistic log would do: it would have to be over {MOST_TIMES} times as long."
    return f"A log {times:.1f} times as long might do." if times < 10 else f"A log {times:.0f} times as long might do."


def _cannot_tell(name: str, mean_weight: float) -> str:
    weights = f"weights average {mean_weight:.2g}, should be 1"
    if mean_weight > 1.0:
        return f"This log cannot tell how good the {name} is: its propensities are too small to be true ({weights})."
    return (
        f"This log cannot tell how good the {name} is: it seldom or never shows what the {name} would show "
        f"({weights}). Let today's ranker explore more, or compare the two live by interleaving."
    )


def _untold(found: Estimate) -> tuple[str, ...]:
    """The warnings that the verdict itself does not give as its reason."""
    if is_off_balance(found.overlap):
        return ()
    return found.warnings[int(rests_on(found.overlap, found.bound) < FEW_REWARDS) :]
