"""Click regression: its step is the gradient of a logistic loss, position by position."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query
from rankloop.core.types import Clicks
from rankloop.learners.click_regression import N_OFFSETS, OFFSET_RATE, ClickRegression
from tests.feedback import clicks


def loss(weights, features, ranking, clicked, offsets):
    """−Σ v · log P(click) over what was clicked with weight v, −Σ log (1 − P) over the rest of what was seen."""
    total = 0.0
    for position, item in enumerate(ranking):
        score = features[item] @ weights + offsets[position]
        total += clicked[item] * math.log1p(math.exp(-score)) if clicked[item] else math.log1p(math.exp(score))
    return total


def decided(learner, state, query, ranking):
    return learner.rank(state, query, default_rng(0))._replace(ranking=np.array(ranking))


@given(st.integers(0, 999), st.integers(1, 5), st.booleans())
def test_the_step_is_the_gradient(seed, shown, fixed):
    """With examination the intercept moves from position to position, so a page of one position is compared."""
    shown = 1 if fixed else shown
    rng = default_rng(seed)
    features, weights, ranking = rng.normal(size=(5, 3)), rng.normal(size=3), rng.permutation(5)
    clicked = np.zeros(5)
    clicked[ranking[: rng.integers(0, shown + 1)]] = rng.choice([1.0, 2.5])
    examination = (1.0, 0.5, 0.25) if fixed else ()
    learner = ClickRegression(learning_rate=0.2, examination=examination, start=tuple(weights))
    state, query = learner.init(Problem(3, shown=shown)), Query.of(features)
    items = np.flatnonzero(clicked)
    after = learner.learn(state, query, decided(learner, state, query, ranking), Clicks(items, clicked[items]))
    offsets = np.log([1.0, 0.5, 0.25, 0.25, 0.25]) - 2.0 if fixed else np.full(5, -2.0)
    seen = ranking[:shown]
    for j in range(3):
        ahead, back = (weights + sign * 1e-6 * np.eye(3)[j] for sign in (1, -1))
        slope = (loss(ahead, features, seen, clicked, offsets) - loss(back, features, seen, clicked, offsets)) / 2e-6
        assert after.weights[j] == pytest.approx(weights[j] - 0.2 * slope, abs=1e-7)


def test_offsets_by_hand():
    """b ← b + 0.3 · error / √(1 + Σ error²), each position by itself; what was not seen stays."""
    learner = ClickRegression(offset=-1.0)
    query, state = Query.of(np.zeros((4, 1))), learner.init(Problem(1, shown=3))
    errors = {0: [], 1: [], 2: []}
    offsets = np.full(3, -1.0)
    for clicked in ([0], [0, 2], []):
        state = learner.learn(state, query, decided(learner, state, query, range(4)), clicks(clicked))
        for position in range(3):
            error = (position in clicked) - 1 / (1 + math.exp(-offsets[position]))
            errors[position].append(error)
            offsets[position] += OFFSET_RATE * error / math.sqrt(1 + sum(each**2 for each in errors[position]))
    np.testing.assert_allclose(state.offsets[:3], offsets)
    assert state.offsets[3:].tolist() == [-1.0] * (N_OFFSETS - 3)
    assert state.weights.tolist() == [0.0]


def test_positions_below_share_the_last_offset():
    learner, n_items = ClickRegression(), N_OFFSETS + 3
    query, state = Query.of(np.zeros((n_items, 1))), ClickRegression().init(Problem(1))
    after = learner.learn(state, query, decided(learner, state, query, range(n_items)), clicks([]))
    error, offset, squares = 0.0, -2.0, 0.0
    for _ in range(4):
        error = -1 / (1 + math.exp(-offset))
        squares += error**2
        offset += OFFSET_RATE * error / math.sqrt(1 + squares)
    assert after.offsets[-1] == pytest.approx(offset)
    assert after.offsets[-2] > after.offsets[-1]


def test_examination_is_the_offset():
    state = ClickRegression(examination=(1.0, 0.5)).init(Problem(2))
    np.testing.assert_allclose(state.offsets, [-2.0, *[math.log(0.5) - 2.0] * (N_OFFSETS - 1)])


def test_a_position_is_evidence_about_its_item():
    """By hand: the error gains λ · (level − offset − score); levels and intercept are learned like offsets."""
    learner = ClickRegression(learning_rate=1.0, examination=(1.0, 0.5), order_weight=0.2, offset=-1.0)
    query, state = Query.of(np.eye(2)), learner.init(Problem(2))
    weights, intercept, log_examination = np.zeros(2), -1.0, np.log([1.0, 0.5])
    levels, squares = intercept + log_examination, np.zeros(2)
    for clicked in ([1], [1], [0]):
        state = learner.learn(state, query, decided(learner, state, query, [0, 1]), clicks(clicked))
        all_squares = squares.sum()
        for item in range(2):
            offset = intercept + log_examination[item]
            error = (item in clicked) - 1 / (1 + math.exp(-weights[item] - offset))
            weights[item] += error + 0.2 * (levels[item] - offset - weights[item])
            all_squares += error**2
            intercept += OFFSET_RATE * error / math.sqrt(1 + all_squares)
            error = (item in clicked) - 1 / (1 + math.exp(-levels[item]))
            squares[item] += error**2
            levels[item] += OFFSET_RATE * error / math.sqrt(1 + squares[item])
    np.testing.assert_allclose(state.weights, weights)
    np.testing.assert_allclose(state.offsets[:2], levels)
    assert state.intercept == pytest.approx(intercept)


@pytest.mark.parametrize("n_items", [1, 2, 3, 4])
@pytest.mark.parametrize("shown", [None, 1, 2, 3])
@pytest.mark.parametrize("swap", [0.0, 0.1, 0.5])
def test_probabilities_sum_to_1(n_items, shown, swap):
    learner = ClickRegression(swap=swap, start=(1.0, -0.5))
    state, query = learner.init(Problem(2, shown=shown)), Query.of(default_rng(n_items).normal(size=(n_items, 2)))
    seen = {tuple(order[:shown]): order for order in permutations(range(n_items))}
    log_probs = {first: learner.log_prob(state, query, np.array(order)) for first, order in seen.items()}
    assert sum(map(math.exp, log_probs.values())) == pytest.approx(1.0)
    for seed in range(20):
        decision = learner.rank(state, query, default_rng(seed))
        assert decision.log_propensity == pytest.approx(log_probs[tuple(decision.ranking[:shown].tolist())])
        best = learner.predict(state, query)
        assert np.abs(np.argsort(decision.ranking) - np.argsort(best)).max() <= 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"swap": 1.0}, "swap"),
        ({"swap": -0.1}, "swap"),
        ({"swap": math.nan}, "swap"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": math.inf}, "learning_rate"),
        ({"examination": (1.0, 0.0)}, "examination"),
        ({"examination": (1.5,)}, "examination"),
        ({"examination": (math.nan,)}, "examination"),
        ({"examination": (0.5,) * 65}, "at most 64 probabilities"),
        ({"order_weight": 0.1}, "needs examination"),
        ({"order_weight": 1.5, "examination": (1.0,)}, "order_weight"),
        ({"offset": math.nan}, "offset"),
        ({"offset": -101.0}, "offset"),
        ({"start": (math.inf,)}, "start"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        ClickRegression(**parameters)
