"""What a log says of policies, in numbers and in plain words, the policy that made it beside the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.evaluation.estimates import Estimate, Options, concluded
from rankloop.evaluation.impressions import Impression
from rankloop.evaluation.learned import session_rows
from rankloop.evaluation.log_table import LogTable
from rankloop.evaluation.off_policy import SPANS, Method, check_method, series_of
from rankloop.evaluation.overlap import FEW_REWARDS
from rankloop.evaluation.propensities import RankingPolicy
from rankloop.evaluation.ranking_log import AnyMethod, LoggedRanking, ranking_series, span_of
from rankloop.evaluation.rows import Rows
from rankloop.evaluation.sums import Series, Sums

CURRENT, UNIFORM = "current", "every ad alike"


class Judgement(NamedTuple):
    """What the judging half of a log says of the policies; `estimates` begin with the current one."""

    n_rows: int
    n_taught: int
    n_rewarded: int
    n_ads: int
    estimates: dict[str, Estimate]


def judge_column(table: LogTable, method: Method, options: Options) -> Judgement:
    """Judge the policy whose probabilities stand in the table's own column, on all rows."""
    return _judge_rows(table.rows(), table.columns.target, method, options)


def judge_rankings(
    session: Session, log: Iterable[Impression], name: str, method: Method, options: Options
) -> Judgement:
    """Judge a ranker on logged rankings, by the probability with which it would show each of them now."""
    rows = session_rows(session, (shown.arrival() for shown in log))
    return _judge_rows(rows, name, method, options)


def judge_logged(
    target: RankingPolicy, log: Iterable[LoggedRanking], name: str, method: AnyMethod, options: Options, places: int
) -> Judgement:
    """Judge a ranker on rankings whose policies are known too, by what the first `places` of each earned."""
    if method == "pseudo_inverse" and options.bound in ("bernstein", "hoeffding"):
        raise InvalidInput(f"the {options.bound} bound needs the largest possible weight, which is not known here")
    current, wanted = Sums(), Sums()
    for series in ranking_series(log, target, method, places, options.limit):
        alike = np.ones(len(series.reward))
        current.add(Series(series.reward, alike, series.reward, alike, 1.0))
        wanted.add(series)
    estimates = {
        CURRENT: concluded(current, "ips", options, SPANS["ips"]),
        name: concluded(wanted, method, options, span_of(method, places)),
    }
    return Judgement(current.n, 0, current.rewarded, 0, estimates)


def _judge_rows(log: Iterable[Rows], name: str, method: Method, options: Options) -> Judgement:
    check_method(method)
    current, target = Sums(), Sums()
    for rows in log:
        current.add(series_of(rows._replace(target=rows.propensity), "ips", options.limit))
        target.add(series_of(rows, method, options.limit))
    estimates = {
        CURRENT: concluded(current, "ips", options, SPANS["ips"]),
        name: concluded(target, method, options, SPANS[method]),
    }
    return Judgement(current.n, 0, current.rewarded, 0, estimates)


def verdicts(judgement: Judgement) -> list[str]:
    """What the log says of every policy but the current and the uniform one, in plain words, with its doubts."""
    found = []
    for name, one in judgement.estimates.items():
        if name not in (CURRENT, UNIFORM):
            told = one.overlap.effective_rewards < FEW_REWARDS  # the verdict itself gives this reason
            found.append(verdict(name, one))
            found += [f"Beware: {warning}." for warning in one.warnings[int(told) :]]
    return found


def verdict(name: str, found: Estimate) -> str:
    """One plain sentence: better, not better, or the log cannot tell."""
    sure = f"{found.level:.0%} sure"
    if found.overlap.effective_rewards < FEW_REWARDS:
        longer = FEW_REWARDS / max(found.overlap.effective_rewards, 0.5)
        reason = found.warnings[0].split(": ", 1)[1]
        return f"The log is too small to tell how good the {name} is: {reason}. {enough(longer)}"
    if found.gain_lower > 0:
        return f"The {name} earns at least {amount(found.gain_lower)} more per row than the current one ({sure})."
    if found.gain <= 0:
        return f"The {name} is not better than the current one on this log: its estimated gain is {amount(found.gain)}."
    return (
        f"The {name} looks better than the current one, by {amount(found.gain)} per row, but the log is too small to "
        f"be {sure}: the gain may be as low as {amount(found.gain_lower)}. "
        f"{enough(((found.gain - found.gain_lower) / found.gain) ** 2)}"
    )


def enough(longer: float) -> str:
    """How many times as long a log would do, if it went on like this: bounds narrow with the root of its length."""
    times = max(1.1, longer)
    return f"A log {times:.1f} times as long might do." if times < 10 else f"A log {times:.0f} times as long might do."


def amount(value: float) -> str:
    """A reward per row as people read it: a rate in percent, anything above 1 as it is."""
    return f"{value:.3%}" if abs(value) <= 1.0 else f"{value:.4g}"
