"""What policies would earn, from a log of single choices that another one made."""

import os
from collections.abc import Mapping

import numpy as np

from rankloop.bandits.ad_log import AdLog, split_rows, training_rows
from rankloop.bandits.policies import Policy, Uniform
from rankloop.bandits.reward_model import RewardModel, fit_reward_model
from rankloop.bandits.saved_policy import SavedPolicy, load_policy
from rankloop.evaluation.off_policy.estimators import (
    MODELLED,
    SPANS,
    Options,
    check_options,
    concluded,
    method_of,
    series_of,
)
from rankloop.evaluation.off_policy.sums import Sums
from rankloop.evaluation.ranking_evaluation import Watch, evaluate_rows, unwatched
from rankloop.evaluation.report import CURRENT, UNIFORM, Report, unit_of
from rankloop.logs.choice_log import ChoiceLog, ChoiceRows
from rankloop.logs.context import Encoding


def evaluate_target(table: ChoiceLog, method: str = "snips", options: Options | None = None) -> Report:
    """Estimate the policy whose probabilities stand in the log's own column, on all rows."""
    return evaluate_rows(table.rows(), table.columns.target, method, options or Options())


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
    watch: Watch = unwatched,
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
    for rows, training in split_rows(table, encoding, seed, share):
        n_rows, n_training = n_rows + len(training), n_training + int(training.sum())
        n_rewarded += int((rows.rewards > 0).sum())
        log = rows.take(~training)
        current.add(series_of(ChoiceRows(log.rewards, log.propensities, log.propensities), "ips", options.limit))
        for name, policy in others.items():
            sums[name].add(series_of(policy_rows(log, policy, model), known, options.limit))
        watch(n_rows)
    estimates = {CURRENT: concluded(current, "ips", options)}
    estimates |= {name: concluded(sums[name], method, options, SPANS[known]) for name in others}
    context = encoding.described + table.columns.unused
    return Report(n_rows, n_training, n_rewarded, len(encoding.ads), estimates, unit_of(current), context)


def evaluate_saved_policy(
    table: ChoiceLog,
    policy: SavedPolicy | str | os.PathLike[str],
    *,
    name: str = "",
    method: str = "snips",
    options: Options | None = None,
    seed: int = 0,
    watch: Watch = unwatched,
) -> Report:
    """Estimate what `save_policy` wrote on a log that it has not learned from.

    All rows count; where the method needs a reward model, a random half fits it and the other half counts.
    """
    if not isinstance(policy, SavedPolicy):
        name, policy = name or f"policy of {os.path.basename(policy)}", load_policy(policy)
    model, share = None, 0.0
    if method_of(method) in MODELLED:
        share = 0.5
        model = fit_reward_model(training_rows(table, policy.encoding, seed, share))
    return evaluate_policies(
        table,
        policy.encoding,
        {name or "policy": policy.policy},
        method=method,
        options=options,
        model=model,
        seed=seed,
        share=share,
        watch=watch,
    )


def policy_rows(log: AdLog, policy: Policy, model: RewardModel | None = None) -> ChoiceRows:
    """The log with a policy's probabilities of what was shown, and a reward model's values where there is one."""
    shares, own = policy.probabilities(log.contexts), (np.arange(len(log.ads)), log.ads)
    if model is None:
        return ChoiceRows(log.rewards, log.propensities, shares[own])
    values = model.predict(log.contexts)
    return ChoiceRows(log.rewards, log.propensities, shares[own], values[own], (shares * values).sum(axis=1))
