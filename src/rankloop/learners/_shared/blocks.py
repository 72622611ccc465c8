"""Blocks of rounds: how a horizon is cut into them, which cell of items to put on top when, and the gains revealed.

In each block every cell is on top once, so that every item is seen, at a random round.
"""

import math
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.learner import require_finite
from rankloop.core.types import Floats, Ints, Relevances
from rankloop.learners._shared.linear_measure import GainForm, with_gains

NO_CELL = -1  # a round that does not explore


@kernel
def cells_left(explored: Ints) -> int:
    count = 0
    for times in explored:
        count += times == 0
    return count


@kernel
def exploration_probability(n_cells: int, rounds_left: int) -> float:
    """c/r with c cells and r rounds left: every placing of the cells in the rounds of the block is equally likely.

    A block that is overdue, because feedback came late, explores until every cell is seen.
    """
    if n_cells == 0:
        return 0.0
    return n_cells / rounds_left if n_cells < rounds_left else 1.0


@kernel
def cell_to_explore(explored: Ints, n_cells: int, rounds_left: int, whether: float, which: float) -> int:
    """Any of the `n_cells` cells that are left, or −1 to explore none; `whether` and `which` are uniform draws."""
    if whether >= exploration_probability(n_cells, rounds_left):
        return NO_CELL
    skip = int(which * n_cells)
    for cell in range(len(explored)):
        if explored[cell] == 0:
            if skip == 0:
                return cell
            skip -= 1
    return NO_CELL


@kernel
def cell_first(order: Ints, cell: int, depth: int) -> Ints:
    """The items of a cell in their order, then all others in theirs: these also fill up a cell that is short."""
    ranking = np.empty_like(order)
    inside, outside = 0, min(depth, len(order) - cell * depth)
    for item in order:
        if item // depth == cell:
            ranking[inside] = item
            inside += 1
        else:
            ranking[outside] = item
            outside += 1
    return ranking


@kernel
def is_on_top(ranking: Ints, cell: int, depth: int) -> bool:
    """Whether this ranking begins with all items of the cell, as `cell_first` has it."""
    for position in range(min(depth, len(ranking) - cell * depth)):
        if ranking[position] // depth != cell:
            return False
    return True


@kernel
def log_prob_of_exploring(explored: Ints, ranking: Ints, depth: int, seen: int) -> float:
    """Log-probability of the first `seen` positions when a random cell of those left is on top, all else at random."""
    cell = ranking[0] // depth
    if explored[cell] > 0:
        return -math.inf
    size = min(depth, len(ranking) - cell * depth)
    total = -math.log(cells_left(explored))
    for position in range(seen):
        on_top = position < size
        if (ranking[position] // depth == cell) != on_top:
            return -math.inf
        total -= math.log(size - position if on_top else len(ranking) - position)
    return total


def number_of_blocks(wanted: int | None, horizon: int, n_items: int, depth: int) -> int:
    """K = m^{1/3} · T^{2/3} / ⌈m/k⌉^{2/3} unless given, and few enough for every block to hold all ⌈m/k⌉ cells."""
    cells = math.ceil(n_items / depth)
    if horizon < cells:
        raise InvalidInput(
            f"a horizon of {horizon} rounds is too short to put {cells} cells of {depth} of the {n_items} items on top"
        )
    theory = max(1, round(n_items ** (1 / 3) * horizon ** (2 / 3) / cells ** (2 / 3)))
    return min(theory if wanted is None else wanted, horizon // cells)


def block_length(index: int, horizon: int, blocks: int) -> int:
    """Block i holds the rounds from floor(i·T/K) to floor((i + 1)·T/K), also past the horizon."""
    return (index + 1) * horizon // blocks - index * horizon // blocks


class OpenBlock(NamedTuple):
    """The block that is being played: which cells it has explored, which gains it has revealed."""

    number: int
    rounds: int  # learned so far
    explored: Ints  # how often each cell was
    sums: Floats  # revealed gains per item
    counts: Floats  # how many they are


def open_block(number: int, n_cells: int, n_items: int) -> OpenBlock:
    return OpenBlock(number, 0, np.zeros(n_cells, np.int64), np.zeros(n_items), np.zeros(n_items))


def with_round(block: OpenBlock, cell: int, revealed: Relevances | None, gain: GainForm) -> OpenBlock:
    """The block after one more round, which explored `cell` (−1: none); what it `revealed` is counted if given."""
    number, rounds, explored, sums, counts = block
    if cell != NO_CELL:
        explored = explored.copy()
        explored[cell] += 1
    if revealed is not None:
        sums = require_finite(with_gains(sums, revealed.items, revealed.grades, gain.form, gain.start))
        counts = counts.copy()
        counts[revealed.items] += 1.0
    return OpenBlock(number, rounds + 1, explored, sums, counts)
