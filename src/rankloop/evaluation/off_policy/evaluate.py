"""One policy on a log, beside the one that made it: by a column of the log, or a ranker on logged rankings."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.evaluation.off_policy.estimators import (
    ALIASES,
    SPANS,
    Options,
    check_options,
    concluded,
    method_of,
    series_of,
)
from rankloop.evaluation.off_policy.intervals import RANGED
from rankloop.evaluation.off_policy.propensities import RankingPolicy, session_rows
from rankloop.evaluation.off_policy.ranking_log import SUMMED, LoggedRanking, checked_first, ranking_series, span_of
from rankloop.evaluation.off_policy.sums import Series, Sums
from rankloop.evaluation.report import CURRENT, PER_PAGE, Report, unit_of
from rankloop.logs.impressions import Impression
from rankloop.logs.rows import Rows
from rankloop.logs.table import LogTable


def evaluate_target(table: LogTable, method: str = "snips", options: Options | None = None) -> Report:
    """The policy whose probabilities stand in the table's own column, on all rows."""
    return _evaluate_rows(table.rows(), table.columns.target, method, options or Options())


def evaluate_on_impressions(
    session: Session, log: Iterable[Impression], name: str, method: str = "snips", options: Options | None = None
) -> Report:
    """A ranker on exported impressions, by the probability with which it would show each whole ranking now."""
    shown = checked_first(log, lambda one: one.arrival().query, session, name)
    rows = session_rows(session, (one.arrival() for one in shown))
    return _evaluate_rows(rows, name, method, options or Options())._replace(unit=PER_PAGE)


def evaluate_on_rankings(
    session: Session,
    log: Iterable[LoggedRanking],
    name: str,
    method: str = "snips",
    options: Options | None = None,
    *,
    positions: int = 10,
    feature_names: Callable[[], Sequence[str]] = tuple,
) -> Report:
    """A ranker on rankings whose policies are known too, by what the first `positions` of each earned.

    `feature_names` are those of the log, asked for where the ranker learned from others.
    """
    options, known = options or Options(), ALIASES.get(method, method)
    if known == "pseudo_inverse" and options.bound in RANGED:
        raise InvalidInput(f"the {options.bound} bound needs the largest possible weight, which is not known here")
    check_options(options, known)
    shown = checked_first(log, lambda one: one.query, session, name, feature_names)
    current, wanted = Sums(), Sums()
    for series in ranking_series(shown, RankingPolicy(session.learner, session.state), known, positions, options.limit):
        alike = np.ones(len(series.reward))
        current.add(Series(series.reward, alike, series.reward, alike, 1.0, series.extremes._replace(heaviest=1.0)))
        wanted.add(series)
    summed_positions = positions if known in SUMMED else 1
    estimates = {
        CURRENT: concluded(current, "ips", options._replace(max_weight=1.0), positions=summed_positions),
        name: concluded(wanted, method, options, span_of(known), summed_positions),
    }
    return Report(current.n, 0, current.rewarded, 0, estimates, PER_PAGE)


def _evaluate_rows(log: Iterable[Rows], name: str, method: str, options: Options) -> Report:
    known = method_of(method)
    check_options(options, known)
    current, target = Sums(), Sums()
    for rows in log:
        current.add(series_of(rows._replace(target=rows.propensity), "ips", options.limit))
        target.add(series_of(rows, known, options.limit))
    estimates = {CURRENT: concluded(current, "ips", options), name: concluded(target, method, options, SPANS[known])}
    return Report(current.n, 0, current.rewarded, 0, estimates, unit_of(current))
