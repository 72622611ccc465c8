"""Linear Thompson sampling: its belief is that of a linear regression, and draws follow it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query
from rankloop.learners._shared.precision import cholesky
from rankloop.learners.linear_thompson import LinearThompson, shifted_solution
from tests.feedback import clicks


@given(st.integers(1, 6), st.integers(0, 99))
def test_belief_by_numpy(n_features, seed):
    rng = default_rng(seed)
    rows = rng.normal(size=(n_features + 2, n_features))
    precision, moment = rows.T @ rows + np.eye(n_features), rng.normal(size=n_features)
    np.testing.assert_allclose(np.triu(cholesky(precision)).T, np.linalg.cholesky(precision), atol=1e-10)
    mean = shifted_solution(precision, moment, np.zeros(n_features))
    np.testing.assert_allclose(mean, np.linalg.solve(precision, moment), rtol=1e-8, atol=1e-10)
    root = np.stack([shifted_solution(precision, moment, unit) - mean for unit in np.eye(n_features)], axis=1)
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-6, atol=1e-9)


def test_regression_on_what_was_looked_at():
    learner, rng = LinearThompson(noise=0.5, prior=2.0), default_rng(0)
    features = rng.normal(size=(5, 2))
    state = learner.init(Problem(n_features=2, shown=4))
    decision = learner.rank(state, Query.of(features), rng)._replace(ranking=np.array([3, 1, 0, 2, 4]))
    down_to_last_click = features[[3, 1, 0]]
    learned = learner.learn(state, Query.of(features), decision, clicks([3, 0]))
    np.testing.assert_allclose(learned.precision, np.eye(2) / 4 + 4 * down_to_last_click.T @ down_to_last_click)
    np.testing.assert_allclose(learned.moment, 4 * (features[3] + features[0]))
    np.testing.assert_allclose(learned.weights, np.linalg.solve(learned.precision, learned.moment))
    none = learner.learn(state, Query.of(features), decision, clicks([]))
    np.testing.assert_allclose(none.precision, np.eye(2) / 4 + 4 * features[[3, 1, 0, 2]].T @ features[[3, 1, 0, 2]])


def test_a_belief_may_begin_elsewhere():
    problem, query = Problem(n_features=2), Query.of(default_rng(0).normal(size=(4, 2)))
    learner = LinearThompson(prior=2.0, start=(3.0, -1.0))
    state = learner.init(problem)
    assert state.weights.tolist() == [3.0, -1.0]
    np.testing.assert_allclose(shifted_solution(state.precision, state.moment, np.zeros(2)), [3.0, -1.0])
    assert learner.predict(state, query).tolist() == np.argsort(-(query.features @ [3.0, -1.0])).tolist()
    decision = learner.rank(state, query, default_rng(1))
    learned, plain = (
        one.learn(one.init(problem), query, decision, clicks(decision.ranking[1:2]))
        for one in (learner, LinearThompson(prior=2.0))
    )
    assert learned.precision.tolist() == plain.precision.tolist()
    np.testing.assert_allclose(learned.moment - plain.moment, np.array([3.0, -1.0]) / 2.0**2)
    with pytest.raises(InvalidInput, match="start has 2 weights, the problem has 3 features"):
        learner.init(Problem(n_features=3))
    with pytest.raises(InvalidInput, match="start"):
        LinearThompson(start=(math.nan,))


@pytest.mark.parametrize("deviation", [1e-200, 1e200, 0.0, -1.0, math.inf, math.nan])
def test_deviations_whose_squares_are_no_numbers_are_refused(deviation):
    for name in ("prior", "noise"):
        with pytest.raises(InvalidInput, match=name):
            LinearThompson(**{name: deviation})
