"""Estimates of a ranker or policy by the probabilities with which it would show what a log shows."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from rankloop.bandits.ad_log import AdLog, RewardModel, split_rows
from rankloop.bandits.policies import Policy, Uniform
from rankloop.core.errors import InvalidInput
from rankloop.evaluation.off_policy import estimators
from rankloop.evaluation.off_policy.estimators import Estimate, Options, series_of
from rankloop.evaluation.off_policy.ranking_log import AskedRanker, LoggedRanking, RankingPolicy, ranking_series
from rankloop.evaluation.off_policy.running_sums import RANGE_BOUNDS, Series, Sums
from rankloop.evaluation.report import CURRENT, PER_PAGE, UNIFORM, Report, unit_of
from rankloop.logs.choice_log import ChoiceLog, ChoiceRows
from rankloop.logs.context import Encoding


def report_of_rows(
    log: Iterable[ChoiceRows], name: str, method: str = "snips", options: Options | None = None
) -> Report:
    """Estimate a policy from rows with its probabilities, beside the policy that made the log.

    Args:
      log: Rows in parts.
      name: What the policy is called in the report.
      method: An estimator of single choices.
      options: Bounds and limits.
    """
    current, estimates = _estimates(({name: rows} for rows in log), method, options)
    return Report(current.n, 0, current.rewarded, 0, estimates, unit_of(current))


def report_of_rankings(
    ranker: AskedRanker, log: Iterable[LoggedRanking], name: str, method: str, options: Options, positions: int = 10
) -> Report:
    """Estimate what a ranker would earn on rankings whose policies are known too.

    Args:
      ranker: The ranker, with the schema by which it is asked.
      log: Rankings with the states that drew them.
      name: What the ranker is called in the report.
      method: An estimator of single choices, or cascade_ips, position_wise or pseudo_inverse.
      options: Bounds and limits.
      positions: Only what so many first positions earned counts.
    """
    if method == "pseudo_inverse" and options.bound in RANGE_BOUNDS:
        raise InvalidInput(f"the {options.bound} bound is not possible for pseudo_inverse: use 't' or 'bootstrap'")
    options.check(method)
    target = RankingPolicy(ranker.session.learner, ranker.session.state)
    current, judged = Sums(), Sums()
    for series in ranking_series(log, target, method, positions, options.limit, ranker.encoder):
        extremes = series.extremes._replace(heaviest=1.0, least_propensity=1.0)
        current.add(Series.of_weights(series.reward, np.ones(len(series.reward)))._replace(extremes=extremes))
        judged.add(series)
    summed_positions = positions if method in estimators.SUMMED_METHODS else 1
    estimates = {
        CURRENT: Estimate.of(current, "ips", options._replace(max_weight=1.0), summed_positions),
        name: Estimate.of(judged, method, options, summed_positions),
    }
    return Report(current.n, 0, current.rewarded, 0, estimates, PER_PAGE)


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
    watch: Callable[[int], None] = lambda finished: None,
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
    others = {**policies, UNIFORM: Uniform(n_ads=len(encoding.ads))}
    counts = np.zeros(3, np.int64)  # rows, those that trained, and rewarded ones

    def judged_rows() -> Iterator[dict[str, ChoiceRows]]:
        for rows, training in split_rows(table, encoding, seed, share):
            counts[:] += len(training), training.sum(), (rows.rewards > 0).sum()
            log = rows.take(~training)
            yield {name: policy_rows(log, policy, model) for name, policy in others.items()}
            watch(int(counts[0]))

    current, estimates = _estimates(judged_rows(), method, options)
    context = encoding.described + table.columns.unused
    n_rows, n_training, n_rewarded = counts.tolist()
    return Report(n_rows, n_training, n_rewarded, len(encoding.ads), estimates, unit_of(current), context)


def _estimates(
    pieces: Iterable[Mapping[str, ChoiceRows]], method: str, options: Options | None
) -> tuple[Sums, dict[str, Estimate]]:
    """Return the sums of the policy that made the log, and the estimates of it and of each other policy by name."""
    options, estimator = options or Options(), estimators.method_of(method)
    options.check(estimator)
    current, sums = Sums(), defaultdict[str, Sums](Sums)
    for piece in pieces:
        log = next(iter(piece.values()))
        current.add(series_of(log._replace(target=log.propensity), "ips", options.limit))
        for name, rows in piece.items():
            sums[name].add(series_of(rows, estimator, options.limit))
    estimates = {CURRENT: Estimate.of(current, "ips", options)}
    return current, estimates | {name: Estimate.of(total, method, options) for name, total in sums.items()}


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
