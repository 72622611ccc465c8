"""The block estimator is unbiased, by enumeration of everything that can be drawn in a block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.registry import build
from rankloop.core.types import Floats, Relevances
from rankloop.learners._shared.blocks import (
    OpenBlock,
    block_length,
    cell_first,
    cell_to_explore,
    cells_left,
    exploration_probability,
    is_on_top,
    log_prob_of_exploring,
    open_block,
    with_round,
)
from rankloop.learners._shared.linear_measure import GRADE, GainForm
from rankloop.learners.rtopk import RTopK
from rankloop.simulate.play import play

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
                    stack.append((weight * share * likely, with_round(block, cell, used, GainForm(GRADE, 0.0))))


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


counts = st.lists(st.integers(0, 2), min_size=1, max_size=6)


def cells(n_items: int, depth: int) -> list[list[int]]:
    return [list(range(start, min(start + depth, n_items))) for start in range(0, n_items, depth)]


@settings(deadline=None)
@given(explored=counts, rounds_left=st.integers(-3, 9), whether=st.floats(0, 0.999), which=st.floats(0, 0.999))
def test_cell_to_explore(explored: list[int], rounds_left: int, whether: float, which: float) -> None:
    left = [cell for cell, times in enumerate(explored) if times == 0]
    probability = 0.0 if not left else 1.0 if rounds_left <= len(left) else len(left) / rounds_left
    array = np.array(explored)
    assert cells_left(array) == len(left)
    assert exploration_probability(len(left), rounds_left) == probability
    expected = left[int(which * len(left))] if whether < probability else -1
    assert cell_to_explore(array, len(left), rounds_left, whether, which) == expected


@settings(deadline=None)
@given(order=st.permutations(range(7)), depth=st.integers(1, 8), data=st.data())
def test_cell_first(order: list[int], depth: int, data: st.DataObject) -> None:
    groups = cells(7, depth)
    cell = data.draw(st.integers(0, len(groups) - 1))
    inside = [item for item in order if item in groups[cell]]
    outside = [item for item in order if item not in groups[cell]]
    assert cell_first(np.array(order), cell, depth).tolist() == inside + outside
    assert is_on_top(np.array(order), cell, depth) == (set(order[: len(inside)]) == set(inside))
    assert is_on_top(cell_first(np.array(order), cell, depth), cell, depth)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("seen", [1, 2, 4])
def test_log_prob_of_exploring_by_counting(depth: int, seen: int) -> None:
    groups = cells(4, depth)
    explored = np.array([1] + [0] * (len(groups) - 1)) if len(groups) > 1 else np.array([0])
    open_cells = [cell for cell in range(len(groups)) if explored[cell] == 0]
    shown: dict[tuple[int, ...], float] = {}
    orders = list(permutations(range(4)))
    for cell in open_cells:
        for order in orders:
            top = tuple(cell_first(np.array(order), cell, depth)[:seen].tolist())
            shown[top] = shown.get(top, 0.0) + 1 / len(open_cells) / len(orders)
    for order in orders:
        found = math.exp(log_prob_of_exploring(explored, np.array(order), depth, seen))
        assert found == pytest.approx(shown.get(order[:seen], 0.0))


@pytest.mark.parametrize("delivery", ["late(rounds=40)", "lost(share=0.3)", "repeated(share=0.5)"])
def test_blocks_close_complete_however_feedback_travels(delivery: str) -> None:
    """A block closes only when its rounds are over and every cell was seen; what comes later is dropped and counted."""
    learner = RTopK(horizon=2000, blocks=50)
    stream, people = build("flipped_relevance(n_items=6, n_relevant=2)"), build("top_k(depth=2)")
    rounds = list(play(learner, stream, people, horizon=2000, seed=4, delivery=build(delivery)))
    state, dropped = rounds[0].state, 0
    for arrival in (arrival for turn in rounds for arrival in turn.arrived):
        before, state = state, learner.learn(state, *arrival)
        block, cell = arrival.decision.receipt
        dropped += block != before.open.number
        if state.open.number > before.open.number:
            seen = set(np.flatnonzero(before.open.explored)) | {cell}
            assert seen >= {0, 1, 2}
            assert before.open.rounds + 1 >= block_length(before.closed, 2000, 50)
    assert state.open.number >= 30
    assert state.dropped == dropped == rounds[-1].learned.dropped
    assert (dropped > 0) == (delivery != "lost(share=0.3)")
