"""The bandit for Precision@n: chances, sampling, estimates."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ranking_of
from rankloop.core.types import Floats, Problem, Query
from rankloop.learners.precision_bandit import PrecisionBandit, _drawn_first, _inclusion_probabilities, _shuffle
from tests.feedback import relevances


def probabilities_of(losses: Floats, rate: float, n: int) -> Floats:
    return _inclusion_probabilities(losses, ranking_of(-losses), rate, n)


@settings(deadline=None)
@given(losses=st.lists(st.floats(0, 50), min_size=1, max_size=8), n=st.integers(1, 8), rate=st.floats(0.01, 3))
def test_probabilities_solve_their_equation(losses: list[float], n: int, rate: float) -> None:
    n = min(n, len(losses))
    array = np.array(losses)
    probabilities = probabilities_of(array, rate, n)
    assert probabilities.sum() == pytest.approx(n)
    assert probabilities.max() <= 1 + 1e-12
    if n < len(losses):
        weights = np.exp(-rate * (array - array.min()))
        scale = math.exp(brentq(lambda c: np.minimum(1, np.exp(c) * weights).sum() - n, -5, 200 * rate))
        assert probabilities == pytest.approx(np.minimum(1, scale * weights), abs=1e-6)


def test_huge_losses_neither_overflow_nor_vanish() -> None:
    probabilities = probabilities_of(np.array([0.0, 1e9, 1e9 + 1.0, 2e9]), 1.0, 2)
    assert probabilities == pytest.approx([1.0, 1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0.0])


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 5))
def test_marginals_are_exact_for_every_walk(seed: int, n: int) -> None:
    """Given the walk, the set depends on one uniform only: the lengths of its pieces are integrated exactly."""
    rng = np.random.default_rng(seed)
    losses = rng.random(5) * 4
    probabilities, best_first = probabilities_of(losses, 1.0, n), ranking_of(-losses)
    uniforms = rng.random(1 + 5 + n)
    walk = best_first.copy()
    _shuffle(walk, uniforms[1:6])
    ends = np.cumsum(probabilities[walk])
    edges = np.unique(np.concatenate([[0.0, 1.0], ends % 1.0]))
    shares = np.zeros(5)
    for low, high in pairwise(edges):
        uniforms[0] = (low + high) / 2
        ranking = _drawn_first(probabilities, best_first, n, uniforms)
        assert sorted(ranking.tolist()) == list(range(5))
        shares[ranking[:n]] += high - low
    assert shares == pytest.approx(probabilities, abs=1e-9)


def test_every_position_of_the_set_is_equally_likely() -> None:
    rng, losses = np.random.default_rng(0), np.array([0.0, 1.0, 0.3, 2.0])
    probabilities, best_first = probabilities_of(losses, 1.0, 2), ranking_of(-losses)
    first = np.array([_drawn_first(probabilities, best_first, 2, rng.random(7))[0] for _ in range(20_000)])
    found = np.bincount(first, minlength=4) / len(first)
    assert np.all(np.abs(found - probabilities / 2) <= 4 * np.sqrt(found / len(first)))


@pytest.mark.parametrize(("n", "depth"), [(2, 1), (3, 2), (2, 4), (4, 1), (1, 1)])
def test_estimates_are_unbiased(n: int, depth: int) -> None:
    """E over the set (by pieces of the line) and over the random place of each member, for a fixed walk."""
    losses, relevant = np.array([0.2, 1.5, 0.0, 0.9]), np.array([1.0, 0.0, 0.0, 1.0])
    probabilities, best_first = probabilities_of(losses, 0.7, n), ranking_of(-losses)
    walk_draws = np.full(1 + 4 + n, 1e-9)  # no exchange: the walk is best first
    edges = np.unique(np.concatenate([[0.0, 1.0], np.cumsum(probabilities[best_first]) % 1.0]))
    expected, revealed = np.zeros(4), min(n, depth)
    for low, high in pairwise(edges):
        walk_draws[0] = (low + high) / 2
        members = _drawn_first(probabilities, best_first, n, walk_draws)[:n]
        expected[members] += (
            (high - low) * revealed / n * (1 - relevant[members]) / (probabilities[members] * revealed / n)
        )
    assert expected == pytest.approx(1 - relevant)


def test_learning_uses_the_probabilities_of_decision_time() -> None:
    learner, query = PrecisionBandit(n=2, horizon=100), Query.of(np.empty((4, 0)))
    state = learner.init(Problem(0, 4, depth=1, max_grade=2))
    assert state.rate == pytest.approx(math.sqrt(2 * 1 * math.log(4 / 2) / (4 * 100)))
    decision = learner.rank(state, query, np.random.default_rng(0))
    assert decision.receipt.chances == pytest.approx([2 / 4 * 1 / 2])
    first = int(decision.ranking[0])
    for grade, loss in ((0.0, 4.0), (1.0, 0.0), (2.0, 0.0)):
        learned = learner.learn(state, query, decision, relevances([first], [grade]))
        assert learned.losses[first] == pytest.approx(loss)
    strict = PrecisionBandit(n=2, relevant_from=2.0).learn(state, query, decision, relevances([first], [1.0]))
    assert strict.losses[first] == pytest.approx(4.0)
    bad = learner.learn(state, query, decision, relevances([first], [0.0]))
    assert learner.predict(bad, query)[-1] == first


def test_feedback_may_name_the_items_in_any_order() -> None:
    learner, query = PrecisionBandit(n=3), Query.of(np.empty((5, 0)))
    state = learner.init(Problem(0, 5, depth=4))
    state = state._replace(losses=np.array([0.0, 3.0, 1.0, 7.0, 2.0]), rounds=9)
    decision = learner.rank(state, query, np.random.default_rng(0))
    items, grades = decision.ranking[:4], np.array([0.0, 1.0, 0.0, 1.0])
    there = learner.learn(state, query, decision, relevances(items, grades))
    back = learner.learn(state, query, decision, relevances(items[::-1], grades[::-1]))
    assert there.losses.tolist() == back.losses.tolist()
    assert there.losses[items[3]] == state.losses[items[3]]  # below the first n: revealed, but not by the draw


def test_edge_cases() -> None:
    query = Query.of(np.empty((3, 0)))
    for n in (3, 9):  # every item is among the first n
        learner = PrecisionBandit(n=n)
        state = learner.init(Problem(0, 3, depth=1))
        decision = learner.rank(state, query, np.random.default_rng(1))
        assert sorted(decision.ranking) == [0, 1, 2]
        assert decision.receipt.chances == pytest.approx([1 / 3])
    one = Query.of(np.empty((1, 0)))
    learner = PrecisionBandit(n=1)
    assert learner.rank(learner.init(Problem(0, 1)), one, np.random.default_rng(0)).ranking.tolist() == [0]
    for wrong in ({"n": 0}, {"horizon": 0}, {"learning_rate": -1.0}, {"relevant_from": 0.0}):
        with pytest.raises(InvalidInput):
            PrecisionBandit(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="first item is graded"):
        PrecisionBandit().init(Problem(0, 3, depth=0))
