"""Policies trained on a targeted log and judged on a random one, on simulated campaigns: figure and table 5.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng

from rankloop.ads.auc_ranker import AUCRanker
from rankloop.ads.bandit_data import most_informative
from rankloop.ads.baselines import fit_cost_sensitive, fit_forest, fit_logistic
from rankloop.ads.campaign import IMPRESSIONS, Campaign
from rankloop.ads.judging import policy_rows
from rankloop.ads.policies import EpsilonGreedy, Policy, Scorer, Uniform
from rankloop.ads.training import AdLog, fit_rankers
from rankloop.core.types import Floats, Ints
from rankloop.evaluation.off_policy import estimate as off_policy
from rankloop.experiments.claims import Verdict, Word
from rankloop.experiments.curves import estimate, number
from rankloop.experiments.findings import Chart, Finding, Table
from rankloop.experiments.reproducing import Setting, reproduction
from rankloop.experiments.reproductions.ads_chart import dots

DOMAINS = ("hotel", "bank")
POLICIES = ("ranker", "logistic", "forest", "cost-sensitive", "random")
EXPLORED = 0.2
RATIO = 1.0  # unclicked per clicked example, for the classifiers
N_CONTEXT, INFORMATIVE = 25, 5
REPEATS, QUICK_REPEATS = 10, 2
TESTED, QUICK_SHARE = 100_000, 0.2
TREES, QUICK_TREES = 200, 50
TARGETING = 0.5  # how far the targeted policy's odds move with a person's last features


@dataclass(frozen=True, kw_only=True)
class Targeted:
    """The campaign's own policy: ads by their shares of table 5.2, moved a little by who visits.

    It goes by features that do not tell who clicks, so that its log has the click rates of the table.
    """

    domain: str

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

    domain: str
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


def judged(task: Task) -> Result:
    campaign = Campaign(domain=task.domain, n_context=N_CONTEXT, informative=INFORMATIVE)  # type: ignore[arg-type]
    rng = default_rng(task.repeat)
    train = campaign.log(Targeted(domain=task.domain), round(task.share * sum(IMPRESSIONS[task.domain])), rng)
    test = campaign.log(Uniform(n_ads=train.n_ads), round(task.share * TESTED), rng)
    scorers = _scorers(train, task.n_trees, rng)
    policies: list[Policy] = [EpsilonGreedy(scorer=scorer, epsilon=EXPLORED) for scorer in scorers]
    truths = [campaign.value(policy, 20_000, default_rng(task.repeat)) for policy in policies]
    policies.append(Uniform(n_ads=train.n_ads))
    found = [off_policy([policy_rows(test, policy)]) for policy in policies]
    shown = [int((train.ads == ad).sum()) for ad in range(train.n_ads)]
    rates = [float(train.rewards[train.ads == ad].mean()) for ad in range(train.n_ads)]
    uniform = float(np.mean(campaign.rates))
    return Result([f.value for f in found], [f.lower for f in found], [*truths, uniform], shown, rates)


def _scorers(log: AdLog, n_trees: int, rng: np.random.Generator) -> list[Scorer]:
    columns = most_informative(log.contexts, log.rewards)
    seen = log._replace(contexts=np.ascontiguousarray(log.contexts[:, columns]))
    scorers: list[Scorer] = [
        fit_rankers(seen, AUCRanker()),
        fit_logistic(seen, ratio=RATIO, rng=rng),
        fit_forest(seen, ratio=RATIO, n_trees=n_trees, rng=rng),
        fit_cost_sensitive(seen),
    ]
    return [OnFeatures(inner=scorer, columns=columns) for scorer in scorers]


@reproduction("thesis-5.2", title="Policies for ads that few people click, judged on random logs")
def thesis_5_2(setting: Setting) -> Finding:
    repeats, share, trees = (QUICK_REPEATS, QUICK_SHARE, QUICK_TREES) if setting.quick else (REPEATS, 1.0, TREES)
    tasks = [Task(domain, repeat, share, trees) for domain in DOMAINS for repeat in range(repeats)]
    finished: list[int] = []

    def count(index: int, _: Result) -> None:
        finished.append(index)
        setting.progress(len(finished), len(tasks))

    results = setting.engine.map(tasks, judged, count)
    return finding([results[place * repeats : (place + 1) * repeats] for place in range(len(DOMAINS))])


def finding(results: list[list[Result]]) -> Finding:
    """One list of repeats per domain."""
    columns = [np.array([[r.estimates, r.lowers, r.truths] for r in rows]) for rows in results]
    return Finding(
        id="thesis-5.2",
        title="Policies for ads that few people click, judged on random logs",
        text=(
            "Simulated campaigns with the impressions and click rates of table 5.2, in place of logs that are not "
            "public. Policies learn from a targeted log, on the fifth of the features with the largest information "
            "gain, classifiers with as many unclicked as clicked examples, and are judged on a random log by "
            "importance weighting with ε = 0.2."
        ),
        claims=claims(columns),
        charts=(_chart(columns),),
        tables=(_training(results), *(_table(name, values) for name, values in zip(DOMAINS, columns))),
    )


def claims(columns: list[Floats]) -> tuple[Verdict, ...]:
    """`columns` holds per domain (repeat, what of estimate/lower/truth, policy)."""
    hotel, bank = columns
    return (
        _gain("On the hotel's campaign the ranker policy beats the forest", hotel, 2, 0.0),
        _gain("On the bank's campaign, with far fewer clicks, it does so by 15 % or more", bank, 2, 0.15),
        _gain("On the bank's campaign the ranker policy beats balanced logistic regression", bank, 1, 0.0),
        _covered(columns),
    )


def _gain(text: str, values: Floats, other: int, least: float) -> Verdict:
    """By the estimates, repeat by repeat, the difference being paired."""
    gains = values[:, 0, 0] / values[:, 0, other] - 1.0
    mean, error = estimate(gains)
    word: Word = "partly" if mean > 0.0 else "does not hold"
    if mean - 2.0 * error > least:
        word = "holds"
    true = float((values[:, 2, 0] / values[:, 2, other] - 1.0).mean())
    return Verdict(text, word, f"gain {mean:+.1%} ± {error:.1%}, by true click rates {true:+.1%}")


def _covered(columns: list[Floats]) -> Verdict:
    below = np.concatenate([(values[:, 1] <= values[:, 2]).ravel() for values in columns])
    share, slack = float(below.mean()), 3.0 * float(np.sqrt(0.95 * 0.05 / len(below)))
    word: Word = "holds" if share >= 0.95 - slack else "does not hold"
    return Verdict("The 95 % lower bounds are below the true click rates", word, f"{share:.1%} of {len(below)}")


def _chart(columns: list[Floats]) -> Chart:
    means = np.array([values[:, 0].mean(axis=0) for values in columns]).T
    lowers = np.array([values[:, 1].mean(axis=0) for values in columns]).T
    base = means[-1:]
    return dots(
        "thesis-5.2",
        "Importance weighted click rate, with 95 % lower bounds",
        DOMAINS,
        POLICIES,
        means / base,
        (means - lowers) / base,
        np.zeros(means.shape),
        y_label="times the random policy's",
    )


def _training(results: list[list[Result]]) -> Table:
    rows = []
    for domain, repeats in zip(DOMAINS, results):
        shown = np.mean([r.impressions for r in repeats], axis=0)
        rates = np.mean([r.rates for r in repeats], axis=0)
        rows += [(f"{domain}, offer {a + 1}", f"{shown[a]:,.0f}", f"{rates[a]:.2%}") for a in range(len(shown))]
    return Table("The training sets (table 5.2)", ("offer", "impressions", "clicks per impression"), rows)


def _table(domain: str, values: Floats) -> Table:
    header = ("policy", "estimate", "95 % lower bound", "true click rate")
    rows = [
        (name, *(f"{100 * estimate(values[:, what, k]).mean:.3f} %" for what in range(3)))
        for k, name in enumerate(POLICIES)
    ]
    note = f"Means over {len(values)} repeats; the estimate of a single log is uncertain by "
    spread = number(100 * float(values[:, 0, 0].std(ddof=1)))
    return Table(f"Click rates on the {domain}'s campaign", header, rows, f"{note}{spread} percentage points.")
