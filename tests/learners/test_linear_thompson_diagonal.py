"""Diagonal beliefs against linear regression, and how Thompson sampling and confidence bounds explore with them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.stats import norm

from rankloop import InvalidInput, Problem, Query
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Rows
from rankloop.core.weight_table import WeightTable
from rankloop.learners.linear_thompson import DiagonalState as State
from rankloop.learners.linear_thompson import DiagonalThompson, DiagonalUCB, LinearThompson
from rankloop.learners.wrappers.hashed_weights import Hashed
from tests.feedback import clicks
from tests.sparse_rows import to_array


def learned(learner, state, query, ranking, feedback):
    decision = learner.rank(state, query, default_rng(0))._replace(ranking=np.array(ranking))
    return learner.learn(state, query, decision, feedback)


@given(st.integers(0, 999), st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([0.3, 1.0]))
def test_with_one_feature_per_item_it_is_linear_thompson(seed, prior, noise):
    """Then the precision matrix is a diagonal: means and precisions are the same, and so is a draw."""
    rng, start = default_rng(seed), (0.5, 0.0, -1.0)
    diagonal, linear = (cls(prior=prior, noise=noise, start=start) for cls in (DiagonalThompson, LinearThompson))
    problem = Problem(3, shown=4)
    one, other = diagonal.init(problem), linear.init(problem)
    for t in range(5):
        features = np.zeros((6, 3))
        features[np.arange(6), rng.integers(0, 3, 6)] = rng.normal(size=6)
        query = Query.of(features)
        decision = diagonal.rank(one, query, default_rng(t))
        assert decision.ranking.tolist() == linear.rank(other, query, default_rng(t)).ranking.tolist()
        items = decision.ranking[:4][rng.random(4) < 0.4]
        feedback = Clicks(items, np.ones(len(items)))
        one, other = (
            learner.learn(state, query, decision, feedback) for learner, state in ((diagonal, one), (linear, other))
        )
        np.testing.assert_allclose(one.evidence + prior**-2, np.diag(other.precision), rtol=1e-9)
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-7, atol=1e-9)


def test_a_step_by_hand():
    """w ← w + x / q · (click − w · x) / (noise² + Σ x² / q), item by item down to the last click."""
    learner = DiagonalThompson(noise=0.5, prior=2.0, start=(0.1, -0.2))
    features = np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 0.0], [5.0, 5.0]])
    state = learned(learner, learner.init(Problem(2, shown=4)), Query.of(features), [1, 0, 2, 3], clicks([0]))
    weights, precision = np.array([0.1, -0.2]), np.full(2, 1 / 4)
    for row, clicked in ((features[1], 0.0), (features[0], 1.0)):
        weights = weights + row / precision * (clicked - row @ weights) / (0.25 + np.sum(row**2 / precision))
        precision = precision + row**2 / 0.25
    np.testing.assert_allclose(state.weights, weights)
    np.testing.assert_allclose(state.evidence, precision - 1 / 4)


def test_a_step_never_overshoots():
    """However many features an item has, what is expected of it moves towards what was seen and not beyond."""
    learner, features = DiagonalThompson(), np.ones((1, 500))
    state = learner.init(Problem(500))
    for _ in range(50):
        state = learned(learner, state, Query.of(features), [0], clicks([0]))
        assert 0.0 < features[0] @ state.weights <= 1.0 + 1e-12
    assert features[0] @ state.weights == pytest.approx(1.0, abs=0.01)


def test_draws_follow_the_belief():
    learner, query = DiagonalThompson(prior=2.0), Query.of([[1.0, 0.0], [0.0, 1.0]])
    state = State(np.array([0.5, 0.0]), np.array([3.0, 0.5]), -1)
    variance = 1 / (0.25 + 3.0) + 1 / (0.25 + 0.5)
    expected, draws, rng = norm.cdf(0.5 / math.sqrt(variance)), 4000, default_rng(1)
    first = sum(int(learner.rank(state, query, rng).ranking[0] == 0) for _ in range(draws))
    assert abs(first / draws - expected) < 5 * math.sqrt(expected * (1 - expected) / draws)
    assert math.isnan(learner.log_prob(state, query, np.array([0, 1])))


def test_through_hashed_evidence_is_the_second_cell():
    learner = DiagonalThompson(noise=0.5, prior=2.0)
    rows = Rows(
        np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1.0, 2.0, -1.0]), np.array([9, 4]), np.array([[0.5], [0.0]])
    )
    problem = Problem(17, n_hashed=16)
    session, query = Session(Hashed(inner=learner), problem, 0), Query("", rows, np.empty(0))
    dense, state = Query.of(to_array(rows)), learner.init(Problem(3))
    for t in range(4):
        decision = session.rank(query)
        feedback = clicks([t % 2])
        session.learn(query, decision, feedback)
        state = learner.learn(state, dense, decision, feedback)
    found = session.state.table.at(np.array([9, 4, 16]))
    np.testing.assert_allclose(found[:, 0], state.weights)
    np.testing.assert_allclose(found[:, 1], state.evidence)
    assert session.state.table == WeightTable.of(17, *session.state.table.used())
    assert len(session.state.table.used()[0]) == 3
    assert len(session.state.inner.evidence) == 0


@pytest.mark.parametrize("deviation", [1e-200, 1e200, 0.0, -1.0, math.inf, math.nan])
def test_bad_parameters(deviation):
    for name in ("prior", "noise"):
        with pytest.raises(InvalidInput, match=name):
            DiagonalThompson(**{name: deviation})
    with pytest.raises(InvalidInput, match="start"):
        DiagonalThompson(start=(math.nan,))


@given(st.integers(0, 999), st.floats(0, 5))
def test_scores_by_hand(seed, width):
    rng = default_rng(seed)
    features, weights, evidence = rng.normal(size=(6, 3)), rng.normal(size=3), rng.exponential(size=3)
    learner, state, query = DiagonalUCB(width=width, prior=2.0), State(weights, evidence, -1), Query.of(features)
    scores = features @ weights + width * np.sqrt((features**2 / (0.25 + evidence)).sum(axis=1))
    decision = learner.rank(state, query, rng)
    assert decision.ranking.tolist() == np.argsort(-scores).tolist()
    assert decision.log_propensity == 0.0 == learner.log_prob(state, query, decision.ranking)
    assert learner.log_prob(state, query, decision.ranking[::-1].copy()) == -math.inf
    assert learner.predict(state, query).tolist() == np.argsort(-features @ weights).tolist(), "without the benefit"


def test_it_learns_as_diagonal_thompson():
    query, rng = Query.of(default_rng(0).normal(size=(5, 3))), default_rng(1)
    one, other = DiagonalUCB(noise=0.5, prior=2.0), DiagonalThompson(noise=0.5, prior=2.0)
    state = one.init(Problem(3))
    for _ in range(5):
        decision = one.rank(state, query, rng)
        feedback = clicks(decision.ranking[1:2])
        expected = other.learn(state, query, decision, feedback)
        state = one.learn(state, query, decision, feedback)
        assert [part.tolist() for part in state[:2]] == [part.tolist() for part in expected[:2]]


def test_what_was_rarely_shown_rises():
    """Of two equal items the one that nobody has seen stands first, until it has been."""
    learner, query = DiagonalUCB(), Query.of(np.eye(2))
    session = Session(learner, Problem(2, shown=1), 0)
    first = []
    for _ in range(6):
        decision = session.rank(query)
        first.append(int(decision.ranking[0]))
        session.learn(query, decision, clicks([]))
    assert first == [0, 1, 0, 1, 0, 1]


def test_entries_that_fall_into_one_column_are_one_value():
    """x is their sum: its square is not the sum of squares."""
    rows = Rows(np.array([0, 2, 3]), np.array([0, 0, 0]), np.array([1.0, -1.0, 0.5]), np.array([3]), np.zeros((2, 0)))
    learner = Hashed(inner=DiagonalUCB(width=1.0))
    state = learner.init(Problem(8, n_hashed=8))
    assert learner.rank(state, Query("", rows, np.empty(0)), default_rng(0)).ranking.tolist() == [1, 0]


@pytest.mark.parametrize(
    "parameters", [{"width": -1.0}, {"width": math.inf}, {"width": math.nan}, {"noise": 0.0}, {"prior": 1e300}]
)
def test_bad_parameters_of_ucb(parameters):
    with pytest.raises(InvalidInput, match=next(iter(parameters))):
        DiagonalUCB(**parameters)
