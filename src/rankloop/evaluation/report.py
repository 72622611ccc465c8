"""What a log says of policies, in numbers, the policy that made it beside the others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.evaluation.off_policy.estimate import Estimate, Options, check_options, concluded
from rankloop.evaluation.off_policy.estimators import SPANS, Method, check_method, series_of
from rankloop.evaluation.off_policy.overlap import FEW_REWARDS, is_off_balance, rests_on
from rankloop.evaluation.off_policy.propensities import RankingPolicy, session_rows
from rankloop.evaluation.off_policy.ranking_log import AnyMethod, LoggedRanking, ranking_series, span_of
from rankloop.evaluation.off_policy.sums import Series, Sums
from rankloop.logs.impressions import Impression
from rankloop.logs.rows import Rows
from rankloop.logs.table import LogTable

CURRENT, UNIFORM = "current", "ads at random"


class Judgement(NamedTuple):
    """What the judging half of a log says of the policies; `estimates` begin with the current one."""

    n_rows: int
    n_taught: int
    n_rewarded: int
    n_ads: int
    estimates: dict[str, Estimate]
    unit: Unit
    context: str = ""  # one line: which columns tell of the visitor


def judge_column(table: LogTable, method: Method, options: Options) -> Judgement:
    """Judge the policy whose probabilities stand in the table's own column, on all rows."""
    return _judge_rows(table.rows(), table.columns.target, method, options)


def judge_rankings(
    session: Session, log: Iterable[Impression], name: str, method: Method, options: Options
) -> Judgement:
    """Judge a ranker on logged rankings, by the probability with which it would show each of them now."""
    rows = session_rows(session, (shown.arrival() for shown in log))
    return _judge_rows(rows, name, method, options)._replace(unit=PER_PAGE)


def judge_logged(
    target: RankingPolicy, log: Iterable[LoggedRanking], name: str, method: AnyMethod, options: Options, positions: int
) -> Judgement:
    """Judge a ranker on rankings whose policies are known too, by what the first `places` of each earned."""
    if method == "pseudo_inverse" and options.bound in ("bernstein", "hoeffding"):
        raise InvalidInput(f"the {options.bound} bound needs the largest possible weight, which is not known here")
    check_options(options, method)
    current, wanted = Sums(), Sums()
    for series in ranking_series(log, target, method, positions, options.limit):
        alike = np.ones(len(series.reward))
        current.add(Series(series.reward, alike, series.reward, alike, 1.0, series.extremes._replace(heaviest=1.0)))
        wanted.add(series)
    summed_positions = positions if method == "cascade" or method == "position_wise" else 1
    estimates = {
        CURRENT: concluded(current, "ips", options._replace(max_weight=1.0), SPANS["ips"], summed_positions),
        name: concluded(wanted, method, options, span_of(method), summed_positions),
    }
    return Judgement(current.n, 0, current.rewarded, 0, estimates, PER_PAGE)


def _judge_rows(log: Iterable[Rows], name: str, method: Method, options: Options) -> Judgement:
    check_method(method)
    check_options(options, method)
    current, target = Sums(), Sums()
    for rows in log:
        current.add(series_of(rows._replace(target=rows.propensity), "ips", options.limit))
        target.add(series_of(rows, method, options.limit))
    estimates = {
        CURRENT: concluded(current, "ips", options, SPANS["ips"]),
        name: concluded(target, method, options, SPANS[method]),
    }
    return Judgement(current.n, 0, current.rewarded, 0, estimates, unit_of(current))


class Unit(NamedTuple):
    """A mean reward times `scale`, written with so many `decimals`, is so many of `name`; `each` is what is counted."""

    name: str
    scale: float = 1.0
    decimals: int = 3
    each: str = "row"

    def of(self, value: float) -> str:
        """The number alone."""
        return f"{self.scale * value:.{self.decimals}f}"

    def told(self, text: str) -> str:
        """A sentence about rows in the words of this unit."""
        return re.sub(r"\brow(s?)\b", rf"{self.each}\1", text)


PER_PAGE = Unit("per page", each="page")
PER_ROW = Unit("per row")
CLICKS = Unit("clicks per 100 rows", 100.0, 2)


def unit_of(current: Sums) -> Unit:
    """Clicks per 100 rows where every reward is 0 or 1, with a decimal more where they are rare; else rewards."""
    clicks = abs(current.current * current.n - current.rewarded) < 0.5 and current.extremes.largest <= 1.0
    if not clicks:
        return PER_ROW
    return CLICKS if current.current >= 0.01 else CLICKS._replace(decimals=3)


MAX_TIMES = 100  # nobody waits for a log so many times as long


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
    if times > MAX_TIMES:
        return f"No realistic log would do: it would have to be over {MAX_TIMES} times as long."
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
