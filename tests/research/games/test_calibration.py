"""nDCG-calibrated surrogates from k grades: the construction for every k ≤ m − 2, and what one grade is enough for."""

from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.types import Problem, Query, Relevances
from rankloop.games.game import Game, measure_for
from rankloop.learners.topk_gradient import TopKGradient
from rankloop.surrogates.pointwise import normalised_gains as gains_of
from research.games.calibration import (
    calibration_pair,
    check_calibration_pair,
    normalised_gains,
    reversed_items,
    seen_by,
    worth_difference,
)

CASES = [(m, k) for m in range(3, 8) for k in range(1, m - 1)]


@pytest.mark.parametrize(("n_items", "depth"), CASES)
def test_the_pair_proves_it_up_to_seven_items(n_items, depth):
    pair = calibration_pair(n_items, depth)
    check_calibration_pair(pair)
    last = n_items - 1
    assert reversed_items(pair) == [(item, last) for item in range(depth + 1)]


@pytest.mark.parametrize(("n_items", "depth"), CASES)
def test_one_grade_more_tells_the_worlds_apart(n_items, depth):
    pair = calibration_pair(n_items, depth)
    different = [
        items
        for items in combinations(range(n_items), depth + 1)
        if seen_by(pair.even, items) != seen_by(pair.odd, items)
    ]
    assert different == [tuple(range(depth + 1))]


@pytest.mark.parametrize("depth", [1, 2, 5, 20, 60])
def test_the_difference_is_positive_for_every_depth(depth):
    assert worth_difference(depth) > 0


def test_by_hand_with_three_items():
    pair = calibration_pair(3, 1)
    both = 1 / (1 + 1 / np.log2(3))  # 1 / Z_2
    middle = (both / 2 + 1 / 2) / 2
    share = middle / (1 + middle)
    assert {rows: float(p) for rows, p in pair.even.items()} == pytest.approx(
        {(0, 0, 1): share, (0, 0, 0): (1 - share) / 2, (1, 1, 0): (1 - share) / 2}
    )
    assert float(worth_difference(1)) == pytest.approx((1 - both) / 2)


@pytest.mark.parametrize(("n_items", "depth"), [(3, 1), (4, 1), (4, 2), (5, 2), (5, 3)])
def test_the_measure_itself_has_no_common_best_ranking(n_items, depth):
    pair, game = calibration_pair(n_items, depth), Game(measure=measure_for("nDCG"), n_items=n_items)
    worlds = [
        np.array([float(world.get(tuple(map(int, row)), Fraction(0))) for row in game.relevances])
        for world in (pair.even, pair.odd)
    ]
    assert game.gap_between(*worlds) > 1e-6
    for world, exact in zip(worlds, (pair.even, pair.odd)):
        expected = world @ np.array([gains_of(row.astype(float)) for row in game.relevances])
        assert expected == pytest.approx([float(value) for value in normalised_gains(exact)])


def test_a_pair_that_proves_nothing_is_refused():
    pair = calibration_pair(4, 2)
    with pytest.raises(InvalidInput, match="right in both worlds"):
        check_calibration_pair(pair._replace(odd=pair.even))
    with pytest.raises(InvalidInput, match="tell the worlds apart"):
        check_calibration_pair(pair._replace(depth=3))
    with pytest.raises(InvalidInput, match="add up to 1"):
        check_calibration_pair(pair._replace(even={rows: p / 2 for rows, p in pair.even.items()}))
    for wrong in ((3, 2), (4, 0), (2, 1)):
        with pytest.raises(InvalidInput, match="the pair exists for"):
            calibration_pair(*wrong)


def random_world(rng, max_grade=3):
    rows = np.array(list(product(range(max_grade + 1), repeat=3)), dtype=float)
    return rows, rng.dirichlet(np.full(len(rows), 0.2))


def test_squared_gains_want_the_order_that_is_best_for_dcg():
    surrogate, dcg, rng = build("squared_gains", "surrogate"), build("DCG", "measure"), np.random.default_rng(0)
    plain_is_wrong = 0
    for _ in range(30):
        rows, world = random_world(rng)
        best = world @ (2.0**rows - 1)
        slope = sum(p * surrogate.value_and_grad(best, row)[1] for p, row in zip(world, rows))
        assert slope == pytest.approx(np.zeros(3), abs=1e-12)
        worth = {
            order: sum(p * dcg(np.array(order), row) for p, row in zip(world, rows)) for order in permutations(range(3))
        }
        assert worth[tuple(np.argsort(-best, kind="stable").tolist())] == pytest.approx(max(worth.values()))
        plain = tuple(np.argsort(-(world @ rows), kind="stable").tolist())
        plain_is_wrong += worth[plain] < max(worth.values()) - 1e-9
    assert plain_is_wrong > 0  # squared on grades may want another order


def test_one_grade_at_a_time_is_enough_for_squared_gains():
    """The mean step over all rankings and relevances is the gradient of the expected surrogate, at depth 1."""
    rng, learner = np.random.default_rng(1), TopKGradient(surrogate="squared_gains", floor=0.0, exploration=0.5)
    query, (rows, world) = Query.of(np.eye(3)), random_world(rng, max_grade=1)
    state = learner.init(Problem(3, depth=1))._replace(weights=np.array([0.2, 0.5, 0.1]))
    step = np.zeros(3)
    for p, row in zip(world, rows):
        for order in map(np.array, permutations(range(3))):
            probability = p * np.exp(learner.log_prob(state, query, order))
            decision = learner.rank(state, query, np.random.default_rng(0))._replace(ranking=order)
            after = learner.learn(state, query, decision, Relevances(order[:1], row[order[:1]]))
            step += probability * (state.weights - after.weights)
    assert step / 0.01 == pytest.approx(2 * (state.weights - world @ (2.0**rows - 1)))
