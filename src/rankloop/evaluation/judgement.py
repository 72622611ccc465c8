"""What a log says of policies, in numbers, the policy that made it beside the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.evaluation.estimates import Estimate, Options, check_options, concluded
from rankloop.evaluation.impressions import Impression
from rankloop.evaluation.learned import session_rows
from rankloop.evaluation.log_table import LogTable
from rankloop.evaluation.off_policy import SPANS, Method, check_method, series_of
from rankloop.evaluation.propensities import RankingPolicy
from rankloop.evaluation.ranking_log import AnyMethod, LoggedRanking, ranking_series, span_of
from rankloop.evaluation.rows import Rows
from rankloop.evaluation.sums import Series, Sums
from rankloop.evaluation.units import PER_PAGE, Unit, unit_of

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
    target: RankingPolicy, log: Iterable[LoggedRanking], name: str, method: AnyMethod, options: Options, places: int
) -> Judgement:
    """Judge a ranker on rankings whose policies are known too, by what the first `places` of each earned."""
    if method == "pseudo_inverse" and options.bound in ("bernstein", "hoeffding"):
        raise InvalidInput(f"the {options.bound} bound needs the largest possible weight, which is not known here")
    check_options(options, method)
    current, wanted = Sums(), Sums()
    for series in ranking_series(log, target, method, places, options.limit):
        alike = np.ones(len(series.reward))
        current.add(Series(series.reward, alike, series.reward, alike, 1.0, series.extremes._replace(heaviest=1.0)))
        wanted.add(series)
    summed_places = places if method == "cascade" or method == "position_wise" else 1
    estimates = {
        CURRENT: concluded(current, "ips", options._replace(max_weight=1.0), SPANS["ips"], summed_places),
        name: concluded(wanted, method, options, span_of(method), summed_places),
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
