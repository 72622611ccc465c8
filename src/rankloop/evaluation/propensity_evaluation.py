"""Estimates of a ranker or policy by the probabilities with which it would show what a log shows."""

from collections.abc import Iterable, Mapping

import numpy as np

from rankloop.bandits.ad_log import AdLog, RewardModel, split_rows
from rankloop.bandits.policies import Policy, Uniform
from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.types import Arrival
from rankloop.engine import Engine
from rankloop.evaluation.off_policy import estimators, ranking_log
from rankloop.evaluation.off_policy.estimators import Estimate, Options, series_of
from rankloop.evaluation.off_policy.ranking_log import LOCAL_ENGINE, AskedRanker, RankingPolicy, Watch
from rankloop.evaluation.off_policy.sums import RANGE_BOUNDS, Series, Sums
from rankloop.evaluation.report import CURRENT, PER_PAGE, UNIFORM, Report, unit_of
from rankloop.features.schema import Schema
from rankloop.logs.choice_log import ChoiceLog, ChoiceRows
from rankloop.logs.context import Encoding
from rankloop.logs.list_log import ShownList


def evaluate_on_lists(
    session: Session,
    log: Iterable[Arrival | ShownList],
    name: str,
    method: str = "snips",
    options: Options | None = None,
    *,
    schema: Schema | None = None,
    feature_names: tuple[str, ...] = (),
    engine: Engine = LOCAL_ENGINE,
    watch: Watch = lambda finished: None,
) -> Report:
    """Estimate what a ranker would earn by the probability with which it would show each whole ranking now.

    Args:
      session: The ranker.
      log: Decisions with their log-propensity and feedback; for a ranker with a schema also lists in values by name.
      name: What the ranker is called in the report.
      method: An estimator of single choices; a whole ranking is one.
      options: Bounds and limits.
      schema: By which the ranker is asked, which may be another one than showed the log.
      feature_names: Those of the log, where it tells them.
      engine: Where probabilities are computed, which does not change them.
      watch: Called with the number of rankings that are judged.
    """
    ranker = AskedRanker(session, schema)
    shown = ranker.checked(log, lambda entry: ranker.arrival(entry).query, name, feature_names)
    return _report(ranker.rows(shown, engine, watch), name, method, options)._replace(unit=PER_PAGE)


def evaluate_on_rankings(
    session: Session,
    log: Iterable[ranking_log.LoggedRanking],
    name: str,
    method: str = "snips",
    options: Options | None = None,
    *,
    positions: int = 10,
    feature_names: tuple[str, ...] = (),
    schema: Schema | None = None,
) -> Report:
    """Estimate what a ranker would earn on rankings whose policies are known too.

    Args:
      session: The ranker.
      log: Rankings with the states that drew them.
      name: What the ranker is called in the report.
      method: An estimator of single choices, or cascade_ips, position_wise or pseudo_inverse.
      options: Bounds and limits.
      positions: Only what so many first positions earned counts.
      feature_names: Those of the log.
      schema: By which the ranker is asked, in the values that the log holds.
    """
    options = options or Options()
    if method == "pseudo_inverse" and options.bound in RANGE_BOUNDS:
        raise InvalidInput(f"the {options.bound} bound needs the largest possible weight, which is not known here")
    options.check(method)
    ranker = AskedRanker(session, schema)
    shown = ranker.checked(log, lambda entry: entry.query_by(ranker.encoder), name, feature_names)
    target = RankingPolicy(session.learner, session.state)
    current, judged = Sums(), Sums()
    for series in ranking_log.ranking_series(shown, target, method, positions, options.limit, ranker.encoder):
        extremes = series.extremes._replace(heaviest=1.0, least_propensity=1.0)
        current.add(Series.of_weights(series.reward, np.ones(len(series.reward)))._replace(extremes=extremes))
        judged.add(series)
    summed_positions = positions if method in estimators.SUMMED_METHODS else 1
    estimates = {
        CURRENT: Estimate.of(current, "ips", options._replace(max_weight=1.0), summed_positions),
        name: Estimate.of(judged, method, options, summed_positions),
    }
    return Report(current.n, 0, current.rewarded, 0, estimates, PER_PAGE)


def _report(log: Iterable[ChoiceRows], name: str, method: str, options: Options | None) -> Report:
    """Estimate a policy from rows with its probabilities, beside the policy that made the log."""
    options, estimator = options or Options(), estimators.method_of(method)
    options.check(estimator)
    current, target = Sums(), Sums()
    for rows in log:
        current.add(series_of(rows._replace(target=rows.propensity), "ips", options.limit))
        target.add(series_of(rows, estimator, options.limit))
    estimates = {CURRENT: Estimate.of(current, "ips", options), name: Estimate.of(target, method, options)}
    return Report(current.n, 0, current.rewarded, 0, estimates, unit_of(current))


def evaluate_target(table: ChoiceLog, method: str = "snips", options: Options | None = None) -> Report:
    """Estimate the policy whose probabilities stand in the log's own column, on all rows.

    Args:
      table: The log as a table.
      method: The name of the estimator.
      options: Level, bound and limits; see `Options`.
    """
    return _report(table.rows(), table.columns.target, method, options)


def evaluate_policies(
    table: ChoiceLog,
    encoding: Encoding,
    policies: Mapping[str, Policy],
    *,
    method: str = "snips",
    options: Options | None = None,
    model: RewardModel | None = None,
    seed: int = 0,
    share: float = 0.5,
    watch: Watch = lambda finished: None,
) -> Report:
    """Estimate each policy on the rows that `train_policy` left out with this seed and share (0: all of them).

    The current policy is evaluated by the mean of what it earned, the others and one at random by `method`.

    Args:
      table: The log as a table.
      encoding: How contexts become numbers.
      policies: The policies by name.
      method: The name of the estimator.
      options: Level, bound and limits; see `Options`.
      model: A reward model, for the methods that need one.
      seed: The seed of random draws.
      share: The share of rows that was used for training.
      watch: Called with the progress.
    """
    options, estimator = options or Options(), estimators.method_of(method)
    options.check(estimator)
    others = {**policies, UNIFORM: Uniform(n_ads=len(encoding.ads))}
    current, sums = Sums(), {name: Sums() for name in others}
    n_rows, n_training, n_rewarded = 0, 0, 0
    for rows, training in split_rows(table, encoding, seed, share):
        n_rows, n_training = n_rows + len(training), n_training + int(training.sum())
        n_rewarded += int((rows.rewards > 0).sum())
        log = rows.take(~training)
        current.add(series_of(ChoiceRows(log.rewards, log.propensities, log.propensities), "ips", options.limit))
        for name, policy in others.items():
            sums[name].add(series_of(policy_rows(log, policy, model), estimator, options.limit))
        watch(n_rows)
    estimates = {CURRENT: Estimate.of(current, "ips", options)}
    estimates |= {name: Estimate.of(sums[name], method, options) for name in others}
    context = encoding.described + table.columns.unused
    return Report(n_rows, n_training, n_rewarded, len(encoding.ads), estimates, unit_of(current), context)


def policy_rows(log: AdLog, policy: Policy, model: RewardModel | None = None) -> ChoiceRows:
    """Return the log with a policy's probabilities of what was shown.

    Args:
      log: The log.
      policy: The policy.
      model: Adds the values of a reward model.
    """
    shares, shown_ads = policy.probabilities(log.contexts), (np.arange(len(log.ads)), log.ads)
    rows = ChoiceRows(log.rewards, log.propensities, shares[shown_ads])
    if model is None:
        return rows
    values = model.predict(log.contexts)
    return rows._replace(predicted=values[shown_ads], expected=(shares * values).sum(axis=1))
