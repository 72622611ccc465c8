"""Diagonal UCB: optimistic scores by hand, without any draw."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query
from rankloop.core.session import Session
from rankloop.core.types import Rows, clicks
from rankloop.learners.diagonal_thompson import DiagonalThompson, State
from rankloop.learners.diagonal_ucb import DiagonalUCB
from rankloop.learners.wrappers.hashed_columns import Hashed


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
def test_bad_parameters(parameters):
    with pytest.raises(InvalidInput, match=next(iter(parameters))):
        DiagonalUCB(**parameters)
