"""What policies would earn, from a log of shown ads that another one made."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from rankloop.bandits.ad_log import AdLog, split_rows
from rankloop.bandits.policies import Policy, Uniform
from rankloop.core.types import Floats
from rankloop.evaluation.off_policy.estimators import (
    SPANS,
    Options,
    check_options,
    concluded,
    method_of,
    series_of,
)
from rankloop.evaluation.off_policy.sums import Sums
from rankloop.evaluation.report import CURRENT, UNIFORM, Report, unit_of
from rankloop.logs.context import Encoding
from rankloop.logs.rows import Rows
from rankloop.logs.table import LogTable

Watch = Callable[[int], None]  # called with the number of rows that have been read


class RewardModel(NamedTuple):
    """The expected reward of ad a for context x is base[a] + weights[a] · x, cut to the range of seen rewards."""

    base: Floats
    weights: Floats  # (n_ads, n_context)
    least: float
    most: float

    def predict(self, contexts: Floats) -> Floats:
        """(n_people, n_ads)."""
        return np.clip(self.base + contexts @ self.weights.T, self.least, self.most)


def fit_reward_model(log: AdLog, ridge: float = 10.0) -> RewardModel:
    """Ridge regression around each ad's own mean, which is itself drawn to the mean of all ads."""
    overall, n_context = float(log.rewards.mean()), log.contexts.shape[1]
    centre = log.contexts.mean(axis=0)
    base, weights = np.full(log.n_ads, overall), np.zeros((log.n_ads, n_context))
    for ad in range(log.n_ads):
        shown = log.ads == ad
        rows, rewards = log.contexts[shown] - centre, log.rewards[shown]
        base[ad] = (rewards.sum() + ridge * overall) / (len(rewards) + ridge)
        gram = rows.T @ rows + ridge * np.eye(n_context)
        weights[ad] = np.linalg.solve(gram, rows.T @ (rewards - base[ad]))
    least, most = float(log.rewards.min()), float(log.rewards.max())
    return RewardModel(base - weights @ centre, weights, least, most)


def evaluate_policies(
    log: LogTable,
    encoding: Encoding,
    policies: Mapping[str, Policy],
    *,
    method: str = "snips",
    options: Options | None = None,
    model: RewardModel | None = None,
    seed: int = 0,
    share: float = 0.5,
    watch: Watch = lambda rows: None,
) -> Report:
    """Estimate each policy on the rows that `train_policy` left out with this seed and share (0: all of them).

    The current policy is evaluated by the mean of what it earned, the others by `method`, and with them one that shows
    ads at random.
    """
    options, known = options or Options(), method_of(method)
    check_options(options, known)
    others = {**policies, UNIFORM: Uniform(n_ads=len(encoding.ads))}
    current, sums = Sums(), {name: Sums() for name in others}
    n_rows, n_training, n_rewarded = 0, 0, 0
    for rows, training in split_rows(log, encoding, seed, share):
        n_rows, n_training = n_rows + len(training), n_training + int(training.sum())
        n_rewarded += int((rows.rewards > 0).sum())
        held_out = rows.take(~training)
        current.add(
            series_of(Rows(held_out.rewards, held_out.propensities, held_out.propensities), "ips", options.limit)
        )
        for name, policy in others.items():
            sums[name].add(series_of(policy_rows(held_out, policy, model), known, options.limit))
        watch(n_rows)
    estimates = {CURRENT: concluded(current, "ips", options)}
    estimates |= {name: concluded(sums[name], method, options, SPANS[known]) for name in others}
    context = encoding.described + log.columns.unused
    return Report(n_rows, n_training, n_rewarded, len(encoding.ads), estimates, unit_of(current), context)


def policy_rows(log: AdLog, policy: Policy, model: RewardModel | None = None) -> Rows:
    """The log with a policy's probabilities of what was shown, and a reward model's values where there is one."""
    shares, own = policy.probabilities(log.contexts), (np.arange(len(log.ads)), log.ads)
    if model is None:
        return Rows(log.rewards, log.propensities, shares[own])
    values = model.predict(log.contexts)
    return Rows(log.rewards, log.propensities, shares[own], values[own], (shares * values).sum(axis=1))
