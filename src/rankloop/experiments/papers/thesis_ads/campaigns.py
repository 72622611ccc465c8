"""Policies trained on a targeted log and judged on a random one, on simulated campaigns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import default_rng

from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.campaigns.baselines import fit_cost_sensitive, fit_forest, fit_logistic
from rankloop.bandits.campaigns.campaign import IMPRESSIONS, Campaign
from rankloop.bandits.campaigns.labelled_logs import most_informative
from rankloop.bandits.policies import EpsilonGreedy, LinearScorer, Policy, Scorer, Uniform
from rankloop.bandits.policy_evaluation import policy_rows
from rankloop.bandits.thresholds import Criterion
from rankloop.bandits.train import AdLog, fit_rankers, fit_thresholds
from rankloop.core.types import Floats, Ints
from rankloop.evaluation.off_policy.estimators import estimate as off_policy

Domain = Literal["hotel", "bank"]
DOMAINS: tuple[Domain, ...] = ("hotel", "bank")
CRITERIA: tuple[Criterion, ...] = ("f1", "midpoint", "click_rate")
CLASSIFIERS = ("logistic", "forest", "cost-sensitive")
POLICIES = (*(f"ranker, {criterion}" for criterion in CRITERIA), *CLASSIFIERS, "random")
EXPLORED = 0.2
RATIO = 1.0  # unclicked per clicked example, for the classifiers
N_CONTEXT, INFORMATIVE = 25, 5
TESTED = 100_000
TARGETING = 0.5  # how far the targeted policy's odds move with a person's last features


@dataclass(frozen=True, kw_only=True)
class Targeted:
    """The campaign's own policy: ads by their shares of table 5.2, moved a little by who visits.

    It goes by features that do not tell who clicks, so that its log has the click rates of the table.
    """

    domain: Domain

    def probabilities(self, contexts: Floats) -> Floats:
        shares = np.array(IMPRESSIONS[self.domain], dtype=np.float64)
        odds = shares * np.exp(TARGETING * contexts[:, -len(shares) :])
        found: Floats = odds / odds.sum(axis=1, keepdims=True)
        return found


@dataclass(frozen=True, kw_only=True)
class OnFeatures:
    """A scorer that looks at selected features alone."""

    inner: Scorer
    columns: Ints

    def scores(self, contexts: Floats) -> Floats:
        return self.inner.scores(np.ascontiguousarray(contexts[:, self.columns]))


class Task(NamedTuple):
    """One repeat of one domain."""

    domain: Domain
    repeat: int
    share: float  # of the impressions and of the tested visitors
    n_trees: int


class Result(NamedTuple):
    """For each of POLICIES the estimate, its lower bound and the true click rate; then the training log's own."""

    estimates: list[float]
    lowers: list[float]
    truths: list[float]
    impressions: list[int]
    rates: list[float]


def campaign_of(domain: Domain) -> Campaign:
    return Campaign(domain=domain, n_context=N_CONTEXT, informative=INFORMATIVE)


def judged(task: Task) -> Result:
    campaign = campaign_of(task.domain)
    rng = default_rng(task.repeat)
    train = targeted_log(campaign, task.share, rng)
    test = campaign.log(Uniform(n_ads=train.n_ads), round(task.share * TESTED), rng)
    scorers = _scorers(train, task.n_trees, rng)
    policies: list[Policy] = [EpsilonGreedy(scorer=scorer, epsilon=EXPLORED) for scorer in scorers]
    truths = [campaign.value(policy, 20_000, default_rng(task.repeat)) for policy in policies]
    policies.append(Uniform(n_ads=train.n_ads))
    found = [off_policy([policy_rows(test, policy)]) for policy in policies]
    uniform = float(np.mean(campaign.rates))
    return Result([f.value for f in found], [f.lower for f in found], [*truths, uniform], *counts(train))


def counts(log: AdLog) -> tuple[list[int], list[float]]:
    """How often each ad was shown, and its clicks per impression."""
    own = [log.rewards[log.ads == ad] for ad in range(log.n_ads)]
    return [len(rewards) for rewards in own], [float(rewards.mean()) for rewards in own]


def targeted_log(campaign: Campaign, share: float, rng: np.random.Generator) -> AdLog:
    """A `share` of the impressions of table 5.2."""
    return campaign.log(Targeted(domain=campaign.domain), round(share * sum(IMPRESSIONS[campaign.domain])), rng)


def _scorers(log: AdLog, n_trees: int, rng: np.random.Generator) -> list[Scorer]:
    columns = most_informative(log.contexts, log.rewards)
    seen = log._replace(contexts=np.ascontiguousarray(log.contexts[:, columns]))
    weights = fit_rankers(seen, AUCRanker()).weights
    scorers: list[Scorer] = [
        *(LinearScorer(weights, fit_thresholds(seen, weights, criterion)) for criterion in CRITERIA),
        fit_logistic(seen, ratio=RATIO, rng=rng),
        fit_forest(seen, ratio=RATIO, n_trees=n_trees, rng=rng),
        fit_cost_sensitive(seen),
    ]
    return [OnFeatures(inner=scorer, columns=columns) for scorer in scorers]
