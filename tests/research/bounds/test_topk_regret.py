"""Theorem 30 beside measured surrogate regret, and the two worlds of Theorem 32 that look the same."""

import math
from itertools import permutations, product

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.types import Problem, Query, Relevances
from rankloop.learners.topk_gradient import SQUARED_GRADES, GradedItems, TopKGradient, _estimated_gradient, _kernel_step
from rankloop.simulate.play import play
from rankloop.simulate.users.readers import TopK
from rankloop.surrogates.pointwise import CalibratedSquared, normalised_gains
from research.bounds.topk_regret import (
    best_in_hindsight,
    explored_value,
    second_moment,
    surrogate_regret,
    topk_gradient_regret,
)
from research.games.theorem_32 import theorem_32

N_ITEMS, N_FEATURES = 4, 3


def squared_norms(surrogate, depth, features, weights, grades, gamma):
    """E‖Xᵀz‖² over all rankings."""
    scores, best = features @ weights, np.argsort(-(features @ weights), kind="stable")
    total = 0.0
    for order in permutations(range(len(grades))):
        ranking = np.array(order)
        probability = gamma / math.factorial(len(grades)) + (1 - gamma) * np.array_equal(ranking, best)
        items = ranking[:depth]
        graded = GradedItems(items, grades[items], best[:depth], gamma, 0.0)
        if getattr(surrogate, "divided", "") == "grade":
            z = scores - _kernel_step(scores, np.eye(len(scores)), graded, SQUARED_GRADES, 1.0, 1.0, np.inf)
        else:
            z = _estimated_gradient(surrogate, scores, graded)
        total += probability * np.sum((features.T @ z) ** 2)
    return total


@pytest.mark.parametrize(
    ("spec", "depth"), [("squared", 1), ("squared(divided='grade')", 1), ("kl", 1), ("rank_svm", 2)]
)
def test_the_second_moment_is_bounded(spec, depth):
    name = spec.partition("(")[0]
    rng = np.random.default_rng(2)
    for _ in range(20):
        features, gamma = rng.normal(size=(N_ITEMS, N_FEATURES)), rng.uniform(0.05, 0.5)
        weights, grades = (
            rng.normal(size=N_FEATURES) * rng.choice([0.01, 1.0]),
            rng.integers(0, 4, N_ITEMS).astype(float),
        )
        longest, radius = np.linalg.norm(features, axis=1).max(), np.linalg.norm(weights)
        moment = squared_norms(build(spec, "surrogate"), depth, features, weights, grades, gamma)
        assert moment <= second_moment(name, N_ITEMS, longest, radius, 3.0) / gamma


def test_the_printed_constants_are_violated():
    features, weights, grades, gamma = np.eye(3), np.array([0.01, 0.0, 0.0]), np.full(3, 3.0), 0.3
    m, longest, radius, highest = 3, 1.0, 0.01, 3.0
    squared = squared_norms(build("squared", "surrogate"), 1, features, weights, grades, gamma)
    assert squared > m**4 * longest**4 * radius**2 * highest**2 / gamma
    kl = squared_norms(build("kl", "surrogate"), 1, features, weights, grades, gamma)
    assert kl > m**2 * longest**2 * math.exp(2 * longest * radius) / gamma


def test_the_promise_is_the_least_of_its_formula():
    horizon, radius, moment, largest = 10_000, 2.0, 50.0, 9.0

    def bound(rate, gamma):
        return radius**2 / (2 * rate) + rate * moment * horizon / (2 * gamma) + gamma * largest * horizon

    promise = topk_gradient_regret(horizon, radius, moment, largest)
    assert promise.regret == pytest.approx(bound(promise.learning_rate, promise.exploration))
    for rate, gamma in product((0.8, 1.0, 1.25), repeat=2):
        assert promise.regret <= bound(promise.learning_rate * rate, promise.exploration * gamma) + 1e-6
    growth = topk_gradient_regret(8 * horizon, radius, moment, largest).regret / promise.regret
    assert growth == pytest.approx(8 ** (2 / 3))


@pytest.mark.parametrize("name", ["squared", "kl", "list_net", "slam"])
def test_the_best_in_hindsight_beats_every_other_point_of_the_ball(name):
    rng = np.random.default_rng(3)
    queries = [(rng.normal(size=(5, 3)), rng.integers(0, 3, 5).astype(float)) for _ in range(20)]
    surrogate, radius = build(name, "surrogate"), 0.7
    weights, least = best_in_hindsight(surrogate, queries, radius)
    assert np.linalg.norm(weights) <= radius + 1e-9
    for _ in range(300):
        other = rng.normal(size=3)
        other *= radius * rng.random() ** (1 / 3) / np.linalg.norm(other)
        assert sum(surrogate.value_and_grad(X @ other, r)[0] for X, r in queries) >= least - 1e-3 * least


@pytest.mark.parametrize("spec", ["squared", "squared(divided='grade')"])
def test_measured_regret_stays_below_theorem_30(spec):
    stream, radius, horizon = build("linear_gaussian(n_items=3, n_features=3, n_queries=40)"), 0.8, 1000
    longest, highest = 5.0, 4.0
    moment = second_moment("squared", 3, longest, radius, highest)
    promise = topk_gradient_regret(horizon, radius, moment, largest_loss=3 * highest**2)
    learner = TopKGradient(
        surrogate=spec,
        floor=0.0,
        exploration=promise.exploration,
        exploration_decay=0.0,
        learning_rate=promise.learning_rate,
        learning_rate_decay=0.0,
        radius=radius,
    )
    rounds = [
        (round.query.features, round.relevance, round.state.weights, round.decision.receipt.exploration)
        for round in play(learner, stream, TopK(depth=1), horizon=horizon, seed=1)
    ]
    assert max(np.linalg.norm(features, axis=1).max() for features, *_ in rounds) <= longest
    without = surrogate_regret(learner.surrogate, [round[:3] for round in rounds], radius)
    explored = surrogate_regret(learner.surrogate, rounds, radius)
    assert explored != without
    assert 0 < explored <= promise.regret


@pytest.mark.parametrize("name", ["squared", "kl", "rank_svm"])
def test_what_random_scores_cost_on_average(name):
    surrogate, relevance = build(name, "surrogate"), np.array([2.0, 0.0, 1.0])
    nodes = (np.arange(20) + 0.5) / 20  # midpoints of a grid over the cube
    values = [surrogate.value_and_grad(np.array(scores), relevance)[0] for scores in product(nodes, repeat=3)]
    assert np.mean(values) == pytest.approx(explored_value(surrogate, relevance), rel=1e-3)


def test_explored_rounds_are_counted_by_their_probability():
    surrogate, rng = build("squared", "surrogate"), np.random.default_rng(7)
    rounds = [(rng.normal(size=(4, 2)), rng.integers(0, 3, 4).astype(float), rng.normal(size=2)) for _ in range(6)]
    plain = surrogate_regret(surrogate, rounds, 0.6)
    values = [surrogate.value_and_grad(x @ w, r)[0] for x, r, w in rounds]
    extra = sum(0.3 * (np.sum(1 / 3 - r + r**2) - value) for value, (_, r, _) in zip(values, rounds))
    explored = surrogate_regret(surrogate, [(*round, 0.3) for round in rounds], 0.6)
    assert explored == pytest.approx(plain + extra)
    with pytest.raises(InvalidInput, match="random scores"):
        surrogate_regret(build("list_net", "surrogate"), [(*round, 0.3) for round in rounds], 0.6)


def test_the_regret_of_the_best_weights_is_zero():
    rng = np.random.default_rng(5)
    queries = [(rng.normal(size=(4, 2)), rng.integers(0, 3, 4).astype(float)) for _ in range(10)]
    surrogate = build("squared", "surrogate")
    best, _ = best_in_hindsight(surrogate, queries, 0.7)
    assert surrogate_regret(surrogate, [(x, r, best) for x, r in queries], 0.7) == pytest.approx(0.0, abs=1e-9)


RELEVANCES = np.array(
    [[0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], dtype=float
)
WORLDS = np.array([[0.0, 0.1, 0.15, 0.05, 0.2, 0.3, 0.2, 0.0], [0.0, 0.3, 0.0, 0.0, 0.15, 0.15, 0.4, 0.0]])


def test_the_two_worlds_look_the_same_and_want_different_rankings():
    first, second = WORLDS
    for world in WORLDS:
        assert world.sum() == pytest.approx(1)
        assert world @ RELEVANCES == pytest.approx([0.45, 0.45, 0.4])
    gains = np.array([normalised_gains(relevance) for relevance in RELEVANCES])
    assert first @ gains == pytest.approx([0.3533, 0.3920, 0.3226], abs=1e-4)
    assert second @ gains == pytest.approx([0.3339, 0.3339, 0.4000], abs=1e-4)
    assert np.argmax(first @ gains) == 1
    assert np.argmax(second @ gains) == 2


def test_they_are_the_pair_that_the_games_know():
    pair = theorem_32()
    for ours, theirs in zip(WORLDS, (pair.first, pair.second)):
        known = {tuple(row): probability for row, probability in zip(pair.relevances, theirs)}
        assert [known[tuple(row)] for row in RELEVANCES.astype(int)] == pytest.approx(ours)
    assert pair.gap > 0


def test_a_calibrated_surrogate_wants_different_scores_in_the_two_worlds():
    surrogate = CalibratedSquared()
    gains = np.array([normalised_gains(relevance) for relevance in RELEVANCES])
    for world in WORLDS:
        best = world @ gains  # where the mean gradient vanishes
        mean = sum(p * surrogate.value_and_grad(best, relevance)[1] for p, relevance in zip(world, RELEVANCES))
        assert mean == pytest.approx(np.zeros(3), abs=1e-12)


def test_top_1_learners_behave_alike_in_the_two_worlds():
    # the law of what comes back is the same for every ranking, so the expected step is too
    learner, query = TopKGradient(floor=0.0, exploration=0.5), Query.of(np.eye(3))
    state = learner.init(Problem(3, depth=1))._replace(weights=np.array([0.2, 0.5, 0.1]))
    steps = []
    for world in WORLDS:
        step = np.zeros(3)
        for p, relevance in zip(world, RELEVANCES):
            for order in permutations(range(3)):
                ranking = np.array(order)
                probability = p * math.exp(learner.log_prob(state, query, ranking))
                decision = learner.rank(state, query, np.random.default_rng(0))._replace(ranking=ranking)
                seen = Relevances(ranking[:1], relevance[ranking[:1]])
                step += probability * learner.learn(state, query, decision, seen).weights
        steps.append(step)
    assert steps[0] == pytest.approx(steps[1], abs=1e-12)


def test_the_calibrated_surrogate_is_refused_with_top_1_feedback():
    with pytest.raises(InvalidInput, match="calibrated_squared"):
        TopKGradient(surrogate="calibrated_squared").init(Problem(3, depth=1))
