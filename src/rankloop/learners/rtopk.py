"""Ranking with top-k feedback by a little exploration in each block of rounds: Algorithm 4 of Chaudhuri (2016)."""

import dataclasses
import functools
import math
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import PositiveCount
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ALL_POSITIONS, kernel, ranking_of, seen_count
from rankloop.core.learner import check_receipt, expect, require_finite, shown_or_all
from rankloop.core.plain_values import receipt_type
from rankloop.core.protocols import AnyLearner, Measure
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners._shared import fixed_set
from rankloop.learners.ftpl import FTPL
from rankloop.measures.kinds import DCG

NO_CELL = -1  # a round that does not explore


@kernel
def _grades_with(gains: Floats, form: int, start: float) -> Floats:
    """Return the grades that have these gains: the mean of 2^r − 1 is not 2^mean − 1."""
    above = np.log2(1.0 + gains) if form == fixed_set.GAIN_IS_EXPONENTIAL else gains
    return above + start


@kernel
def _cells_left(explored: Ints) -> int:
    """Return the number of cells that the block has not explored."""
    return int(np.sum(explored == 0))


@kernel
def _exploration_probability(n_cells: int, rounds_left: int) -> float:
    """Return the probability c/r of exploring; a block that is overdue explores until every cell was on top."""
    return n_cells / max(rounds_left, n_cells) if n_cells > 0 else 0.0


@kernel
def _cell_to_explore(explored: Ints, n_cells: int, rounds_left: int, whether: float, which: float) -> int:
    """Return one of the `n_cells` cells that are left, or −1 to explore none, by two uniform numbers."""
    # Algorithm 4, lines 5 to 8, without a plan: each placing of the cells in the block is as likely as with one.
    if whether >= _exploration_probability(n_cells, rounds_left):
        return NO_CELL
    return int(np.flatnonzero(explored == 0)[int(which * n_cells)])


@kernel
def _cell_first(order: Ints, cell: int, depth: int) -> Ints:
    """Return the items of a cell in their order, then all others in theirs: Algorithm 4, line 10."""
    is_inside = order // depth == cell
    return np.concatenate((order[is_inside], order[~is_inside]))


@kernel
def _is_on_top(ranking: Ints, cell: int, depth: int) -> bool:
    """Return true if the ranking begins with all items of the cell."""
    return bool(np.all(ranking[: min(depth, len(ranking) - cell * depth)] // depth == cell))


@kernel
def _log_prob_of_exploring(explored: Ints, ranking: Ints, depth: int, n_seen: int) -> float:
    """Return the log-probability of the seen positions when a random cell is on top and all else is random."""
    cell = ranking[0] // depth
    if explored[cell] > 0:
        return -math.inf
    size = min(depth, len(ranking) - cell * depth)
    total = -math.log(_cells_left(explored))
    for position in range(n_seen):
        on_top = position < size
        if (ranking[position] // depth == cell) != on_top:
            return -math.inf
        total -= math.log(size - position if on_top else len(ranking) - position)
    return total


def number_of_blocks(blocks: int | None, horizon: int, n_items: int, depth: int) -> int:
    """Return K = m^{1/3} · T^{2/3} / ⌈m/k⌉^{2/3} or the given number, at most T / ⌈m/k⌉ so that a block has all cells.

    Args:
      blocks: The given number; None for the theory's choice.
      horizon: T, the number of rounds.
      n_items: m, the number of items.
      depth: k, the number of graded items.
    """
    cells = math.ceil(n_items / depth)
    if horizon < cells:
        raise InvalidInput(f"horizon = {horizon} must be at least {cells}, to show {n_items} items {depth} at a time")
    theory = max(1, round(n_items ** (1 / 3) * horizon ** (2 / 3) / cells ** (2 / 3)))
    return min(theory if blocks is None else blocks, horizon // cells)


def _block_length(index: int, horizon: int, blocks: int) -> int:
    """Return the number of rounds of block i, from floor(i·T/K) to floor((i + 1)·T/K), also past the horizon."""
    return (index + 1) * horizon // blocks - index * horizon // blocks


class OpenBlock(NamedTuple):
    """The block that is being played."""

    number: int  # The running number of the block.
    rounds: int  # The number of its rounds that were learned.
    explored: Ints  # How often each cell was on top.
    sums: Floats  # The revealed gains per item.
    counts: Floats  # The number of revealed gains per item.


def _open_block(number: int, n_cells: int, n_items: int) -> OpenBlock:
    return OpenBlock(number, 0, np.zeros(n_cells, np.int64), np.zeros(n_items), np.zeros(n_items))


def _with_round(block: OpenBlock, cell: int, revealed: Relevances | None, gain: fixed_set.GainForm) -> OpenBlock:
    """Return the block after one more round."""
    number, rounds, explored, sums, counts = block
    if cell != NO_CELL:
        explored = explored.copy()
        explored[cell] += 1
    if revealed is not None:
        sums = require_finite(fixed_set.with_gains(sums, revealed.items, revealed.grades, gain.form, gain.start))
        counts = counts.copy()
        counts[revealed.items] += 1.0
    return OpenBlock(number, rounds + 1, explored, sums, counts)


class State(NamedTuple):
    """The inner learner's state, and the place of the open block in its epoch."""

    inner: Any  # The state of the inner learner.
    horizon: int  # The rounds of this epoch.
    blocks: int  # The blocks of this epoch.
    closed: int  # The number of blocks that are over.
    open: OpenBlock  # The block that is being played.
    dropped: int  # The number of feedbacks that came after their block was closed.
    depth: int  # The number of items that are graded.
    shown: int  # The number of positions that are seen, −1 for all.
    max_grade: int  # The largest grade.


class Receipt(NamedTuple):
    """The block of a ranking, and the cell that it explored (−1: none)."""

    block: int
    cell: int


@register("rtopk")
class RTopK:
    """Ranking with top-k feedback: explore in a few rounds of each block, and follow the inner learner in the others.

    The `horizon` T is cut into K `blocks`. In each, every cell of k = depth items is on top once, at a random round.
    The mean gains that the block reveals are one round of full information for the `inner` learner:

      inner ← learn(inner, mean gain of each item over the block),  K = m^{1/3}·T^{2/3} / ⌈m/k⌉^{2/3}.

    Without a horizon there are epochs of doubling length, each from the first state. The regret against the best fixed
    ranking is O(T^{2/3}) for any sequence of grades, which is the best possible for DCG and SumLoss at k = 1; for P@n
    `precision_bandit` is faster. Feedback that comes after its block was closed is dropped and counted. `log_prob` is
    nan, except with a random filler or in rounds that cannot explore, if the inner learner has one.

    Args:
      horizon: The number of rounds, if it is known.
      blocks: K; the theory's choice if None, and at most T / ⌈m/k⌉.
      measure: The measure to maximise: DCG, SumLoss or P@n.
      filler: The order of the items below an explored cell: as the inner learner has it ("follow") or random, as in the
        published figures.
      inner: `ftpl`, `mirror_descent`, or another learner from `Relevances` without a receipt.
      estimator: Average over "all" rounds of a block, or over "exploration" rounds only, as in the papers.

    References:
      Chaudhuri and Tewari (2015), Online Ranking with Top-1 Feedback, Algorithm 1. Chaudhuri (2016), Learning to Rank:
      Online Learning, Statistical Theory and Applications, Algorithm 4.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> stream = "flipped_relevance(n_items=6, n_relevant=2)"
      >>> round(play_mean("rtopk(horizon=200)", stream, "top_k(depth=2)", "nDCG@5"), 3)
      0.832
    """

    horizon: PositiveCount | None = None
    blocks: int | None = None
    measure: Measure = DCG()
    filler: Literal["follow", "random"] = "follow"
    inner: AnyLearner = FTPL()
    estimator: Literal["all", "exploration"] = "all"

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("dropped",)
    examples: ClassVar[Examples] = (
        {},
        {"horizon": 60, "blocks": 7, "estimator": "exploration", "measure": "SumLoss"},
        {"horizon": 50, "filler": "random", "inner": "mirror_descent"},
    )

    def __post_init__(self) -> None:
        fixed_set.gain_for(self.measure)
        if self.blocks is not None and (self.blocks < 1 or self.horizon is None):
            raise InvalidInput(f"blocks = {self.blocks} must be at least 1 and divide a horizon: give the horizon too")
        if Relevances not in self.inner.accepts:
            raise InvalidInput("the inner learner must learn from Relevances, as ftpl and mirror_descent do")
        if receipt_type(self.inner) != tuple[()]:
            raise InvalidInput("the inner learner must learn without receipts, as ftpl and mirror_descent do")

    def init(self, problem: Problem) -> State:
        n_items, depth = fixed_set.size_of_fixed_set(problem), fixed_set.graded_depth(problem)
        cells = math.ceil(n_items / depth)
        horizon = n_items * cells if self.horizon is None else self.horizon  # anything shorter would only explore
        block, shown = _open_block(0, cells, n_items), shown_or_all(problem)
        return self._epoch(State((), 0, 1, 0, block, 0, depth, shown, problem.max_grade), horizon, problem)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        block = state.open
        draws = rng.random(2 + len(block.sums) if self.filler == "random" else 2)
        ranking = self._inner(state).rank(state.inner, query, rng).ranking
        cell = _cell_to_explore(block.explored, _cells_left(block.explored), self._left(state), draws[0], draws[1])
        if cell != NO_CELL:
            order = ranking_of(draws[2:]) if self.filler == "random" else ranking
            ranking = _cell_first(order, cell, state.depth)
        return Decision(ranking, self.log_prob(state, query, ranking), Receipt(block.number, cell))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        number, cell = decision.receipt
        check_receipt(NO_CELL <= cell < len(state.open.explored))
        check_receipt(cell == NO_CELL or _is_on_top(decision.ranking, cell, state.depth))
        if number != state.open.number:
            return state._replace(dropped=state.dropped + 1)
        used = cell != NO_CELL or self.estimator == "all"
        block = _with_round(state.open, cell, expect(feedback, Relevances) if used else None, self._gain)
        state = state._replace(open=block)
        return self._next_block(state, query) if self._left(state) <= 0 and not _cells_left(block.explored) else state

    def predict(self, state: State, query: Query) -> Ints:
        return self._inner(state).predict(state.inner, query)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        explored = state.open.explored
        probability = _exploration_probability(_cells_left(explored), self._left(state))
        unchanged = probability == 0.0 or (self.filler == "follow" and len(explored) == 1)
        if not unchanged and self.filler == "follow":
            return math.nan
        inner = self._inner(state)
        follow = inner.log_prob(state.inner, query, ranking) if unchanged or probability < 1.0 else -math.inf
        if unchanged or math.isnan(follow):
            return follow
        explore = _log_prob_of_exploring(explored, ranking, state.depth, seen_count(state.shown, len(ranking)))
        stay = math.log1p(-probability) + follow if probability < 1.0 else -math.inf
        return float(np.logaddexp(stay, math.log(probability) + explore))

    @functools.cached_property
    def _gain(self) -> fixed_set.GainForm:
        return fixed_set.gain_for(self.measure)

    def _left(self, state: State) -> int:
        """Return the rounds of the open block that are still to be learned; negative when it is overdue."""
        return _block_length(state.closed, state.horizon, state.blocks) - state.open.rounds

    def _inner(self, state: State) -> AnyLearner:
        return _fitted(self.inner, state.blocks, self.measure)  # type: ignore[arg-type]  # hashable

    def _epoch(self, state: State, horizon: int, problem: Problem) -> State:
        """Return the state at the start of an epoch of `horizon` rounds."""
        blocks = number_of_blocks(self.blocks, horizon, len(state.open.sums), state.depth)
        state = state._replace(horizon=horizon, blocks=blocks, closed=0)
        return state._replace(inner=self._inner(state).init(problem._replace(depth=None)))

    def _next_block(self, state: State, query: Query) -> State:
        """Hand the block's mean gains to the inner learner as grades, and open the next block."""
        inner, (number, _, explored, sums, counts) = self._inner(state), state.open
        revealed = Relevances(np.arange(len(sums)), _grades_with(sums / counts, self._gain.form, self._gain.start))
        learned = inner.learn(state.inner, query, Decision(inner.predict(state.inner, query), math.nan, ()), revealed)
        block = _open_block(number + 1, len(explored), len(sums))
        state = state._replace(inner=learned, closed=state.closed + 1, open=block)
        if self.horizon is not None or state.closed < state.blocks:
            return state
        shown = None if state.shown == ALL_POSITIONS else state.shown
        problem = Problem(query.features.shape[1], len(sums), len(query.context), shown, None, state.max_grade)
        return self._epoch(state, 2 * state.horizon, problem)


@functools.lru_cache(maxsize=256)
def _fitted(inner: AnyLearner, blocks: int, measure: Measure) -> AnyLearner:
    """Return the inner learner with one round of full information per block and the same measure."""
    fitting = {"horizon": blocks, "measure": measure}
    names = {field.name for field in dataclasses.fields(inner)}  # type: ignore[arg-type]
    return dataclasses.replace(inner, **{name: fitting[name] for name in names & set(fitting)})  # type: ignore[type-var]
