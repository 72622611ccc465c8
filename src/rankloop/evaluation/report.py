"""Report of a log about policies: numbers, sentences and a picture, with the policy that made the log."""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.evaluation.off_policy.estimators import Estimate
from rankloop.evaluation.off_policy.running_sums import MIN_REWARDS, Sums

CURRENT, UNIFORM = "current", "ads at random"
MAX_TIMES = 100  # nobody waits for a log so many times as long
BLUE, GREY = "#2f7ed8", "#8a8f98"


class Unit(NamedTuple):
    """A mean reward times `scale`, written with so many `decimals`, is so many of `name`; `each` is what is counted."""

    name: str
    scale: float = 1.0
    decimals: int = 3
    each: str = "row"

    def of(self, value: float) -> str:
        """Return the number alone."""
        return f"{self.scale * value:.{self.decimals}f}"

    def in_words(self, text: str) -> str:
        """Return a sentence about rows in the words of this unit."""
        return re.sub(r"\brow(s?)\b", rf"{self.each}\1", text)


PER_PAGE = Unit("per page", each="page")
PER_ROW = Unit("per row")
PER_100_ROWS = Unit("clicks per 100 rows", 100.0, 2)


def unit_of(current: Sums) -> Unit:
    """Return clicks per 100 rows if every reward is 0 or 1, with a decimal more if they are rare; else rewards."""
    clicks = abs(current.current * current.n - current.rewarded) < 0.5 and current.extremes.largest <= 1.0
    if not clicks:
        return PER_ROW
    return PER_100_ROWS if current.current >= 0.01 else PER_100_ROWS._replace(decimals=3)


class Report(NamedTuple):
    """The estimates of policies by name, first the current one, from `n_rows` less those that trained."""

    n_rows: int
    n_training: int
    n_rewarded: int
    n_ads: int
    estimates: dict[str, Estimate]
    unit: Unit
    context: str = ""  # one line: which columns tell of the visitor

    @property
    def verdicts(self) -> list[str]:
        """The verdict on every policy but the current and the uniform one, with warnings."""
        lines = []
        for name, estimate in self.estimates.items():
            if name not in (CURRENT, UNIFORM):
                lines.append(verdict(name, estimate, self.unit))
                if estimate.overlap.is_off_balance:
                    continue
                # The first warning is the reason that the verdict gives, where too few rows carry the estimate.
                further = estimate.warnings[int(estimate.overlap.rests_on(estimate.bound) < MIN_REWARDS) :]
                lines += [f"Beware: {self.unit.in_words(warning)}." for warning in further]
        return lines

    def text(self, log: str) -> str:
        """Return a table of the policies and the verdicts."""
        first, unit = next(iter(self.estimates.values())), self.unit
        half = f", {self.n_training:,} of them to learn from" if self.n_training else ""
        ads = f", {self.n_ads} ads" if self.n_ads else ""
        width, column = max(map(len, self.estimates)) + 2, len(unit.name) + 2
        lines = [f"{log}: {self.n_rows:,} {unit.each}s{half}{ads}, {self.n_rewarded:,} rewarded"]
        lines += [self.context, ""] if self.context else [""]
        heads = f"{f'at least ({first.level:.0%})':>18}{f'{unit.each}s count as':>16}"
        lines.append(f"{'policy':<{width}}{unit.name:>{column}}{heads}")
        for policy, estimate in self.estimates.items():
            low = "unknown" if estimate.overlap.is_off_balance else unit.of(max(0.0, estimate.lower))
            lines.append(f"{policy:<{width}}{unit.of(estimate.value):>{column}}{low:>18}{estimate.effective_n:>16,.0f}")
        return "\n".join([*lines, "", *self.verdicts])

    def to_json(self) -> dict[str, Any]:
        """Return the estimates for programs; infinite bounds, which JSON does not have, are None."""
        estimates = {
            name: {
                field: None if isinstance(value, float) and not math.isfinite(value) else value
                for field, value in estimate._asdict().items()
            }
            | {"is_answered": estimate.is_answered, "overlap": estimate.overlap._asdict()}
            for name, estimate in self.estimates.items()
        }
        unit = "per page" if self.unit == PER_PAGE else "per row"
        return self._asdict() | {"unit": unit, "estimates": estimates, "verdicts": self.verdicts}

    def plot(self, path: Path) -> None:
        """Draw a dot for each policy's estimate and a line down to its lower bound, the current one dashed across.

        Where the log cannot tell, the dot is hollow and no bound is drawn.
        """
        from matplotlib.figure import Figure

        names, unit, current = list(self.estimates), self.unit, self.estimates[CURRENT]
        figure = Figure(figsize=(7.2, 0.6 * len(names) + 1.4), layout="constrained")
        axes = figure.subplots()
        for row, estimate in enumerate(self.estimates.values()):
            low, value = unit.scale * max(0.0, estimate.lower), unit.scale * estimate.value
            if estimate.overlap.is_off_balance:
                axes.plot([value], [row], marker="o", markerfacecolor="none", color=GREY)
                axes.annotate("the log cannot tell", (value, row), (9, -4), textcoords="offset points", color=GREY)
                continue
            axes.plot([low, value], [row, row], color=BLUE, linewidth=2.5)
            axes.plot([low], [row], marker="|", markersize=12, color=BLUE)
            axes.plot([value], [row], marker="o", color=BLUE)
        axes.axvline(unit.scale * current.value, color=GREY, linestyle="dashed", linewidth=1.0)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(left=0.0)
        axes.set_xlabel(f"{unit.name}; the line ends at the {current.level:.0%} lower bound")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, dpi=160, facecolor="white")


def verdict(name: str, estimate: Estimate, unit: Unit = PER_100_ROWS) -> str:
    """Return one or two sentences: better, not better, or the log cannot tell.

    Args:
      name: The name of the policy.
      estimate: The estimate.
      unit: What is earned.
    """
    if estimate.overlap.is_off_balance:
        head = f"This log cannot tell how good the {name} is"
        weights = f"weights average {estimate.overlap.mean_weight:.2g}, should be 1"
        if estimate.overlap.mean_weight > 1.0:
            return f"{head}: its propensities are too small to be true ({weights})."
        advice = "Let today's ranker explore more, or compare the two live by interleaving."
        return f"{head}: it seldom or never shows what the {name} would show ({weights}). {advice}"
    if (carried := estimate.overlap.rests_on(estimate.bound)) < MIN_REWARDS:
        longer = MIN_REWARDS / max(carried, 0.5)
        reason = unit.in_words(estimate.warnings[0].split(": ", 1)[1])
        return f"The log is too small to tell how good the {name} is: {reason}. {_long_enough(longer)}"
    earned = f"{unit.of(estimate.value)} {unit.name} instead of {unit.of(estimate.current)}"
    confidence = f"{estimate.level:.0%} confidence"
    if estimate.gain_lower > 0:
        return f"The {name} earns {earned}: at least {unit.of(estimate.gain_lower)} more ({confidence})."
    if estimate.gain <= 0:
        return f"The {name} is not better than the current one on this log: it earns {earned}."
    advice = _long_enough(((estimate.gain - estimate.gain_lower) / estimate.gain) ** 2)
    low = f"the gain may be as low as {unit.of(estimate.gain_lower)} ({confidence})"
    return f"The gain of the {name} is not significant: it earns {earned}, but {low}. {advice}"


def _long_enough(longer: float) -> str:
    """Say how many times as long a log would do, if it went on like this: bounds narrow with the root of its length."""
    times = max(1.1, longer)
    if times > MAX_TIMES:
        return f"No realistic log would do: it would have to be over {MAX_TIMES} times as long."
    return f"A log {times:.1f} times as long might do." if times < 10 else f"A log {times:.0f} times as long might do."
