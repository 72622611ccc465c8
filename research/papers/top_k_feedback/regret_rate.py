"""How regret grows with the horizon, from 10³ to 10⁷ rounds, beside the proved bounds."""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.types import Floats, Ints
from rankloop.experiments.analysis.curves import estimate, number
from rankloop.experiments.analysis.verdicts import Verdict, Word, growth
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.model import Chart, Finding, Table
from rankloop.experiments.run.regret import best_fixed
from rankloop.measures.base import parse_measure
from rankloop.simulate.play import play
from research.bounds.fixed_items import Bound, ftpl_regret, precision_bandit_regret, rtopk_regret, useful_from
from research.registry import Setting, reproduction
from research.task_cache import cached_map

STREAM = {"kind": "flipped_relevance", "n_items": 20, "n_relevant": 5, "flip": 0.05}
N_ITEMS, N_FIRST = 20, 5
HORIZONS, SEEDS = tuple(10**power for power in (3, 4, 5, 6, 7)), 3
MIN_HORIZONS = 2  # with fewer no exponent can be fitted
CHUNK_ROUNDS = 4096  # rounds whose regret is summed in one call
QUICK_HORIZONS, QUICK_SEEDS = (10**3, 10**4, 10**5), 2


class Rate(NamedTuple):
    """A learner, the regret that is measured, and the exponents between which it is claimed to grow."""

    name: str
    learner: dict[str, Any]
    users: dict[str, Any]
    measure: str
    low: float
    high: float
    claim: str
    paper: str
    bound: Callable[[int], Bound]


FIRST_ITEM = {"kind": "top_k", "depth": 1}
PUBLISHED = {"kind": "rtopk", "estimator": "exploration"}  # the papers learn from exploring rounds only
PRECISION = f"P@{N_FIRST}"
RATES = (
    Rate(
        "rtopk, first item", PUBLISHED, FIRST_ITEM, "DCG", 0.6, 0.73,
        "With feedback on the first item the regret grows as T^(2/3)",
        "thesis, section 3.2.8: the minimax regret of DCG is Θ(T^(2/3))",
        lambda horizon: rtopk_regret("DCG", N_ITEMS, 1, horizon),
    ),
    Rate(
        "ftpl, all items", {"kind": "ftpl"}, {"kind": "full"}, "DCG", 0.4, 0.55,
        "With full feedback it grows as T^(1/2)",
        "thesis, section 3.4.1: O(T^(1/2))",
        lambda horizon: ftpl_regret("DCG", N_ITEMS, horizon),
    ),
    Rate(
        "rtopk, first item", PUBLISHED | {"measure": PRECISION}, FIRST_ITEM, PRECISION, 0.6, 0.73,
        f"For {PRECISION} the same learner has T^(2/3) as well",
        "thesis, Corollary 22: O(n·m^(2/3)·T^(2/3))",
        lambda horizon: rtopk_regret(PRECISION, N_ITEMS, 1, horizon),
    ),
    Rate(
        "precision_bandit, first item", {"kind": "precision_bandit", "n": N_FIRST}, FIRST_ITEM, PRECISION, 0.4, 0.55,
        f"and precision_bandit T^(1/2): feedback on the first item is enough for {PRECISION}",
        "left open there (Chaudhuri and Tewari 2015, section 11): can Precision@k have O(T^(1/2))?",
        lambda horizon: precision_bandit_regret(N_FIRST, N_ITEMS, 1, horizon),
    ),
)  # fmt: skip


class Task(NamedTuple):
    """One run: RATES[rate] for so many rounds."""

    rate: int
    horizon: int
    seed: int


def regret_of(task: Task) -> float:
    """The regret at the end of a run whose learner knows the horizon."""
    rate = RATES[task.rate]
    learner = dataclasses.replace(build(rate.learner, "learner"), horizon=task.horizon)
    stream, users = build(STREAM, "stream"), build(rate.users, "feedback")
    best = best_fixed(parse_measure(rate.measure), stream.problem)
    if best is None:
        raise TypeError(f"there is no regret of {rate.measure}")
    rounds = play(learner, stream, users, horizon=task.horizon, seed=task.seed)
    while chunk := [(round.decision.ranking, round.relevance) for round in islice(rounds, CHUNK_ROUNDS)]:
        best.add(np.array([ranking for ranking, _ in chunk]), np.array([relevance for _, relevance in chunk]))
    return best.lead()


@reproduction("regret-rate", takes=("rounds",), title="How regret grows with the number of rounds")
def regret_rate(setting: Setting) -> Finding:
    """Measure the growth of regret up to the largest number of rounds, or to as many as the options allow."""
    horizons, n_seeds = (QUICK_HORIZONS, QUICK_SEEDS) if setting.quick else (HORIZONS, SEEDS)
    if setting.options.rounds is not None:
        horizons = tuple(horizon for horizon in horizons if horizon <= setting.options.rounds)
        if len(horizons) < MIN_HORIZONS:
            raise InvalidInput(f"--rounds must be at least {HORIZONS[MIN_HORIZONS - 1]}: an exponent needs two lengths")
    tasks = [Task(i, horizon, seed) for horizon in horizons for i in range(len(RATES)) for seed in range(n_seeds)]
    regrets = np.reshape(cached_map(setting, tasks, regret_of), (len(horizons), len(RATES), n_seeds))
    return finding(np.array(horizons), regrets.transpose(1, 2, 0))


def finding(horizons: Ints, regrets: Floats) -> Finding:
    """`regrets` holds for each of RATES a row per seed and a column per horizon."""
    slopes = [np.array([growth(horizons, row / horizons) for row in rows]) for rows in regrets]
    return Finding(
        text=(
            "20 items of which 5 are relevant, each grade flipped with probability 0.05. Each point is a run of that "
            "length whose learner knew the length. Dashed: the proved bounds, drawn where they say more than that "
            "every round was the worst possible."
        ),
        claims=tuple(verdict(rate, rate_slopes) for rate, rate_slopes in zip(RATES, slopes)),
        charts=tuple(_chart(measure, horizons, regrets) for measure in dict.fromkeys(rate.measure for rate in RATES)),
        tables=(_measured(horizons, regrets, slopes), _bounds(horizons, regrets)),
        facts=(("seeds", ", ".join(map(str, range(regrets.shape[1])))), ("data", "simulated")),
    )


def verdict(rate: Rate, slopes: Floats) -> Verdict:
    """Decide if the fitted exponents lie where the theory says.

    Args:
      rate: The rate of the theory.
      slopes: The fitted exponents.
    """
    inside = (rate.low <= slopes) & (slopes <= rate.high)
    word: Word = "partly" if inside.any() else "does not hold"
    if rate.low <= slopes.mean() <= rate.high:
        word = "holds"
    because = f"{rate.measure}, fitted exponent {estimate(slopes)}, claimed {rate.low} to {rate.high}"
    return Verdict(rate.claim, word, because, rate.paper)


def _chart(measure: str, horizons: Ints, regrets: Floats) -> Chart:
    lines: list[Line] = []
    for colour, (rate, rows) in enumerate(zip(RATES, regrets)):
        if rate.measure == measure:
            bounds = [rate.bound(int(horizon)) for horizon in horizons]
            promised = np.array([[np.nan if bound.vacuous else bound.regret for bound in bounds]])
            lines += [Line(rate.name, rows, colour), Line(f"bound of {rate.learner['kind']}", promised, role="floor")]
    name = measure.replace("@", "")
    title = f"Regret in {measure} against the best fixed ranking"
    return chart(name, title, horizons, lines, x_label="rounds", y_label="regret", log_x=True, log_y=True)


def _measured(horizons: Ints, regrets: Floats, slopes: Sequence[Floats]) -> Table:
    header = ("learner", "measure", *(f"T = {horizon:,}" for horizon in horizons), "exponent")
    rows = [
        (rate.name, rate.measure, *(number(value) for value in rate_regrets.mean(axis=0)), str(estimate(slope)))
        for rate, rate_regrets, slope in zip(RATES, regrets, slopes)
    ]
    return Table("Regret, mean over seeds", header, rows)


def _bounds(horizons: Ints, regrets: Floats) -> Table:
    rows = []
    for rate, rate_regrets in zip(RATES, regrets):
        bound, start = rate.bound(int(horizons[-1])), useful_from(rate.bound, N_ITEMS)
        ratio = bound.regret / rate_regrets[:, -1].mean()
        since = "always vacuous" if start is None else f"useful from T = {start:,}"
        rows.append((rate.name, rate.measure, number(bound.regret), number(ratio), since))
    header = ("learner", "measure", f"bound at T = {horizons[-1]:,}", "times the measured", "vacuous until")
    return Table("The proved bounds", header, rows)
