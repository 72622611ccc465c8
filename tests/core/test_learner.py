"""What learners share in rankloop.core.learner."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankloop.core.checks import check_finite, check_positive
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.kernels import all_finite, project, seen_count
from rankloop.core.learner import (
    _point_log_prob,
    best_ranking,
    expect,
    finite,
    from_layers,
    layers_of,
    shown_or_all,
    start_weights,
    with_in_layers,
)
from rankloop.core.registry import build
from rankloop.core.types import Clicks, Problem, Relevances, Reward

numbers = st.floats(-1e6, 1e6, width=32)
features = arrays(np.float64, st.tuples(st.integers(1, 60), st.integers(0, 4)), elements=numbers)


@settings(deadline=None)
@given(features, st.data())
def test_the_best_ranking_sorts_scores_and_keeps_ties_in_item_order(rows, data):
    weights = data.draw(arrays(np.float64, rows.shape[1], elements=st.integers(-2, 2)))
    scores = np.array([math.fsum(row * weights) for row in rows])
    ranking = best_ranking(rows, weights)
    assert sorted(ranking) == list(range(len(rows)))
    for one, other in pairwise(ranking):
        assert scores[one] >= scores[other] - 1e-6
        assert (rows[one] != rows[other]).any() or one < other


@settings(deadline=None)
@given(arrays(np.float64, st.integers(0, 5), elements=st.floats(-1e200, 1e200)), st.floats(1e-3, 1e200))
def test_projection_onto_the_ball(weights, radius):
    moved = weights.copy()
    project(moved, radius)
    largest = np.abs(weights).max(initial=0.0) or 1.0
    norm = largest * np.linalg.norm(weights / largest)
    expected = weights if norm <= radius else weights / norm * radius
    np.testing.assert_allclose(moved, expected, rtol=1e-12, atol=1e-12 * radius)
    project(weights, math.inf)
    assert np.isfinite(weights).all()


def test_only_the_seen_part_counts():
    best = np.array([3, 1, 0, 2])
    assert _point_log_prob(best, np.array([3, 1, 2, 0]), 2) == 0.0
    assert _point_log_prob(best, np.array([3, 1, 2, 0]), 3) == -math.inf
    assert _point_log_prob(best, np.array([3, 1, 2, 0]), -1) == -math.inf
    assert _point_log_prob(best, best, 9) == 0.0
    assert [seen_count(shown, 4) for shown in (-1, 1, 4, 9)] == [4, 1, 4, 4]
    assert [shown_or_all(Problem(n_features=1, shown=shown)) for shown in (None, 3)] == [-1, 3]


def test_start_weights():
    assert start_weights((), 3).tolist() == [0.0, 0.0, 0.0]
    assert start_weights((1.0, 2.0), 2).tolist() == [1.0, 2.0]
    with pytest.raises(InvalidInput, match="2 weights, the problem has 3 features"):
        start_weights((1.0, 2.0), 3)


def test_checks_say_what_is_wrong():
    with pytest.raises(InvalidInput, match=r"start\[1\] = inf"):
        check_finite(start=(0.0, math.inf))
    for value in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="learning_rate"):
            check_positive(learning_rate=value)
    with pytest.raises(UnstableUpdate):
        finite(math.nan)
    with pytest.raises(IncompatibleFeedback, match="learns from Clicks, got Reward"):
        expect(Reward(1.0), Clicks)
    relevances = Relevances(np.array([0]), np.ones(1))
    assert expect(relevances, Relevances) is relevances


def test_layers_are_looked_through_and_replaced_from_the_outside_in():
    learner = build("standardised(inner='random_features(inner=\"online_gradient\", n_features=4)')")
    state = learner.init(Problem(n_features=2))
    assert [type(layer).__name__ for layer in layers_of(learner)] == [
        "Standardised",
        "RandomFeatures",
        "OnlineGradient",
    ]
    assert from_layers(state, "weights").shape == (4,)
    assert from_layers(state, "mood", "none") == "none"
    assert from_layers(with_in_layers(state, "shown", 3), "shown") == 3
    started = with_in_layers(learner, "start", (1.0, 2.0, 3.0, 4.0))
    assert from_layers(started.init(Problem(n_features=2)), "weights").tolist() == [1.0, 2.0, 3.0, 4.0]
    assert from_layers(learner, "start") == ()


@pytest.mark.parametrize("shape", [(5,), (3, 4), (0,), (2, 0)])
def test_only_numbers_that_are_not_finite_are_refused(shape):
    largest = np.full(shape, np.finfo(np.float64).max)
    assert all_finite(largest)
    assert all_finite(-largest)
    for strange in (np.nan, np.inf, -np.inf):
        if largest.size:
            spoilt = largest.copy()
            spoilt.flat[-1] = strange
            assert not all_finite(spoilt)
