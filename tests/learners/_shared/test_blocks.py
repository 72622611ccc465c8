"""The block estimator is unbiased, by enumeration of everything that can be drawn in a block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, permutations

import numpy as np
import pytest

from rankloop.core.types import Floats, Relevances
from rankloop.learners._shared.blocks import (
    OpenBlock,
    cell_first,
    cell_to_explore,
    cells_left,
    exploration_probability,
    open_block,
    with_round,
)
from rankloop.learners._shared.linear_measure import GRADE, Gain

ORDERS = {(0, 1, 2): 0.6, (2, 1, 0): 0.3, (1, 2, 0): 0.1}  # how the inner learner might rank in this block


def blocks(relevance: Floats, depth: int, use_all: bool) -> Iterator[tuple[float, OpenBlock]]:
    """Every way a block can go, with its probability."""
    n_rounds, n_items = relevance.shape
    stack = [(1.0, open_block(0, math.ceil(n_items / depth), n_items))]
    while stack:
        weight, block = stack.pop()
        if block.rounds == n_rounds:
            yield weight, block
            continue
        left = cells_left(block.explored)
        probability = exploration_probability(left, n_rounds - block.rounds)
        ways = [(1 - probability, 1.0, 0.5)] + [(probability / left, 0.0, (cell + 0.5) / left) for cell in range(left)]
        for share, whether, which in ways:
            cell = cell_to_explore(block.explored, left, n_rounds - block.rounds, whether, which) if share else -1
            for order, likely in ORDERS.items():
                ranking = np.array(order) if cell < 0 else cell_first(np.array(order), cell, depth)
                seen = Relevances(ranking[:depth], relevance[block.rounds][ranking[:depth]])
                used = seen if use_all or cell >= 0 else None
                if share > 0:
                    stack.append((weight * share * likely, with_round(block, cell, used, Gain(GRADE, 0.0))))


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("use_all", [True, False])
def test_mean_of_a_block_is_unbiased(depth: int, use_all: bool) -> None:
    relevance = np.array([[0.0, 5.0, 1.0], [1.0, 3.0, 0.0], [2.0, 1.0, 7.0], [3.0, 0.0, 2.0]])  # drifting
    expected, total = np.zeros(3), 0.0
    for weight, block in blocks(relevance, depth, use_all):
        assert np.all(block.explored == 1)
        expected += weight * block.sums / block.counts
        total += weight
    assert total == pytest.approx(1.0)
    assert expected == pytest.approx(relevance.mean(axis=0))


def test_every_placing_of_the_cells_is_equally_likely() -> None:
    relevance = np.tile(np.arange(4.0)[:, None], 3)  # the grade tells the round
    placings: dict[tuple[float, ...], float] = {}
    for weight, block in blocks(relevance, 1, use_all=False):
        placing = tuple(block.sums)
        placings[placing] = placings.get(placing, 0.0) + weight
    assert set(placings) == set(permutations(range(4), 3))
    assert np.array(list(placings.values())) == pytest.approx(1 / 24)


def test_cells_in_the_order_of_sorted_times_would_be_biased() -> None:
    drifting = np.arange(5) / 4
    first = [drifting[min(times)] for times in combinations(range(5), 2)]
    assert np.mean(first) == pytest.approx(drifting.mean() - 0.25)


def test_sums_and_last_observations_would_be_biased() -> None:
    relevance = np.array([[0.0, 5.0, 1.0], [1.0, 3.0, 0.0], [2.0, 1.0, 7.0], [3.0, 0.0, 2.0]])
    expected = sum(weight * block.sums for weight, block in blocks(relevance, 1, use_all=True))
    assert np.abs(expected - relevance.mean(axis=0)).max() > 0.5
