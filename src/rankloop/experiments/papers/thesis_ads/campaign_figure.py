"""What the simulated campaigns say of policies for ads that few people click: figure 5.2 of the thesis."""

from __future__ import annotations

import numpy as np

from rankloop.bandits.thresholds import Criterion
from rankloop.core.types import Floats
from rankloop.experiments.analysis.curves import estimate, number
from rankloop.experiments.analysis.verdicts import Verdict, Word, word_of
from rankloop.experiments.papers.registry import Setting, reproduction
from rankloop.experiments.papers.thesis_ads.campaigns import CRITERIA, DOMAINS, POLICIES, Repeat, Result, evaluate
from rankloop.experiments.report.charts import dots
from rankloop.experiments.report.model import Chart, Finding, Table
from rankloop.experiments.run.task_cache import cached_map

REPEATS, QUICK_REPEATS = 10, 2
TREES, QUICK_TREES = 200, 50
QUICK_SHARE = 0.2


@reproduction("thesis-5.2", title="Policies for ads that few people click, judged on random logs")
def thesis_5_2(setting: Setting) -> Finding:
    repeats, share, trees = (QUICK_REPEATS, QUICK_SHARE, QUICK_TREES) if setting.quick else (REPEATS, 1.0, TREES)
    tasks = [Repeat(domain, repeat, share, trees) for domain in DOMAINS for repeat in range(repeats)]
    results = cached_map(setting, tasks, evaluate)
    return finding([results[position * repeats : (position + 1) * repeats] for position in range(len(DOMAINS))])


def finding(results: list[list[Result]]) -> Finding:
    """One list of repeats per domain."""
    columns = [np.array([[r.estimates, r.lowers, r.truths] for r in rows]) for rows in results]
    return Finding(
        text=(
            "Simulated campaigns with the impressions and click rates of table 5.2, in place of logs that are not "
            "public. Policies learn from a targeted log, on the fifth of the features with the largest information "
            "gain, classifiers with as many unclicked as clicked examples, and are judged on a random log by "
            "importance weighting with ε = 0.2. The simulation knows the true click rates too: by these the claims are "
            "judged. The thesis leaves open which threshold its rankers had; three are shown."
        ),
        claims=claims(columns),
        charts=(_chart(columns),),
        tables=(_training(results), *(_table(name, values) for name, values in zip(DOMAINS, columns))),
    )


def claims(columns: list[Floats]) -> tuple[Verdict, ...]:
    """`columns` holds per domain (repeat, estimate or lower bound or truth, policy)."""
    hotel, bank = columns
    by_threshold = [
        verdict
        for criterion in CRITERIA
        for verdict in (
            _gain(f"hotel, threshold {criterion}: the ranker policy beats the forest", hotel, criterion, "forest"),
            _gain(
                f"bank, threshold {criterion}: with far fewer clicks it does so by 15 % or more",
                *(bank, criterion, "forest", 0.15),
                paper="figure 5.2: 15–25 % on the two banks' logs",
            ),
            _gain(f"bank, threshold {criterion}: it beats balanced logistic regression", bank, criterion, "logistic"),
        )
    ]
    return (*by_threshold, _covered(columns))


def _gain(
    text: str, values: Floats, criterion: Criterion, other: str, least: float = 0.0, paper: str = "figure 5.2: it does"
) -> Verdict:
    """By the true click rates, repeat by repeat, the difference being paired; the estimates are shown beside."""
    own, against = CRITERIA.index(criterion), POLICIES.index(other)
    estimated, _, true = (values[:, :, own] / values[:, :, against] - 1.0).T
    mean, error = estimate(true)
    word: Word = "partly" if mean > 0.0 else "does not hold"
    if mean - 2.0 * error > least:
        word = "holds"
    guess = estimate(estimated)
    by_estimates = f"{guess.mean:+.1%} ± {guess.error:.1%} by the estimates"
    return Verdict(text, word, f"gain {mean:+.1%} ± {error:.1%} by true click rates, {by_estimates}", paper)


def _covered(columns: list[Floats]) -> Verdict:
    below = np.concatenate([(values[:, 1] <= values[:, 2]).ravel() for values in columns])
    share, slack = float(below.mean()), 3.0 * float(np.sqrt(0.95 * 0.05 / len(below)))
    because = f"{share:.1%} of {len(below)}"
    return Verdict("The 95 % lower bounds are below the true click rates", word_of(share >= 0.95 - slack), because)


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
        (name, *(f"{100 * estimate(values[:, column, k]).mean:.3f} %" for column in range(3)))
        for k, name in enumerate(POLICIES)
    ]
    note = f"Means over {len(values)} repeats; the estimate of a single log is uncertain by "
    spread = number(100 * float(values[:, 0, 0].std(ddof=1)))
    return Table(f"Click rates on the {domain}'s campaign", header, rows, f"{note}{spread} percentage points.")
