"""Rankers and classifiers as policies, on five UCI sets turned into logs: figure 5.1 and table 5.1 of the thesis."""

from typing import NamedTuple

import numpy as np
from numpy.random import default_rng

from rankloop.bandits.ad_log import AdLog
from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.policies import Scorer
from rankloop.bandits.train import fit_rankers
from rankloop.core.types import Floats
from rankloop.experiments.analysis.curves import estimate, number
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.model import Chart, Finding, Table
from research.charts import dots
from research.datasets.labelled import LabelledSet, read_labelled
from research.papers.thesis_ads.baselines import fit_forest, fit_logistic
from research.papers.thesis_ads.labelled_logs import bandit_log, split, undersampled
from research.papers.thesis_ads.tables import SETS, shape_of, shapes_table
from research.registry import Setting, reproduction
from research.task_cache import cached_map
from research.verdicts import word_of

QUICK_SETS = ("movement_libras", "optdigits")
REGULARISATIONS = (0.01, 0.1, 1.0, 10.0)
POLICIES = ("ranker", "logistic", "forest")
REPEATS, QUICK_REPEATS = 10, 2
TREES, QUICK_TREES = 200, 50
STEPS, STOCHASTIC_REPEATS = 1_000_000, 3
STOCHASTIC_SETS = tuple(name for name in SETS if name != "isolet")  # whose 617 features would take most of the time
UNCLICKED_PER_CLICKED = 2.0  # unclicked per clicked example, where classes are balanced
SET_UP_TEXT = (
    "Each class is an ad; one is shown to each training example at random and clicked if it is the true class. "
    "The click rate is the share of test examples to which the policy shows their class. As in the thesis, the "
    "strength of the l2 penalty is the best of 0.01, 0.1, 1 and 10 on the test part; the last table shows all. "
)


class Repeat(NamedTuple):
    """One repeat on one set, with or without under-sampling."""

    name: str
    balanced: bool
    repeat: int
    n_trees: int
    n_steps: int | None = None  # of stochastic descent; None minimises exactly


def accuracies(task: Repeat) -> list[float]:
    """The share of test examples whose class is chosen: per strength for rankers and logistic, then the forest."""
    rng = default_rng(task.repeat)
    train, test = split(read_labelled(task.name), rng)
    log = bandit_log(train, rng)
    shown = _balanced(log, rng) if task.balanced else log
    scorers: list[Scorer] = [fit_rankers(shown, _ranker(strength, task)) for strength in REGULARISATIONS]
    scorers += [
        fit_logistic(shown, regularisation=strength, n_steps=task.n_steps, rng=rng) for strength in REGULARISATIONS
    ]
    scorers.append(fit_forest(shown, n_trees=task.n_trees, rng=rng))
    return [_accuracy(scorer, test) for scorer in scorers]


def _ranker(strength: float, task: Repeat) -> AUCRanker:
    if task.n_steps is None:
        return AUCRanker(regularisation=strength)
    return AUCRanker(regularisation=strength, solver="sgd", n_pairs=task.n_steps, seed=task.repeat)


def _accuracy(scorer: Scorer, test: LabelledSet) -> float:
    return float((np.argmax(scorer.scores(test.features), axis=1) == test.labels).mean())


def _balanced(log: AdLog, rng: np.random.Generator) -> AdLog:
    rows = [np.flatnonzero(log.ads == ad) for ad in range(log.n_ads)]
    return log.take(
        np.concatenate([ad_rows[undersampled(log.rewards[ad_rows], UNCLICKED_PER_CLICKED, rng)] for ad_rows in rows])
    )


@reproduction("thesis-5.1", title="Rankers and classifiers that choose one of K ads, on five public sets")
def thesis_5_1(setting: Setting) -> Finding:
    """Reproduce the comparison of policies on labelled data sets."""
    names, repeats, trees = (QUICK_SETS, QUICK_REPEATS, QUICK_TREES) if setting.quick else (SETS, REPEATS, TREES)
    tasks = [Repeat(name, balanced, r, trees) for name in names for balanced in (False, True) for r in range(repeats)]
    results = np.array(cached_map(setting, tasks, accuracies)).reshape(len(names), 2, repeats, -1)
    return finding(names, results, shapes_table(names, [shape_of(name) for name in names]))


@reproduction("thesis-5.1-sgd", title="The same with a million stochastic steps, as the thesis trained")
def thesis_5_1_sgd(setting: Setting) -> Finding:
    """Reproduce the comparison with stochastic descent for rankers and logistic regression."""
    names, repeats = (QUICK_SETS, QUICK_REPEATS) if setting.quick else (STOCHASTIC_SETS, STOCHASTIC_REPEATS)
    steps = STEPS // 100 if setting.quick else STEPS
    trees = QUICK_TREES if setting.quick else TREES
    tasks = [Repeat(name, side, r, trees, steps) for name in names for side in (False, True) for r in range(repeats)]
    results = np.array(cached_map(setting, tasks, accuracies)).reshape(len(names), 2, repeats, -1)
    exact = finding(names, results, shapes_table(names, [shape_of(name) for name in names]))
    text = f"{SET_UP_TEXT}Rankers and logistic regression make {steps:,} steps of averaged stochastic descent each. "
    text += "Isolet, whose 617 features would take most of the time, is left out."
    return exact._replace(text=text, claims=claims(names, best_of(results)))


def finding(names: tuple[str, ...], results: Floats, shapes: Table) -> Finding:
    """`found` has the axes set, balanced, repeat, and the columns of `accuracies`."""
    best = best_of(results)
    return Finding(
        text=(
            f"{SET_UP_TEXT}The rankers minimise over all pairs exactly, where the thesis made a million steps of "
            "stochastic descent, as `thesis-5.1-sgd` does."
        ),
        claims=(*claims(names, best), untuned(names, results)),
        charts=tuple(_chart(names, best[:, side], side) for side in range(2)),
        tables=(shapes, _rates(names, best), _strengths(names, results)),
    )


def best_of(results: Floats) -> Floats:
    """(set, balanced, repeat, policy): the strength that is best on average over the repeats."""
    n = len(REGULARISATIONS)
    kinds = [results[..., :n], results[..., n : 2 * n]]
    chosen = [np.take_along_axis(k, k.mean(axis=2).argmax(-1)[:, :, None, None], axis=3)[..., 0] for k in kinds]
    return np.stack([*chosen, results[..., -1]], axis=-1)


def claims(names: tuple[str, ...], best: Floats) -> tuple[Verdict, ...]:
    """Return the claims with their verdicts.

    Args:
      names: The data sets.
      best: The best accuracies.
    """
    ranker, logistic, forest = (best[..., k].mean(axis=2) for k in range(3))
    helps, unlike = "figure 5.1: significantly, on all five", "figure 5.1: on all five"
    return (
        _on_sets("Under-sampling helps the forest policy", names, forest[:, 1] - forest[:, 0], helps),
        _on_sets("Under-sampling helps the logistic policy", names, logistic[:, 1] - logistic[:, 0], helps),
        _on_sets(
            "It changes the ranker policy by less than 0.03",
            *(names, 0.03 - np.abs(ranker[:, 1] - ranker[:, 0])),
            "figure 5.1: not affected",
        ),
        _on_sets("Without it, the ranker policy beats the logistic one", names, ranker[:, 0] - logistic[:, 0], unlike),
        _on_sets("With it, the ranker policy beats the logistic one", names, ranker[:, 1] - logistic[:, 1], unlike),
        _on_sets("Without it, the ranker policy beats the forest", names, ranker[:, 0] - forest[:, 0], unlike),
    )


def untuned(names: tuple[str, ...], results: Floats) -> Verdict:
    """Not a claim of the thesis: with the worst of the strengths, rankers lose less than logistic regression."""
    n, means = len(REGULARISATIONS), results[:, 0].mean(axis=1)
    margins = means[:, :n].min(axis=1) - means[:, n : 2 * n].min(axis=1)
    text = "With the worst penalty the ranker policy beats the logistic one: it needs no tuning"
    return _on_sets(text, names, margins, "")


def _on_sets(text: str, names: tuple[str, ...], margins: Floats, paper: str) -> Verdict:
    """It holds where the margin is positive on every set, partly where on some."""
    because = "; ".join(f"{name}: margin {number(m)}" for name, m in zip(names, margins.tolist()))
    return Verdict(text, word_of(int((margins > 0).sum()), len(margins)), because, paper)


def _chart(names: tuple[str, ...], best: Floats, side: int) -> Chart:
    means = best.mean(axis=1).T
    errors = best.std(axis=1, ddof=1).T / np.sqrt(best.shape[1])
    title = "With under-sampling 1:2" if side else "Without under-sampling"
    return dots(f"thesis-5.1-{side}", title, names, POLICIES, means, errors, errors, y_label="click rate")


def _rates(names: tuple[str, ...], best: Floats) -> Table:
    rows = []
    for position, name in enumerate(names):
        for side, ratio in enumerate(("all", "1:2")):
            rows.append((f"{name}, {ratio}", *(str(estimate(best[position, side, :, k])) for k in range(3))))
    return Table("Click rate, mean over repeats", ("set, unclicked examples kept", *POLICIES), rows)


def _strengths(names: tuple[str, ...], results: Floats) -> Table:
    n = len(REGULARISATIONS)
    means = results[:, 0].mean(axis=1)
    header = ("set", *(f"{kind}, {s:g}" for kind in ("ranker", "logistic") for s in REGULARISATIONS))
    rows = [(name, *(number(value) for value in means[position, : 2 * n])) for position, name in enumerate(names)]
    return Table("Click rate by strength of the penalty, without under-sampling", header, rows)
