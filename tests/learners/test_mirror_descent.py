"""Mirror descent over the permutahedron: projections, drawn orders and their probabilities."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Decision, Floats, Problem, Query
from rankloop.learners.mirror_descent import (
    MirrorDescent,
    State,
    _drawn_order,
    _exchanges,
    _log_prob_of_order,
    _nearest_mean,
)
from tests.feedback import relevances

NOBODY: Decision[tuple[()]] = Decision(np.arange(1), math.nan, ())
values = st.lists(st.floats(-3, 3), min_size=2, max_size=5)


def pair(pulls: list[float], seed: int) -> tuple[Floats, Floats]:
    """Both descending."""
    worth = np.random.default_rng(seed).random(len(pulls)).round(1)
    return -np.sort(-np.array(pulls)), -np.sort(-worth)


@settings(deadline=None)
@given(pulls=values, seed=st.integers(0, 99))
def test_nearest_mean_lies_in_the_permutahedron_and_is_nearest(pulls: list[float], seed: int) -> None:
    target, worth = pair(pulls, seed)
    point = _nearest_mean(target, worth)
    assert np.all(np.diff(point) <= 1e-9)
    assert np.all(np.cumsum(point) <= np.cumsum(worth) + 1e-9)  # Rado: majorised by worth
    assert point.sum() == pytest.approx(worth.sum())
    corners = np.array(list(permutations(worth)))
    assert ((corners - point) @ (target - point)).max() <= 1e-8  # the angle to every corner is obtuse


def test_nearest_mean_against_a_solver() -> None:
    target, worth = np.array([1.5, 0.4, 0.3, -1.0]), np.array([1.0, 0.7, 0.3, 0.0])
    corners = np.array(list(permutations(worth)))
    shares = np.full(len(corners), 1 / len(corners))
    found = minimize(
        lambda p: np.sum((p @ corners - target) ** 2), shares, method="SLSQP", bounds=[(0, 1)] * len(corners),
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1}, options={"ftol": 1e-14, "maxiter": 300},
    )  # fmt: skip
    assert _nearest_mean(target, worth) == pytest.approx(found.x @ corners, abs=1e-5)


@settings(deadline=None)
@given(pulls=values, seed=st.integers(0, 99))
def test_drawn_orders_have_the_mean_and_the_probabilities(pulls: list[float], seed: int) -> None:
    target, worth = pair(pulls, seed)
    point = _nearest_mean(target, worth)
    pairs, exchange = _exchanges(point, worth)
    order = np.random.default_rng(seed).permutation(len(worth))
    assert len(exchange) < len(worth)
    probabilities: dict[tuple[int, ...], float] = {}
    for made in product([True, False], repeat=len(exchange)):
        uniforms = np.where(made, exchange - 1e-12, exchange + 1e-12)
        ranking = tuple(_drawn_order(order, pairs, exchange, uniforms).tolist())
        share = float(np.prod(np.where(made, exchange, 1 - exchange)))
        probabilities[ranking] = probabilities.get(ranking, 0.0) + share
    mean = np.zeros(len(worth))
    for ranking in permutations(range(len(worth))):
        log_prob = _log_prob_of_order(order, pairs, exchange, np.array(ranking))
        assert math.exp(log_prob) == pytest.approx(probabilities.get(ranking, 0.0), abs=1e-9)
        mean[list(ranking)] += math.exp(log_prob) * worth
    assert mean[order] == pytest.approx(point, abs=1e-9)


@settings(deadline=None)
@given(seed=st.integers(0, 9999))
def test_huge_totals_and_equal_worths_leave_probabilities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    worth = -np.sort(-rng.integers(0, 2, 6).astype(np.float64))
    target = -np.sort(-(1e6 * rng.integers(0, 3, 6) + rng.random(6)))
    point = _nearest_mean(target, worth)
    pairs, probabilities = _exchanges(point, worth)
    assert np.all((probabilities >= 0) & (probabilities <= 1))
    mean = worth.copy()
    for (settled, other), probability in zip(pairs, probabilities):
        difference = probability * (mean[settled] - mean[other])
        mean[settled], mean[other] = mean[settled] - difference, mean[other] + difference
    assert mean == pytest.approx(point, abs=1e-8)


def after(learner: MirrorDescent, problem: Problem, *rounds: list[float]) -> State:
    state = learner.init(problem)
    for grades in rounds:
        state = learner.learn(state, Query.of(np.empty((3, 0))), NOBODY, relevances(range(len(grades)), grades))
    return state


def test_step_of_the_theory() -> None:
    worth = np.array([-1.0, -2.0, -3.0])
    radius = math.sqrt(1 + 0 + 1)
    state = after(MirrorDescent(horizon=50, measure="SumLoss"), Problem(0, 3, max_grade=2), [1, 0, 2])
    assert state.worth.tolist() == worth.tolist()
    assert state.step == pytest.approx(2 * radius / (2 * math.sqrt(3 * 50)))
    assert state.totals.tolist() == [1, 0, 2]
    assert MirrorDescent(learning_rate=0.5).init(Problem(0, 3)).step == 0.5


def test_log_propensity_is_log_prob_and_rankings_follow_it() -> None:
    learner, query = MirrorDescent(horizon=4), Query.of(np.empty((3, 0)))
    state = after(learner, Problem(0, 3), [1, 0, 1], [0, 0, 1])
    rng = np.random.default_rng(0)
    shown = [learner.rank(state, query, rng) for _ in range(4000)]
    for ranking in permutations(range(3)):
        seen = [decision for decision in shown if tuple(decision.ranking) == ranking]
        probability = math.exp(learner.log_prob(state, query, np.array(ranking)))
        assert abs(len(seen) / 4000 - probability) <= 4 * math.sqrt(probability * (1 - probability) / 4000)
        assert all(math.exp(decision.log_propensity) == probability for decision in seen)
    assert learner.predict(state, query).tolist() == [2, 0, 1]


def test_log_prob_is_nan_where_not_all_positions_are_seen() -> None:
    learner, query = MirrorDescent(), Query.of(np.empty((3, 0)))
    state = learner.init(Problem(0, 3, shown=2))
    assert math.isnan(learner.log_prob(state, query, np.arange(3)))
    assert math.isnan(learner.rank(state, query, np.random.default_rng(0)).log_propensity)


def test_refuses_what_it_cannot_learn() -> None:
    for wrong in ({"horizon": 0}, {"learning_rate": 0.0}, {"measure": "AP"}):
        with pytest.raises(InvalidInput):
            MirrorDescent(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="all 3 items"):
        MirrorDescent().init(Problem(0, 3, depth=1))
