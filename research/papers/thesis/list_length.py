"""Does the length of the lists matter? The excess risk on new queries, for lists of 10 to 1000 items."""

import math
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng

from rankloop.core.kernels import scores_of
from rankloop.core.types import Floats, Ints
from rankloop.data.dataset import Dataset
from rankloop.engine import Here
from rankloop.experiments.analysis.curves import estimate, number
from rankloop.experiments.analysis.verdicts import Verdict, Word
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.model import Finding, Table
from rankloop.training.risks.listwise import ListNetRisk
from rankloop.training.solution_path import SolverSettings, fit
from research.bounds.generalisation import chapelle_wu, constants_of, rerm, uniform
from research.papers.thesis.guaranteed_rankers import rerm_regularisation
from research.registry import Setting, reproduction
from research.task_cache import cached_map

LENGTHS, SEEDS = (10, 30, 100, 300, 1000), 10
QUICK_LENGTHS, QUICK_SEEDS = (10, 30, 100), 4
N_TRAIN, N_NEW, N_FEATURES, RADIUS, DELTA = 50, 300, 5, 5.0, 0.05
CLAIM_TEXT = "The estimation error of regularised risk minimisation does not grow with the length of the lists"
PAPER = "chapter IV: bounds with no explicit dependence on the length, m^0; the bound of Chapelle and Wu grows as √m"
GROWTH_OF_THE_OLD_BOUND = 0.5  # √m


class Task(NamedTuple):
    """One sample of queries with lists of this length."""

    n_items: int
    seed: int


def queries(n_queries: int, n_items: int, seed: int) -> Dataset:
    """Rows in the unit ball; grades 0 to 2 by their noisy score under one direction that is the same for all."""
    rng = default_rng([seed, n_items])
    features = rng.normal(size=(n_queries * n_items, N_FEATURES))
    features /= np.maximum(1.0, np.sqrt((features**2).sum(axis=1, keepdims=True)))
    noisy = features[:, 0] - features[:, 1] + 0.5 * rng.normal(size=len(features))
    grades = (noisy > 0.5).astype(np.float64) + (noisy > 1.0)
    return Dataset(features, grades, np.arange(n_queries + 1) * n_items, tuple(map(str, range(n_queries))))


def excess_risk(task: Task) -> float:
    """Return the estimation error of RERM with ListNet: its regularised risk on new queries less the least one there.

    Both sides have the same regularisation. Against the least risk without it, nearly all of the difference would be
    the bias of the regularisation, which does not depend on the length.
    """
    risk, settings = ListNetRisk(), SolverSettings(tolerance=1e-5, engine=Here())
    train, new = queries(N_TRAIN, task.n_items, 2 * task.seed), queries(N_NEW, task.n_items, 2 * task.seed + 1)
    regularisation = rerm_regularisation(constants_of("list_net", task.n_items).lipschitz, RADIUS, 1.0, N_TRAIN)
    learned = fit(train, risk, regularisation, settings=settings).weights
    best = fit(new, risk, regularisation, settings=settings).weights

    def objective(weights: Floats) -> float:
        loss = risk.of_lists(scores_of(new.features, weights), new.relevance, new.offsets)[0] / new.n_queries
        return float(loss + 0.5 * regularisation * weights @ weights)

    return objective(learned) - objective(best)


@reproduction("thesis-4-length", title="Does the length of the lists matter?")
def list_length(setting: Setting) -> Finding:
    """Measure the excess risk for lists of different lengths."""
    lengths, n_seeds = (QUICK_LENGTHS, QUICK_SEEDS) if setting.quick else (LENGTHS, SEEDS)
    tasks = [Task(length, seed) for length in lengths for seed in range(n_seeds)]
    risks = np.reshape(cached_map(setting, tasks, excess_risk), (len(lengths), n_seeds))
    return finding(np.array(lengths), risks.T)


def finding(lengths: Ints, excess: Floats) -> Finding:
    """`excess` has a row per seed and a column per length."""
    sizes = constants_of("list_net", int(lengths[-1]))
    largest = [math.log(length) + 2.0 * RADIUS for length in lengths]
    bounds = {
        "Chapelle and Wu": [
            chapelle_wu(sizes.euclidean, RADIUS, 1.0, N_TRAIN, int(m), DELTA, most) for m, most in zip(lengths, largest)
        ],
        "Theorem 36": [rerm(sizes.lipschitz, RADIUS, 1.0, N_TRAIN) for _ in lengths],
        "Theorem 38": [
            uniform(sizes.lipschitz, RADIUS, 1.0, N_TRAIN, int(m), most, DELTA) for m, most in zip(lengths, largest)
        ],
    }
    lines = [Line("measured", excess, 0)]
    lines += [Line(name, np.array([values]), role="floor") for name, values in bounds.items()]
    picture = chart(
        "excess-risk", "Estimation error on new queries", lengths, lines,
        x_label="items in a list", y_label="regularised ListNet risk above the least", log_x=True, log_y=True,
    )  # fmt: skip
    rows = [
        (f"{length:,}", str(estimate(excess[:, position])), *(number(values[position]) for values in bounds.values()))
        for position, length in enumerate(lengths)
    ]
    return Finding(
        text=(
            f"{N_TRAIN} training queries with {N_FEATURES} features, ListNet with the regularisation of Theorem 36, "
            f"judged on {N_NEW} new queries. Dashed: three bounds, of which only Chapelle and Wu's grows as √m."
        ),
        claims=(verdict(lengths, excess),),
        charts=(picture,),
        tables=(Table("Estimation error", ("items", "measured", *bounds), rows),),
        facts=(("seeds", ", ".join(map(str, range(len(excess))))), ("data", "simulated")),
    )


def verdict(lengths: Ints, excess: Floats) -> Verdict:
    """Decide if the exponent a of excess ∝ m^a stays clear of the ½ of the bound that depends on the length.

    Args:
      lengths: The lengths of the lists.
      excess: The excess risks, one row per seed and one column per length.
    """
    centred = np.log(lengths) - np.log(lengths).mean()
    slopes = (centred * np.log(np.maximum(excess, 1e-12))).sum(axis=1) / (centred**2).sum()
    mean, error = estimate(slopes)
    high = mean + 2.0 * (0.0 if math.isnan(error) else error)
    word: Word = "does not hold"
    if high <= GROWTH_OF_THE_OLD_BOUND / 4:
        word = "holds"
    elif mean <= GROWTH_OF_THE_OLD_BOUND / 2:
        word = "partly"
    because = (
        f"estimation error ∝ m^a with a = {estimate(slopes)} over {len(slopes)} seeds; the older bound grows as m^½"
    )
    return Verdict(CLAIM_TEXT, word, because, PAPER)
