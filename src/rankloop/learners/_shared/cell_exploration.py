"""Exploration by cells: when to put which cell of items on top, so that every item is seen at a random round."""

from __future__ import annotations

import math

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Ints

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
    """Log-probability of the first `seen` places when a random cell of those left is on top, all else at random."""
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
