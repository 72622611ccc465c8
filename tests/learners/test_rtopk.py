"""rtopk: blocks of rounds that explore every cell of items once, and what the inner learner is given."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.errors import IncompatibleFeedback, InvalidInput
from rankloop.core.registry import build
from rankloop.core.types import Decision, Floats, Problem, Query, Relevances
from rankloop.learners._shared.fixed_set import GAIN_IS_GRADE, GainForm
from rankloop.learners.ftpl import FTPL
from rankloop.learners.mirror_descent import MirrorDescent
from rankloop.learners.rtopk import (
    OpenBlock,
    Receipt,
    RTopK,
    State,
    _block_length,
    _cell_first,
    _cell_to_explore,
    _cells_left,
    _exploration_probability,
    _is_on_top,
    _log_prob_of_exploring,
    _open_block,
    _with_round,
    number_of_blocks,
)
from rankloop.simulate.play import play
from tests.feedback import relevances

ORDERS = {(0, 1, 2): 0.6, (2, 1, 0): 0.3, (1, 2, 0): 0.1}  # how the inner learner might rank in this block


def blocks(relevance: Floats, depth: int, use_all: bool) -> Iterator[tuple[float, OpenBlock]]:
    """Every way a block can go, with its probability."""
    n_rounds, n_items = relevance.shape
    stack = [(1.0, _open_block(0, math.ceil(n_items / depth), n_items))]
    while stack:
        weight, block = stack.pop()
        if block.rounds == n_rounds:
            yield weight, block
            continue
        left = _cells_left(block.explored)
        probability = _exploration_probability(left, n_rounds - block.rounds)
        ways = [(1 - probability, 1.0, 0.5)] + [(probability / left, 0.0, (cell + 0.5) / left) for cell in range(left)]
        for share, whether, which in ways:
            cell = _cell_to_explore(block.explored, left, n_rounds - block.rounds, whether, which) if share else -1
            for order, likely in ORDERS.items():
                ranking = np.array(order) if cell < 0 else _cell_first(np.array(order), cell, depth)
                seen = Relevances(ranking[:depth], relevance[block.rounds][ranking[:depth]])
                used = seen if use_all or cell >= 0 else None
                if share > 0:
                    stack.append(
                        (weight * share * likely, _with_round(block, cell, used, GainForm(GAIN_IS_GRADE, 0.0)))
                    )


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
    assert _cells_left(array) == len(left)
    assert _exploration_probability(len(left), rounds_left) == probability
    expected = left[int(which * len(left))] if whether < probability else -1
    assert _cell_to_explore(array, len(left), rounds_left, whether, which) == expected


@settings(deadline=None)
@given(order=st.permutations(range(7)), depth=st.integers(1, 8), data=st.data())
def test_cell_first(order: list[int], depth: int, data: st.DataObject) -> None:
    groups = cells(7, depth)
    cell = data.draw(st.integers(0, len(groups) - 1))
    inside = [item for item in order if item in groups[cell]]
    outside = [item for item in order if item not in groups[cell]]
    assert _cell_first(np.array(order), cell, depth).tolist() == inside + outside
    assert _is_on_top(np.array(order), cell, depth) == (set(order[: len(inside)]) == set(inside))
    assert _is_on_top(_cell_first(np.array(order), cell, depth), cell, depth)


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
            top = tuple(_cell_first(np.array(order), cell, depth)[:seen].tolist())
            shown[top] = shown.get(top, 0.0) + 1 / len(open_cells) / len(orders)
    for order in orders:
        found = math.exp(_log_prob_of_exploring(explored, np.array(order), depth, seen))
        assert found == pytest.approx(shown.get(order[:seen], 0.0))


@pytest.mark.parametrize("delivery", ["late(rounds=40)", "lost(share=0.3)", "repeated(share=0.5)"])
def test_blocks_close_complete_however_feedback_travels(delivery: str) -> None:
    """A block closes only when its rounds are over and every cell was seen; what comes later is dropped and counted."""
    learner = RTopK(horizon=2000, blocks=50)
    stream, users = build("flipped_relevance(n_items=6, n_relevant=2)"), build("top_k(depth=2)")
    rounds = list(play(learner, stream, users, horizon=2000, seed=4, delivery=build(delivery)))
    state, dropped = rounds[0].state, 0
    for arrival in (arrival for turn in rounds for arrival in turn.arrived):
        before, state = state, learner.learn(state, *arrival)
        block, cell = arrival.decision.receipt
        dropped += block != before.open.number
        if state.open.number > before.open.number:
            seen = set(np.flatnonzero(before.open.explored)) | {cell}
            assert seen >= {0, 1, 2}
            assert before.open.rounds + 1 >= _block_length(before.closed, 2000, 50)
    assert state.open.number >= 30
    assert state.dropped == dropped == rounds[-1].learned.dropped
    assert (dropped > 0) == (delivery != "lost(share=0.3)")


def query_of(n_items: int) -> Query:
    return Query.of(np.empty((n_items, 0)))


def problem_of(n_items: int, depth: int | None, **more: Any) -> Problem:
    return Problem(0, n_items, depth=depth, **more)


def play_rounds(learner: RTopK, state: State, rounds: int, grade: float = 1.0, seed: int = 0) -> list[State]:
    """States after each of some rounds in which every item has the same grade."""
    rng, states, query = np.random.default_rng(seed), [state], query_of(len(state.open.sums))
    for _ in range(rounds):
        decision = learner.rank(states[-1], query, rng)
        seen = decision.ranking[: state.depth]
        states.append(learner.learn(states[-1], query, decision, relevances(seen, np.full(len(seen), grade))))
    return states[1:]


def test_number_of_blocks() -> None:
    assert number_of_blocks(None, 10_000, 10, 1) == round(10 ** (1 / 3) * 10_000 ** (2 / 3) / 10 ** (2 / 3)) == 215
    assert number_of_blocks(None, 10_000, 20, 5) == round(20 ** (1 / 3) * 10_000 ** (2 / 3) / 4 ** (2 / 3))
    assert number_of_blocks(900, 10_000, 20, 1) == 10_000 // 20  # cells would not fit in a block
    assert number_of_blocks(None, 25, 20, 1) == 1
    with pytest.raises(InvalidInput, match="must be at least"):
        number_of_blocks(None, 19, 20, 1)


@pytest.mark.parametrize(("horizon", "blocks"), [(10, 3), (100, 7), (10_000, 215), (5, 5)])
def test_blocks_cover_the_horizon(horizon: int, blocks: int) -> None:
    lengths = [_block_length(i, horizon, blocks) for i in range(blocks)]
    assert sum(lengths) == horizon
    assert set(lengths) <= {horizon // blocks, horizon // blocks + 1}
    assert _block_length(blocks, horizon, blocks) in set(lengths)  # past the horizon


@pytest.mark.parametrize(("n_items", "depth"), [(1, 1), (1, 3), (4, 1), (5, 2), (7, 3), (4, 4), (4, 9), (4, None)])
@pytest.mark.parametrize("filler", ["follow", "random"])
def test_every_block_sees_every_item(n_items: int, depth: int | None, filler: Any) -> None:
    learner = RTopK(horizon=65, blocks=4, filler=filler, estimator="exploration")
    state = learner.init(problem_of(n_items, depth))
    states = play_rounds(learner, state, 65 + 20)
    ends = [t + 1 for t in range(1, len(states)) if states[t].open.number > states[t - 1].open.number]
    assert ends == [16, 32, 48, 65, 81]
    assert [state.inner.rounds for state in states] == [state.open.number for state in states]
    assert states[-1].inner.totals == pytest.approx(np.full(n_items, 5.0))  # every item had gain 1 in all 5 blocks


def test_cells_longer_than_a_block_clip_the_blocks() -> None:
    assert RTopK(horizon=40, blocks=30).init(problem_of(10, 1)).blocks == 4
    with pytest.raises(InvalidInput, match="must be at least"):
        RTopK(horizon=9).init(problem_of(10, 1))


def test_exploration_puts_the_cell_on_top_in_the_fillers_order() -> None:
    learner, query = RTopK(horizon=3, blocks=1), query_of(5)
    state = learner.init(problem_of(5, 2))  # cells {0, 1}, {2, 3}, {4}: all three rounds explore
    for seed in range(30):
        decision = learner.rank(state, query, np.random.default_rng(seed))
        followed = FTPL(horizon=1).rank(state.inner, query, _after(seed, 2)).ranking.tolist()
        inside = [item for item in followed if item // 2 == decision.receipt.cell]
        assert decision.ranking.tolist() == inside + [item for item in followed if item not in inside]


def _after(seed: int, doubles: int) -> np.random.Generator:
    rng = np.random.default_rng(seed)
    rng.random(doubles)
    return rng


def test_a_short_last_cell_is_filled_up_and_what_it_shows_is_used() -> None:
    learner, query = RTopK(horizon=3, blocks=1, estimator="exploration"), query_of(3)
    state = learner.init(problem_of(3, 2))
    shown = Decision(np.array([2, 0, 1]), math.nan, Receipt(0, 1))
    state = learner.learn(state, query, shown, relevances([2, 0], [1.0, 1.0]))
    assert state.open.counts.tolist() == [1, 0, 1]
    shown = Decision(np.array([0, 1, 2]), math.nan, Receipt(0, 0))
    state = learner.learn(state, query, shown, relevances([0, 1], [0.0, 1.0]))
    assert (state.open.sums / state.open.counts).tolist() == [0.5, 1.0, 1.0]


def test_means_of_gains_not_of_grades_reach_the_inner_learner() -> None:
    learner, query = RTopK(horizon=2, blocks=1), query_of(1)
    state = learner.init(problem_of(1, 1, max_grade=2))
    for cell, grade in ((0, 2.0), (-1, 0.0)):
        decision = Decision(np.array([0]), math.nan, Receipt(0, cell))
        state = learner.learn(state, query, decision, relevances([0], [grade]))
    assert state.inner.totals == pytest.approx([((2**2 - 1) + (2**0 - 1)) / 2])


@pytest.mark.parametrize("measure", ["DCG", "SumLoss", "P@2", "P(relevant_from=2.0)@2"])
def test_the_inner_learner_gets_horizon_and_measure(measure: str) -> None:
    learner = RTopK(horizon=1000, measure=measure, inner="mirror_descent(horizon=7)")  # type: ignore[arg-type]
    state = learner.init(problem_of(4, 1, max_grade=3))
    fitted = MirrorDescent(horizon=state.blocks, measure=measure)  # type: ignore[arg-type]
    assert state.inner.step == fitted.init(problem_of(4, None, max_grade=3)).step


def test_late_feedback_of_a_closed_block_is_dropped_and_counted() -> None:
    learner, query = RTopK(horizon=8, blocks=2), query_of(2)
    state = learner.init(problem_of(2, 1))
    late = learner.rank(state, query, np.random.default_rng(0))
    state = play_rounds(learner, state, 4)[-1]
    assert state.open.number == 1
    learned = learner.learn(state, query, late, relevances(late.ranking[:1], [1.0]))
    assert learned.dropped == 1
    assert learned.open is state.open


def test_a_receipt_that_names_another_cell_than_was_shown_is_refused() -> None:
    learner, query = RTopK(horizon=400, blocks=4), query_of(5)
    state = learner.init(problem_of(5, 2))
    for ranking, cell in (([0, 1, 2, 3, 4], 1), ([4, 0, 1, 2, 3], 0), ([1, 0, 2, 3, 4], 2)):
        decision = Decision(np.array(ranking), math.nan, Receipt(0, cell))
        with pytest.raises(IncompatibleFeedback, match="receipt"):
            learner.learn(state, query, decision, relevances(ranking[:2], [1.0, 0.0]))
    for ranking, cell in (([1, 0, 2, 3, 4], 0), ([4, 0, 1, 2, 3], 2), ([4, 0, 1, 2, 3], -1)):
        decision = Decision(np.array(ranking), math.nan, Receipt(0, cell))
        learner.learn(state, query, decision, relevances(ranking[:2], [1.0, 0.0]))


def test_an_overdue_block_explores_until_every_cell_is_seen() -> None:
    learner, query = RTopK(horizon=8, blocks=2), query_of(2)
    state = learner.init(problem_of(2, 1))
    exploit = Decision(np.array([0, 1]), math.nan, Receipt(0, -1))
    for _ in range(4):  # decided before anything was learned, so that none of them explored
        state = learner.learn(state, query, exploit, relevances([0], [1.0]))
    assert state.open.number == 0
    for expected in ({0, 1}, None):
        decision = learner.rank(state, query, np.random.default_rng(3))
        assert decision.receipt.cell >= 0
        assert expected is None or decision.receipt.cell in expected
        state = learner.learn(state, query, decision, relevances(decision.ranking[:1], [0.0]))
    assert state.open.number == 1


def test_without_a_horizon_epochs_double_and_start_afresh() -> None:
    learner = RTopK()
    state = learner.init(problem_of(3, 1, max_grade=2))
    assert state.horizon == 3 * 3
    states = play_rounds(learner, state, 9 + 18 + 1)
    starts = [t + 1 for t in range(1, len(states)) if states[t].horizon > states[t - 1].horizon]
    assert starts == [9, 9 + 18]
    assert [states[start - 1].horizon for start in starts] == [18, 36]
    assert states[starts[0] - 1].inner.totals.tolist() == [0, 0, 0]
    numbers = [state.open.number for state in states]
    assert numbers == sorted(numbers)
    again = RTopK(horizon=36).init(problem_of(3, 1, max_grade=2))
    assert states[-1].blocks == again.blocks
    assert states[-1].inner.noise == again.inner.noise


def test_refuses_what_makes_no_sense() -> None:
    for wrong in (
        {"horizon": 0},
        {"horizon": 10, "blocks": 0},
        {"blocks": 5},
        {"measure": "nDCG"},
        {"inner": "3pr"},
        {"filler": "index"},
        {"estimator": "sums"},
        {"inner": "precision_bandit"},
        {"inner": "rtopk"},
        {"inner": "topk_gradient"},
        {"inner": "generic_forecaster"},
        {"inner": {"kind": "standardised", "inner": "topk_gradient"}},
    ):
        with pytest.raises(InvalidInput):
            RTopK(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="at least the first item"):
        RTopK().init(problem_of(4, 0))
    with pytest.raises(InvalidInput, match="n_items"):
        RTopK().init(Problem(3, depth=1))


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("shown", [None, 2])
def test_log_prob_sums_to_one_and_is_what_is_drawn(depth: int, shown: int | None) -> None:
    learner = RTopK(horizon=40, blocks=4, filler="random", inner=MirrorDescent())
    query = query_of(4)
    states = play_rounds(learner, learner.init(problem_of(4, depth, shown=shown)), 20)
    for state in (states[3], states[-1]):
        total = 0.0
        for ranking in permutations(range(4)):
            log_prob = learner.log_prob(state, query, np.array(ranking))
            total += math.exp(log_prob)
        if shown is None:
            assert total == pytest.approx(1.0)
        else:  # the inner learner knows its own only where all places are seen
            assert math.isnan(total)


def test_log_prob_when_every_round_explores() -> None:
    learner, query = RTopK(horizon=4, blocks=1, filler="random"), query_of(4)
    state = learner.init(problem_of(4, 1, shown=2))
    assert math.exp(learner.log_prob(state, query, np.arange(4))) == pytest.approx(1 / 4 * 1 / 3)
    decision = Decision(np.arange(4), math.nan, Receipt(0, 0))
    state = learner.learn(state, query, decision, Relevances(np.array([0]), np.array([1.0])))
    assert learner.log_prob(state, query, np.arange(4)) == -math.inf
    assert math.exp(learner.log_prob(state, query, np.array([3, 0, 1, 2]))) == pytest.approx(1 / 3 * 1 / 3)


def test_log_prob_is_that_of_the_inner_learner_when_nothing_is_left_to_explore() -> None:
    learner = RTopK(horizon=40, blocks=4, inner=MirrorDescent())
    query, state = query_of(3), learner.init(problem_of(3, 1))
    assert math.isnan(learner.log_prob(state, query, np.arange(3)))
    done = next(s for s in play_rounds(learner, state, 9) if not np.any(s.open.explored == 0))
    assert learner.log_prob(done, query, np.arange(3)) == MirrorDescent(horizon=4).log_prob(
        done.inner, query, np.arange(3)
    )
