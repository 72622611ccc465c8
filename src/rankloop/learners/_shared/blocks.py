"""Blocks of rounds: how a horizon is cut into them, and the gains that one has revealed so far."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, require_finite
from rankloop.core.rankings import ranking_of
from rankloop.core.types import Floats, Ints, Relevances
from rankloop.learners._shared.cell_exploration import NO_CELL, cell_first, cell_to_explore, cells_left
from rankloop.learners._shared.linear_measure import Gain, gain_of, with_gains


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


def with_round(block: OpenBlock, cell: int, revealed: Relevances | None, gain: Gain) -> OpenBlock:
    """The block after one more round, which explored `cell` (−1: none); what it `revealed` is counted if given."""
    number, rounds, explored, sums, counts = block
    if cell != NO_CELL:
        explored = explored.copy()
        explored[cell] += 1
    if revealed is not None:
        sums = require_finite(with_gains(sums, *revealed, *gain))
        counts = counts.copy()
        counts[revealed.items] += 1.0
    return OpenBlock(number, rounds + 1, explored, sums, counts)


def with_rounds(
    block: OpenBlock,
    rankings: Ints,
    relevance: Floats,
    draws: Floats,
    rounds_left: int,
    depth: int,
    random_filler: bool,
    use_all: bool,
    gain: Gain,
) -> OpenBlock:
    """The block after one more round for each row; `rankings`, of an inner learner, become those that are shown."""
    number, rounds, explored, sums, counts = block
    explored, sums, counts = explored.copy(), sums.copy(), counts.copy()
    _play(rankings, relevance, draws, rounds_left, depth, random_filler, use_all, explored, sums, counts, *gain)
    return OpenBlock(number, rounds + len(rankings), explored, require_finite(sums), counts)


@kernel
def _play(
    rankings: Ints, relevance: Floats, draws: Floats, rounds_left: int, depth: int, random_filler: bool, use_all: bool,
    explored: Ints, sums: Floats, counts: Floats, form: int, start: float,
) -> None:  # fmt: skip
    """Rounds of one block, in place: rankings are replaced where they explore; explored, sums and counts go on."""
    n_cells = cells_left(explored)
    for t in range(len(rankings)):
        cell = cell_to_explore(explored, n_cells, rounds_left - t, draws[t, 0], draws[t, 1])
        if cell != NO_CELL:
            order = ranking_of(draws[t, 2:]) if random_filler else rankings[t]
            rankings[t] = cell_first(order, cell, depth)
            explored[cell] += 1
            n_cells -= 1
        if cell != NO_CELL or use_all:
            for position in range(depth):
                item = rankings[t, position]
                sums[item] += gain_of(relevance[t, item], form, start)
                counts[item] += 1.0
