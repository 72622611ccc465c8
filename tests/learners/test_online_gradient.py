"""Tests of the learner online_gradient."""

import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.optimize import minimize

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, entries
from rankloop.core.types import Decision, Problem, Query, Relevances
from rankloop.learners.online_gradient import _descend
from rankloop.simulate.play import play

QUERY = Query.of([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
SHOWN = Decision(np.array([2, 0, 1]), 0.0, ())
FEEDBACK = Relevances(np.array([2, 0, 1]), np.array([1.0, 2.0, 0.0]))  # grades 2, 0, 1 of items 0, 1, 2


def learn(**parameters):
    learner = build({"kind": "online_gradient", "surrogate": "squared"} | parameters)
    return learner, learner.learn(learner.init(Problem(n_features=2)), QUERY, SHOWN, FEEDBACK)


def test_one_step_by_hand():
    _, state = learn(learning_rate=0.1)
    # Σ_i 2·(0 − grade_i)·x_i = −2·(2·(1, 0) + 0·(0, 2) + 1·(1, 1)) = (−6, −2)
    np.testing.assert_allclose(state.weights, [0.1 * 6, 0.1 * 2])
    assert state.steps == 1


def test_the_root_schedule_divides_by_the_root_of_t():
    learner, first = learn(learning_rate=0.1, schedule="root")
    second = learner.learn(first, QUERY, SHOWN, FEEDBACK)
    scores = QUERY.features @ first.weights
    grad = QUERY.features.T @ (2 * (scores - np.array([2.0, 0.0, 1.0])))
    np.testing.assert_allclose(second.weights, first.weights - 0.1 / math.sqrt(2) * grad)


def test_the_adaptive_schedule_divides_by_the_gradients_so_far():
    learner, first = learn(learning_rate=0.1, schedule="adaptive")
    np.testing.assert_allclose(first.weights, 0.1 * np.array([6, 2]) / math.sqrt(36 + 4))
    second = learner.learn(first, QUERY, SHOWN, FEEDBACK)
    grad = QUERY.features.T @ (2 * (QUERY.features @ first.weights - np.array([2.0, 0.0, 1.0])))
    np.testing.assert_allclose(second.weights, first.weights - 0.1 * grad / math.sqrt(40 + grad @ grad))


def test_steps_end_on_the_ball():
    _, state = learn(learning_rate=10.0, radius=0.5)
    np.testing.assert_allclose(state.weights, 0.5 * np.array([6, 2]) / math.sqrt(40))


@pytest.mark.parametrize("kind", ["list_net", "rank_svm", "slam(within='item_order')", "calibrated_squared"])
def test_items_without_a_grade_take_no_part(kind: str):
    rng = default_rng(0)
    learner = build({"kind": "online_gradient", "surrogate": kind})
    rows, grades = rng.normal(size=(5, 2)), np.array([1.0, 1.0, 0.0])
    start = learner.init(Problem(n_features=2))._replace(weights=np.array([0.3, -0.2]))
    seen = np.array([4, 1, 3])
    part = learner.learn(start, Query.of(rows), Decision(np.array([4, 1, 3, 0, 2]), 0.0, ()), Relevances(seen, grades))
    alone = Query.of(rows[[1, 3, 4]])
    whole = learner.learn(start, alone, SHOWN, Relevances(np.array([2, 0, 1]), grades))
    np.testing.assert_array_equal(part.weights, whole.weights)


@pytest.mark.parametrize("kind", [e.kind for e in entries("surrogate") if e.kind not in ("kl", "smooth_dcg")])
def test_regret_stays_within_the_adaptive_bound(kind: str):
    """Against the best ‖u‖ ≤ U in hindsight: at most 2√2 · U · √(Σ ‖gradient‖²), whatever the stream."""
    radius, surrogate = 1.0, build(kind, "surrogate")
    learner = build(
        {"kind": "online_gradient", "surrogate": kind, "schedule": "adaptive", "radius": radius}
        | {"learning_rate": math.sqrt(2) * radius}
    )
    stream, users = build("linear_gaussian(n_items=6, n_features=3)"), build("full")
    rounds = list(play(learner, stream, users, horizon=200, seed=1))

    def loss(weights) -> float:
        return sum(surrogate.value_and_grad(r.query.features @ weights, r.relevance)[0] for r in rounds)

    suffered = sum(surrogate.value_and_grad(r.query.features @ r.state.weights, r.relevance)[0] for r in rounds)
    ball = {"type": "ineq", "fun": lambda weights: radius**2 - weights @ weights}
    best = minimize(loss, np.full(3, 0.1), method="SLSQP", constraints=[ball], options={"maxiter": 50}).fun
    assert suffered - best <= 2 * math.sqrt(2) * radius * math.sqrt(rounds[-1].learned.grad_squares)


def test_online_list_net_learns_to_rank():
    stream, ndcg = build("linear_gaussian(n_items=10, n_features=5)"), build("nDCG@5")

    def late_average(kind: str) -> float:
        rounds = islice(play(build(kind), stream, build("full"), horizon=400, seed=2), 200, None)
        return float(np.mean([ndcg(r.decision.ranking, r.relevance) for r in rounds]))

    assert late_average("online_gradient") > late_average("random_order") + 0.3


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(0, 4), st.integers(0, 10_000), st.booleans())
def test_kernels_against_numpy(n_items: int, n_features: int, seed: int, adaptive: bool):
    rng = default_rng(seed)
    rows, weights = rng.normal(size=(n_items, n_features)), rng.normal(size=n_features)
    grades = rng.integers(0, 3, n_items).astype(float)
    moved, squares = _descend(weights, rows, grades, 0.3, adaptive, 2.0, math.inf)
    slope = rows.T @ grades
    rate = 0.3 / math.sqrt(2 + slope @ slope) if adaptive else 0.3
    np.testing.assert_allclose(moved, weights - rate * slope, atol=1e-12)
    assert squares == pytest.approx(2 + slope @ slope if adaptive else 2)


@pytest.mark.parametrize("bad", [{"learning_rate": 0.0}, {"radius": -1.0}, {"schedule": "slow"}, {"start": [math.inf]}])
def test_parameters_without_meaning_are_refused(bad: dict):
    with pytest.raises(InvalidInput):
        build({"kind": "online_gradient"} | bad)


def test_start_has_to_fit():
    learner = build("online_gradient(start=[1.0, 2.0])")
    assert learner.init(Problem(n_features=2)).weights.tolist() == [1.0, 2.0]
    with pytest.raises(InvalidInput, match="2 weights, the problem has 3 features"):
        learner.init(Problem(n_features=3))
