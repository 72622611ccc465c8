"""One policy on a log, beside the one that made it: by a column of the log, or a ranker on logged rankings."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.engine import Engine
from rankloop.evaluation.off_policy.estimators import (
    SPANS,
    Options,
    check_options,
    concluded,
    method_of,
    series_of,
)
from rankloop.evaluation.off_policy.intervals import RANGED
from rankloop.evaluation.off_policy.judge import HERE, Judge, Watch, unwatched
from rankloop.evaluation.off_policy.propensities import RankingPolicy
from rankloop.evaluation.off_policy.ranking_log import SUMMED, LoggedRanking, checked_first, ranking_series, span_of
from rankloop.evaluation.off_policy.sums import Series, Sums
from rankloop.evaluation.report import CURRENT, PER_PAGE, Report, unit_of
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.impressions import Impression
from rankloop.logs.rows import Rows
from rankloop.logs.shown_lists import ShownList
from rankloop.logs.table import LogTable


def evaluate_target(table: LogTable, method: str = "snips", options: Options | None = None) -> Report:
    """The policy whose probabilities stand in the table's own column, on all rows."""
    return _evaluate_rows(table.rows(), table.columns.target, method, options or Options())


def evaluate_on_impressions(
    session: Session,
    log: Iterable[Impression],
    name: str,
    method: str = "snips",
    options: Options | None = None,
    *,
    feature_names: Sequence[str] = (),
    engine: Engine = HERE,
    watch: Watch = unwatched,
) -> Report:
    """A ranker on exported impressions, by the probability with which it would show each whole ranking now.

    `feature_names` are those of the log, where it tells them. The `engine` says where probabilities are computed,
    which does not change them; `watch` is called with the number of impressions that are judged.
    """
    shown = checked_first(log, lambda one: one.arrival().query, session, name, lambda: feature_names)
    judge = Judge(session)
    return _evaluate_judged(judge.rows(shown, engine, watch), name, method, options or Options())


def evaluate_on_lists(
    session: Session,
    schema: Schema,
    log: Iterable[ShownList],
    name: str,
    method: str = "snips",
    options: Options | None = None,
    *,
    engine: Engine = HERE,
    watch: Watch = unwatched,
) -> Report:
    """A ranker with a schema on lists in values as people have them, which may have been shown by another schema.

    See `evaluate_on_impressions` for `engine` and `watch`.
    """
    judge = Judge(session, schema)
    shown = checked_first(log, lambda one: judge.arrival(one).query, session, name)
    return _evaluate_judged(judge.rows(shown, engine, watch), name, method, options or Options())


def _evaluate_judged(log: Iterable[Rows], name: str, method: str, options: Options) -> Report:
    return _evaluate_rows(log, name, method, options)._replace(unit=PER_PAGE)


def evaluate_on_rankings(
    session: Session,
    log: Iterable[LoggedRanking],
    name: str,
    method: str = "snips",
    options: Options | None = None,
    *,
    positions: int = 10,
    feature_names: Callable[[], Sequence[str]] = tuple,
    schema: Schema | None = None,
) -> Report:
    """A ranker on rankings whose policies are known too, by what the first `positions` of each earned.

    `feature_names` are those of the log. A ranker with a `schema` is asked by it, in the values that the log holds.
    """
    options, known = options or Options(), method
    if known == "pseudo_inverse" and options.bound in RANGED:
        raise InvalidInput(f"the {options.bound} bound needs the largest possible weight, which is not known here")
    check_options(options, known)
    encoder = None if schema is None else Encoder(schema)
    shown = checked_first(log, lambda one: one.query_by(encoder), session, name, feature_names)
    target = RankingPolicy(session.learner, session.state)
    current, wanted = Sums(), Sums()
    for series in ranking_series(shown, target, known, positions, options.limit, encoder):
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
