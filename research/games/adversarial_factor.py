"""Constant-factor regret against an adversary, when only the grade of the first item comes back.

The share α of the best fixed ranking's worth that a learner can keep is enclosed from both sides. Feedback reveals the
marginals z of the items' relevances. A cell is a cone of such z with one mixture q of rankings and multipliers y, where

    y_τ · z ≥ 0 for all z of the cell, and y_τ · r ≤ q·G(r) − α·G_τ(r) for all relevances r and rankings τ.

Cells are found by branch and bound; they cover all z that are sorted, and by renaming the items all others. The learner
forecasts cells by Blackwell's rule. docs/theory/constant-factor.md has the theorem with its proof.
"""

import functools
import heapq
import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.learner import expect
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.games.game import Game, measure_for
from rankloop.learners._shared.fixed_set import graded_depth, size_of_fixed_set

MAX_ITEMS = 5
MAX_MULTIPLIER = 50.0  # keeps the constant of the regret bound finite
CHECK_TOLERANCE = 1e-9


class Cell(NamedTuple):
    """Cone of marginals, spanned by its corners, with the mixture that keeps the share `factor` everywhere in it."""

    corners: Floats  # (n_items, n_items): a marginal per row, each sums to 1
    mixture: Floats  # (n_rankings,)
    multipliers: Floats  # (n_rankings, n_items)
    factor: float


class Enclosure(NamedTuple):
    """Proved bounds of the largest share: `floor` by cells that cover all marginals, `ceiling` by alike users."""

    floor: float
    ceiling: float
    hardest: Floats
    cells: tuple[Cell, ...]
    users: Floats  # (n_rankings, n_relevances): measures that feedback cannot tell apart, one for each ranking


class _Worth(NamedTuple):
    rankings: Ints  # (n_rankings, n_items)
    relevances: Floats  # (n_relevances, n_items), without the empty one, whose rounds count 0 for everybody
    worth: Floats  # (n_rankings, n_relevances)


@functools.lru_cache(maxsize=8)
def _worth_of(measure: str, n_items: int) -> _Worth:
    built = measure_for(measure, 1)
    if n_items > MAX_ITEMS or not built.higher_is_better:
        raise InvalidInput(f"a share is enclosed for at most {MAX_ITEMS} items and measures of which more is better")
    game = Game(measure=built, n_items=n_items)
    relevances = game.relevances[1:].astype(np.float64)
    worth = [[built(ranking, relevance) for relevance in relevances] for ranking in game.rankings]
    return _Worth(game.rankings, relevances, np.nan_to_num(np.array(worth)))


def _best_cell(game: _Worth, corners: Floats) -> Cell:
    """Solve the linear program of the largest share that one mixture keeps for all marginals between the corners."""
    from scipy import sparse
    from scipy.optimize import linprog

    n_rankings, n_items = len(game.worth), corners.shape[1]
    each = sparse.eye(n_rankings)
    below_worth = [
        sparse.csr_matrix(np.tile(-game.worth.T, (n_rankings, 1))),
        sparse.csr_matrix(game.worth.reshape(-1, 1)),
        sparse.kron(each, game.relevances),
    ]
    not_negative = [sparse.csr_matrix((n_rankings * len(corners), n_rankings + 1)), sparse.kron(each, -corners)]
    limits = sparse.vstack([sparse.hstack(below_worth), sparse.hstack(not_negative)]).tocsr()
    n_variables = n_rankings + 1 + n_rankings * n_items
    goal, total = np.zeros(n_variables), np.zeros((1, n_variables))
    goal[n_rankings], total[0, :n_rankings] = -1.0, 1.0
    bounds = [(0.0, None)] * n_rankings + [(0.0, 1.0)] + [(-MAX_MULTIPLIER, MAX_MULTIPLIER)] * (n_rankings * n_items)
    result = linprog(
        goal,
        A_ub=limits,
        b_ub=np.zeros(limits.shape[0]),
        A_eq=total,
        b_eq=np.ones(1),
        bounds=bounds,
        method="highs",
        options={"primal_feasibility_tolerance": CHECK_TOLERANCE / 10.0},
    )
    if result.status != 0:
        raise InvalidInput(f"the linear program of a cell could not be solved: {result.message}")
    mixture = np.maximum(result.x[:n_rankings], 0.0)
    multipliers = result.x[n_rankings + 1 :].reshape(n_rankings, n_items)
    return Cell(corners, mixture / mixture.sum(), multipliers, float(result.x[n_rankings]))


@functools.lru_cache(maxsize=16)
def enclose_factor(measure: str, n_items: int, gap: float = 0.002, max_cells: int = 2000) -> Enclosure:
    """Enclose the largest share of the best ranking's worth that can be kept from the first item's grade.

    Args:
      measure: The name of a measure, for grades 0 and 1.
      n_items: The number of items.
      gap: The search ends when ceiling and floor are that near.
      max_cells: The search ends with that many cells.
    """
    game = _worth_of(measure, n_items)
    chamber = _chamber(n_items)
    ceiling, hardest = min(((_best_cell(game, z[None]).factor, tuple(z)) for z in chamber), default=(1.0, ()))
    count = itertools.count()
    heap = [(_best_cell(game, chamber).factor, next(count), _best_cell(game, chamber))]
    while len(heap) < max_cells and heap[0][0] < ceiling - gap:
        corners = heapq.heappop(heap)[2].corners
        middle = corners[list(_longest_edge(corners))].mean(axis=0)
        ceiling, hardest = min((ceiling, hardest), (_best_cell(game, middle[None]).factor, tuple(middle)))
        for half in _halves(corners):
            cell = _best_cell(game, half)
            heapq.heappush(heap, (cell.factor, next(count), cell))
    users = _alike_users(game, np.array(hardest))
    return Enclosure(heap[0][0], ceiling, np.array(hardest), tuple(entry[2] for entry in heap), users)


def _alike_users(game: _Worth, marginals: Floats) -> Floats:
    """Solve the dual program: measures P_τ with proportional marginals from which every mixture earns little.

    Minimise the most that a ranking earns from all P_τ together, while each τ earns 1 from its own together.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    (n_rankings, n_relevances), each = game.worth.shape, sparse.eye(len(game.worth))
    earned = [sparse.csr_matrix(np.tile(game.worth, n_rankings)), sparse.csr_matrix((n_rankings, n_rankings))]
    most = sparse.hstack([*earned, -np.ones((n_rankings, 1))])
    alike = [sparse.kron(each, game.relevances.T), sparse.kron(each, -marginals[:, None])]
    total = sparse.csr_matrix(np.append(game.worth.ravel(), np.zeros(n_rankings + 1)))
    equal = sparse.vstack([total, sparse.hstack([*alike, sparse.csr_matrix((n_rankings * len(marginals), 1))])])
    goal, right = np.zeros(most.shape[1]), np.zeros(equal.shape[0])
    goal[-1] = right[0] = 1.0
    result = linprog(
        goal,
        A_ub=most.tocsr(),
        b_ub=np.zeros(n_rankings),
        A_eq=equal.tocsr(),
        b_eq=right,
        bounds=(0.0, None),
        method="highs",
        options={"primal_feasibility_tolerance": CHECK_TOLERANCE / 10.0},
    )
    if result.status != 0:
        raise InvalidInput(f"the linear program of the users could not be solved: {result.message}")
    return np.asarray(np.maximum(result.x[: n_rankings * n_relevances], 0.0).reshape(n_rankings, n_relevances))


def _chamber(n_items: int) -> Floats:
    """Return the corners of the sorted marginals."""
    return np.array([[1.0 / j] * j + [0.0] * (n_items - j) for j in range(1, n_items + 1)])


def _longest_edge(corners: Floats) -> tuple[int, int]:
    return max(itertools.combinations(range(len(corners)), 2), key=lambda edge: _length(corners, edge))


def _length(corners: Floats, edge: tuple[int, int]) -> float:
    return float(np.linalg.norm(corners[edge[0]] - corners[edge[1]]))


def check_enclosure(measure: str, enclosure: Enclosure) -> None:
    """Verify floor and ceiling without linear programs.

    The floor needs the conditions of every cell, and cells that fill the sorted marginals. The ceiling needs users who
    look alike and from whom no ranking earns more than that share.

    Args:
      measure: The name of the measure.
      enclosure: What is claimed.

    Raises:
      InvalidInput: If a condition fails by more than 1e-9.
    """
    n_items = enclosure.cells[0].corners.shape[1]
    game = _worth_of(measure, n_items)
    for cell in enclosure.cells:
        if cell.mixture.min() < 0.0 or abs(cell.mixture.sum() - 1.0) > CHECK_TOLERANCE:
            raise InvalidInput("a mixture is not a distribution")
        if (cell.multipliers @ cell.corners.T).min() < -CHECK_TOLERANCE:
            raise InvalidInput("a multiplier is negative on its cell")
        kept = cell.mixture @ game.worth - enclosure.floor * game.worth
        if (kept - cell.multipliers @ game.relevances.T).min() < -CHECK_TOLERANCE:
            raise InvalidInput(f"a mixture keeps less than {enclosure.floor}")
        if (np.diff(cell.corners, axis=1) > CHECK_TOLERANCE).any() or cell.corners.min() < 0.0:
            raise InvalidInput("a cell leaves the sorted marginals")
    if not _is_bisection([cell.corners for cell in enclosure.cells]):
        raise InvalidInput("the cells do not fill the sorted marginals")
    marginals = enclosure.users @ game.relevances
    weights = marginals.sum(axis=1, keepdims=True)
    if enclosure.users.min() < 0.0 or np.abs(marginals - weights * enclosure.hardest).max() > CHECK_TOLERANCE:
        raise InvalidInput("feedback tells the users apart")
    best = float((enclosure.users * game.worth).sum())
    if (game.worth @ enclosure.users.sum(axis=0)).max() > (enclosure.ceiling + CHECK_TOLERANCE) * best or best <= 0.0:
        raise InvalidInput(f"some ranking earns more than {enclosure.ceiling} of the best from these users")


def _is_bisection(cells: list[Floats]) -> bool:
    """Decide if cutting the chamber at the middles of longest edges leads to exactly these cells.

    The two halves of a simplex are together the simplex, so such cells cover the chamber without overlaps.
    """
    remaining = {_key(cell) for cell in cells}
    n_expected, parts = len(cells), [_chamber(cells[0].shape[1])]
    while parts and remaining and len(parts) <= n_expected:
        corners = parts.pop()
        if _key(corners) in remaining:
            remaining.remove(_key(corners))
        else:
            parts += _halves(corners)
    return not parts and not remaining and len({_key(cell) for cell in cells}) == n_expected


def _halves(corners: Floats) -> list[Floats]:
    """Cut a simplex at the middle of its longest edge."""
    ends, halves = _longest_edge(corners), []
    for end in ends:
        half = corners.copy()
        half[end] = corners[list(ends)].mean(axis=0)
        halves.append(half)
    return halves


def _key(cell: Floats) -> tuple[float, ...]:
    return tuple((np.round(cell.ravel(), 10) + 0.0).tolist())


class State(NamedTuple):
    """Sum of estimated marginals by forecast cell, its distance vectors from the cells, and the next forecast."""

    sums: Floats  # (n_cells, n_items)
    outside: Floats  # (n_cells, n_items): sums minus their projections on the cones
    forecast: Floats  # (n_cells,)
    rounds: int
    n_items: int


class ForecastReceipt(NamedTuple):
    """Cell that was forecast, and if the ranking was drawn at random to explore."""

    cell: int
    explored: bool


class _Cells(NamedTuple):
    corners: Floats  # (n_cells, n_items, n_items), of all renamings
    mixtures: Floats  # (n_cells, n_rankings)
    factor: float


@functools.lru_cache(maxsize=8)
def _all_cells(measure: str, n_items: int, gap: float) -> _Cells:
    """Return the cells of all renamings of the items."""
    enclosure, game = enclose_factor(measure, n_items, gap), _worth_of(measure, n_items)
    row_of = {tuple(ranking): row for row, ranking in enumerate(game.rankings.tolist())}
    corners, mixtures = [], []
    for names in map(np.array, itertools.permutations(range(n_items))):  # names[i]: the item in place of item i
        rows = [row_of[tuple(names[ranking])] for ranking in game.rankings]
        for cell in enclosure.cells:
            renamed, mixture = np.empty_like(cell.corners), np.empty_like(cell.mixture)
            renamed[:, names] = cell.corners
            mixture[rows] = cell.mixture
            corners.append(renamed)
            mixtures.append(mixture)
    return _Cells(np.array(corners), np.array(mixtures), enclosure.floor)


def regret_bound(measure: str, n_items: int, horizon: int, gap: float = 0.02) -> float:
    """Return the bound of the theorem, 2·(Y·√N·m)^(2/3)·T^(2/3), for N cells with multipliers of length at most Y.

    Args:
      measure: The name of the measure.
      n_items: The number m of items.
      horizon: The number T of rounds.
      gap: The gap of the enclosure whose cells are used.
    """
    cells = enclose_factor(measure, n_items, gap).cells
    longest = max(float(np.linalg.norm(cell.multipliers, axis=1).max()) for cell in cells)
    return 2.0 * math.pow(longest * math.sqrt(len(cells) * math.factorial(n_items)) * n_items * horizon, 2 / 3)


@dataclass(frozen=True, kw_only=True)
class AdversarialConstantFactor:
    """Keeps a certified share of the best fixed ranking's worth against every oblivious adversary.

    In a round with probability `exploration` a random ranking is shown, whose first grade estimates the marginals; else
    the mixture of a cell, which is forecast such that estimates stay near the cells they were forecast for.

    Args:
      measure: The name of a measure, for grades 0 and 1.
      exploration: Probability of a random ranking.
      gap: The gap of the enclosure whose cells are used.
    """

    measure: str = "nDCG"
    exploration: float
    gap: float = 0.02

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)

    def __post_init__(self) -> None:
        if not 0.0 < self.exploration <= 1.0:
            raise InvalidInput(f"exploration is a probability above 0, not {self.exploration}")

    def init(self, problem: Problem) -> State:
        """Return the state before the first round."""
        n_items = size_of_fixed_set(problem)
        if graded_depth(problem) != 1 or problem.max_grade != 1:
            raise InvalidInput("the share is certified for the grade of the first item, 0 or 1")
        shape = self.cells(n_items).corners.shape
        nothing = np.zeros(shape[:2])
        return State(nothing, nothing, np.full(shape[0], 1.0 / shape[0]), 0, n_items)

    def cells(self, n_items: int) -> _Cells:
        """Return the cells of all renamings of the items."""
        return _all_cells(self.measure, n_items, self.gap)

    def mixture(self, state: State) -> Floats:
        """Return the probability of every ranking in the next round, in the order of `Game.rankings`."""
        mixtures = self.cells(state.n_items).mixtures
        mixture = (1.0 - self.exploration) * (state.forecast @ mixtures) + self.exploration / mixtures.shape[1]
        return np.asarray(mixture)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[ForecastReceipt]:
        """Forecast a cell, and draw a ranking of its mixture or at random."""
        cells, rankings = self.cells(state.n_items), _worth_of(self.measure, state.n_items).rankings
        cell = _drawn(state.forecast, rng)
        explored = bool(rng.random() < self.exploration)
        row = int(rng.integers(len(rankings))) if explored else _drawn(cells.mixtures[cell], rng)
        log_prob = math.log(self.mixture(state)[row])
        return Decision(rankings[row].copy(), log_prob, ForecastReceipt(cell, explored))

    def learn(self, state: State, query: Query, decision: Decision[ForecastReceipt], feedback: Feedback) -> State:
        """Add the estimated marginals to the sum of the forecast cell, and forecast anew."""
        state = state._replace(rounds=state.rounds + 1)
        items, grades = expect(feedback, Relevances)
        if not decision.receipt.explored or grades[0] == 0.0:
            return state
        estimate = np.zeros(state.n_items)
        estimate[items[0]] = state.n_items / self.exploration * grades[0]
        return self.updated(state, decision.receipt.cell, estimate)

    def updated(self, state: State, cell: int, estimate: Floats) -> State:
        """Return the state after estimated marginals in a round with this forecast.

        Args:
          state: The state.
          cell: The cell that was forecast.
          estimate: Unbiased estimate of the round's relevances.
        """
        from scipy.optimize import nnls

        sums, outside = state.sums.copy(), state.outside.copy()
        sums[cell] += estimate
        corners = self.cells(state.n_items).corners[cell]
        outside[cell] = sums[cell] - corners.T @ nnls(corners.T, sums[cell])[0]
        return state._replace(sums=sums, outside=outside, forecast=self._forecast(outside))

    def _forecast(self, outside: Floats) -> Floats:
        """Return a distribution of cells under which no relevance moves the sums away from their cones on average."""
        from scipy.optimize import linprog

        n_cells, n_items = outside.shape
        relevances = _worth_of(self.measure, n_items).relevances
        limits = np.hstack([relevances @ outside.T, -np.ones((len(relevances), 1))])
        goal, total = np.zeros(n_cells + 1), np.ones((1, n_cells + 1))
        goal[-1], total[0, -1] = 1.0, 0.0
        bounds: list[Any] = [(0.0, None)] * n_cells + [(None, None)]
        result = linprog(
            goal, A_ub=limits, b_ub=np.zeros(len(limits)), A_eq=total, b_eq=np.ones(1), bounds=bounds, method="highs"
        )
        forecast = np.maximum(result.x[:-1], 0.0)
        return np.asarray(forecast / forecast.sum())

    def predict(self, state: State, query: Query) -> Ints:
        """Return the most probable ranking."""
        best: Ints = _worth_of(self.measure, state.n_items).rankings[int(np.argmax(self.mixture(state)))].copy()
        return best

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        """Return the log-probability of a whole ranking."""
        rankings = _worth_of(self.measure, state.n_items).rankings
        total = float(self.mixture(state)[(rankings == ranking).all(axis=1)].sum())
        return math.log(total) if total > 0.0 else -math.inf


def _drawn(probabilities: Floats, rng: Generator) -> int:
    return int(np.searchsorted(np.cumsum(probabilities)[:-1], rng.random(), side="right"))
