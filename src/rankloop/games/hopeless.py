"""Two distributions over relevances that no feedback tells apart, though no ranking is best for both."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.kernels import ranking_of
from rankloop.core.protocols import Measure
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints, Problem, Query
from rankloop.games.analysis import analyse
from rankloop.games.enumeration import classes_of
from rankloop.games.game import Game, measure_for, name_of
from rankloop.measures.kinds import NDCG

MIN_GAP = 1e-7  # a gap up to this is none
ROUNDS_DRAWN_AT_ONCE = 256


class Twins(NamedTuple):
    """Two distributions over relevances: every ranking loses at least `gap` per round, summed over both.

    A learner cannot tell them apart, so it loses at least gap / 2 per round under one of the two.
    """

    relevances: Ints  # (n_relevances, n_items)
    first: Floats  # their probabilities
    second: Floats
    gap: float


@lru_cache(maxsize=32)
def twins(measure: Measure | str, n_items: int, depth: int, max_grade: int = 1) -> Twins:
    """Find the pair of distributions with the widest gap.

    A linear program over both distributions: maximise gap subject to equal probabilities of all grades on every `depth`
    items, and (loss of ranking − loss of 0, 1, 2, …)·first + (loss of ranking − loss of the other)·second ≥ gap for
    every ranking. The other ranking is a swap or the reverse of 0, 1, 2, …, or if there is no gap, any.

    Args:
      measure: A measure or its name.
      n_items: The number of items.
      depth: The number of top items whose grades come back.
      max_grade: Grades are 0, 1, … up to this.
    """
    built = measure_for(measure, max_grade)
    verdict = analyse(built, n_items, depth, max_grade).verdict
    if verdict != "hopeless":
        fault = f"{name_of(built)} with {n_items} items at depth {depth} is {verdict}, not hopeless"
        raise InvalidInput(f"{fault}: choose a smaller depth or a measure that cannot be learned from it")
    game = Game(measure=built, n_items=n_items, max_grade=max_grade)
    classes = classes_of(game)
    usual = [*classes.rows[classes.first], game.action(game.rankings[0][::-1])]
    for rows in (usual, classes.rows[1:]):
        best = max((_widest(game, depth, row) for row in rows), key=lambda pair: pair.gap)
        if best.gap > MIN_GAP:
            break
    return best


def _widest(game: Game, depth: int, row: int) -> Twins:
    observable, n = game.observable_terms(depth), len(game.relevances)
    result = import_extra("scipy.optimize").linprog(
        np.append(np.zeros(2 * n), -1.0),
        A_ub=np.column_stack((game.loss[0] - game.loss, game.loss[row] - game.loss, np.ones(len(game.loss)))),
        b_ub=np.zeros(len(game.loss)),
        A_eq=np.vstack(
            [np.column_stack((observable, -observable, np.zeros(len(observable)))), np.repeat([1.0, 0.0], [n, n + 1])]
        ),
        b_eq=np.append(np.zeros(len(observable)), 1.0),
        bounds=(0.0, None),
        method="highs",
    )
    if result.status != 0:
        raise InvalidInput(f"no verdict: a linear program was not solved: {result.message}")
    first, second = (np.maximum(part, 0.0) / np.maximum(part, 0.0).sum() for part in (result.x[:n], result.x[n:-1]))
    return Twins(game.relevances, first, second, game.gap_between(first, second))


@register("hopeless")
class Hopeless:
    """Stream of a fixed set of items whose best ranking cannot be learned from the grades of the first `depth` items.

    There are two distributions of relevances with the same probabilities of all grades on every `depth` items, but no
    common best ranking by the measure; `which` of them is played. On at least one of the two, the regret of any learner
    grows linearly, by half the `gap` of the pair per round. The pair is the widest that a linear program finds. Items
    get random numbers in every run. Raises `InvalidInput` for measures and depths that can be learned.
    """

    measure: Measure = NDCG()
    n_items: int = 3
    depth: int = 1
    max_grade: int = 1
    which: Literal["first", "second"] = "first"

    def __post_init__(self) -> None:
        self.twins()  # refuses what can be learned

    @property
    def problem(self) -> Problem:
        return Problem(n_features=0, n_items=self.n_items, max_grade=self.max_grade)

    def twins(self) -> Twins:
        """Return both distributions and their gap."""
        return twins(self.measure, self.n_items, self.depth, self.max_grade)  # type: ignore[arg-type]  # hashable

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        query, pair = Query("", np.empty((self.n_items, 0)), np.empty(0)), self.twins()
        names = ranking_of(rng.random(self.n_items))
        edges = np.cumsum(pair.first if self.which == "first" else pair.second)[:-1]
        while True:
            outcomes = np.searchsorted(edges, rng.random(ROUNDS_DRAWN_AT_ONCE), side="right")
            for grades in np.ascontiguousarray(pair.relevances[outcomes][:, names], dtype=np.float64):
                yield query, grades
