"""kernel_perceptron: kernels by NumPy, a memory that never grows, and a ranking that no linear learner finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.types import Problem, Query, Relevances
from rankloop.learners.ranking_perceptron import KernelPerceptron, RankingPerceptron, _kernel_scores
from rankloop.measures.base import parse_measure


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(0, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_kernel_scores_are_those_of_numpy(n_items, n_features, n_stored, seed):
    rng = np.random.default_rng(seed)
    features, rows = rng.normal(size=(n_items, n_features)), rng.normal(size=(n_stored, n_features))
    coefficients = rng.normal(size=n_stored) * rng.integers(0, 2, n_stored)
    gaps = ((features[:, None] - rows[None]) ** 2).sum(axis=2)
    assert _kernel_scores(features, rows, coefficients, True, 0.7, 2) == pytest.approx(
        np.exp(-0.7 * gaps) @ coefficients
    )
    powers = (1 + 0.7 * features @ rows.T) ** 3
    assert _kernel_scores(features, rows, coefficients, False, 0.7, 3) == pytest.approx(powers @ coefficients)


def rounds(n_rounds, seed=0, n_items=8):
    """Items on a disc, the ones near the ring of radius ½ are relevant: no linear function ranks them."""
    rng = np.random.default_rng(seed)
    for _ in range(n_rounds):
        features = rng.uniform(-1, 1, (n_items, 2))
        yield Query.of(features), (np.abs(np.linalg.norm(features, axis=1) - 0.5) < 0.2).astype(float)


def losses(learner, n_rounds):
    session, measure, seen = Session(learner, Problem(2), seed=0), parse_measure("nDCG"), []
    for query, grades in rounds(n_rounds):
        decision = session.rank(query)
        seen.append(1 - measure(decision.ranking, grades))
        session.learn(query, decision, Relevances(decision.ranking, grades[decision.ranking]))
    return np.array(seen), session.state


@pytest.mark.parametrize("remove", ["oldest", "smallest"])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_the_state_never_outgrows_the_budget(kernel, remove):
    _, state = losses(KernelPerceptron(kernel=kernel, remove=remove, budget=5), 100)
    assert state.rows.shape == (5, 2)
    assert state.coefficients.shape == state.born.shape == (5,)
    assert state.stored > 5
    assert len(set(state.born)) == 5


def test_the_oldest_makes_room():
    _, state = losses(KernelPerceptron(budget=5), 30)
    assert sorted(state.born) == list(range(state.stored - 5, state.stored))


def test_the_smallest_makes_room():
    learner = KernelPerceptron(budget=2, remove="smallest")
    rows, coefficients, born = np.eye(2), np.array([5.0, -0.001]), np.array([0, 1])
    state = learner.init(Problem(2))._replace(rows=rows, coefficients=coefficients, born=born, stored=2)
    query = Query.of([[0.9, 0.1], [0.5, 0.5]])
    after = learner.learn(state, query, None, Relevances(np.arange(2), np.array([0.0, 1.0])))
    assert after.coefficients[0] == 5.0
    assert after.born[1] >= 2
    assert np.array_equal(state.born, [0, 1])  # the old state is a value


def test_a_budget_larger_than_needed_is_the_unlimited_algorithm():
    small, _ = losses(KernelPerceptron(budget=2000), 150)
    large, _ = losses(KernelPerceptron(budget=4000), 150)
    assert np.array_equal(small, large)


def test_a_polynomial_of_degree_one_is_the_linear_perceptron():
    # the constant 1 of the kernel adds the same number to every score, so the rankings agree
    by_kernel, _ = losses(KernelPerceptron(kernel="polynomial", degree=1, scale=2.0, budget=2000), 150)
    linear, _ = losses(RankingPerceptron(), 150)
    assert np.mean(by_kernel == linear) > 0.98  # rounding may decide a tie


def test_it_ranks_what_no_linear_function_can():
    curved, _ = losses(KernelPerceptron(scale=20.0, budget=300), 600)
    linear, _ = losses(RankingPerceptron(), 600)
    assert curved[300:].mean() < 0.6 * linear[300:].mean()


@pytest.mark.parametrize(
    "wrong", [{"budget": 0}, {"degree": 0}, {"scale": 0.0}, {"kernel": "sigmoid"}, {"margin": -1.0}]
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(InvalidInput):
        KernelPerceptron(**wrong)
