"""The bounds of coactive learning: their formulas as arithmetic, and that played rounds keep them."""

import math

import numpy as np
import pytest

from rankloop import InvalidInput, Preferred, play
from rankloop.bounds.coactive import (
    FIRST_DROP,
    Feedback,
    approximate_regret,
    dynamic_regret,
    informativeness,
    perturbed_regret,
    preference_perceptron_regret,
    radius_of,
    slacks,
    three_pr_regret,
    utilities,
    utility_regret,
)
from rankloop.core.types import Problem, Query
from rankloop.feedback.noisy_reader import NoisyReader
from rankloop.learners.preference_perceptron import PreferencePerceptron
from rankloop.learners.three_pr import ThreePR

TRUE_WEIGHTS = np.array([1.0, -2.0, 0.5])
T, R, W, A, XI = 400, 3.0, 2.0, 0.5, 0.1


class Linear:
    """Items whose grade is whether their true utility is above 0."""

    problem = Problem(n_features=3)

    def rounds(self, rng):
        while True:
            features = rng.random((8, 3)) - 0.5
            yield Query.of(features), (features @ TRUE_WEIGHTS > 0).astype(float)


def test_formulas():
    assert pytest.approx(1 - 1 / math.log2(3)) == FIRST_DROP
    assert preference_perceptron_regret(T, R, W, A, XI) == pytest.approx(0.1 / 0.5 + 2 * 3 * 2 / (0.5 * 20))
    assert perturbed_regret(T, R, W, A, XI, affirmativeness=4.0) == pytest.approx(0.2 + math.sqrt(44) * 2 / 10)
    assert approximate_regret(T, R, W, A, beta=0.5) == pytest.approx(0.5 * 6 / 0.5 + math.sqrt(2 * 3.75) * 6 / 10)
    beta = 0.5 * (1 - 1 / math.log2(3))
    assert three_pr_regret(T, R, W, A, swap=0.5) == pytest.approx(approximate_regret(T, R, W, A, beta=beta))
    inner = 4 * 9 + 2 * 1.0
    outer = inner + 2 * (1 - 1 / math.log2(3)) * 3 * math.sqrt(inner / 400)
    assert dynamic_regret(T, R, W, A, budget=1.0) == pytest.approx(math.sqrt(outer) * 2 / 10)


def test_no_perturbation_recovers_theorem_1():
    assert perturbed_regret(T, R, W, A, XI, affirmativeness=0.0) == preference_perceptron_regret(T, R, W, A, XI)
    assert perturbed_regret(T, R, W, A, XI, affirmativeness=-1e9) == XI / A
    assert dynamic_regret(10**12, R, W, A, XI) == pytest.approx(preference_perceptron_regret(10**12, R, W, A, XI))


def better_ranking(round):
    """What the pairs of 3PR make of the clicks."""
    shown, receipt = round.decision.ranking, round.decision.receipt
    better, clicked = shown.copy(), set(round.feedback.items.tolist())
    for j in range(receipt.first, len(shown) - 1, 2):
        if shown[j + 1] in clicked and shown[j] not in clicked:
            better[[j, j + 1]] = shown[[j + 1, j]]
    return better


@pytest.mark.parametrize("swap", [0.0, 0.5, "dynamic"])
@pytest.mark.parametrize("alpha", [0.02, 0.1])
def test_played_rounds_keep_theorem_2(swap, alpha):
    """The proof is pathwise: with the realised affirmativeness and slacks the bound holds for every single run."""
    rounds, radius = [], 0.0
    for round in play(ThreePR(swap=swap), Linear(), NoisyReader(noise=0.1, shown=8, max_clicks=8), horizon=600, seed=0):
        rounds.append(utilities(TRUE_WEIGHTS, round.query, round.decision.ranking, better_ranking(round)))
        radius = max(radius, radius_of(round.query))
        last = round.learned
    norm, n = float(np.linalg.norm(TRUE_WEIGHTS)), len(rounds)
    slack = float(slacks(rounds, alpha).mean())
    bound = perturbed_regret(n, radius, norm, alpha, slack, affirmativeness=last.affirmativeness / n)
    assert 0 < utility_regret(rounds) < bound
    if swap == "dynamic":
        assert utility_regret(rounds) < dynamic_regret(n, radius, norm, alpha, slack, non_negative=False)
    if swap == 0.0:
        assert last.affirmativeness <= 1e-9


def test_the_best_ranking_as_feedback_keeps_theorem_1():
    """Whoever answers with the best ranking is informative with α = 1 and without slack."""
    learner, rng = PreferencePerceptron(), np.random.default_rng(0)
    state, rounds, radius = learner.init(Linear.problem), [], 0.0
    for (query, _), _ in zip(Linear().rounds(rng), range(300)):
        decision = learner.rank(state, query, rng)
        best = np.argsort(-(query.features @ TRUE_WEIGHTS))
        rounds.append(utilities(TRUE_WEIGHTS, query, decision.ranking, best))
        state = learner.learn(state, query, decision, Preferred(best))
        radius = max(radius, radius_of(query))
    assert slacks(rounds, 1.0).max() == pytest.approx(0.0, abs=1e-12)
    assert informativeness(rounds) == pytest.approx(1.0)
    bound = preference_perceptron_regret(300, radius, float(np.linalg.norm(TRUE_WEIGHTS)), 1.0)
    assert 0 < utility_regret(rounds) < bound


def test_informativeness_and_slack_by_arithmetic():
    rounds = [Feedback(10.0, 4.0, 7.0), Feedback(5.0, 5.0, 4.0)]
    assert informativeness(rounds) == (3 - 1) / (6 + 0)
    assert slacks(rounds, 0.5).tolist() == [0.0, 1.0]
    assert utility_regret(rounds) == 3.0


def test_radius_bounds_every_ranking():
    rng = np.random.default_rng(1)
    query = Query.of(rng.normal(size=(5, 3)))
    for _ in range(50):
        order = rng.permutation(5)
        joint = sum(query.features[item] / math.log2(p + 2) for p, item in enumerate(order))
        assert np.linalg.norm(joint) <= radius_of(query) + 1e-12


def test_swaps_change_non_negative_features_by_no_more_than_the_dynamic_bound_says():
    rng = np.random.default_rng(2)
    for _ in range(200):
        rows = rng.random((6, 3)) * rng.random((6, 1)) ** 3
        predicted, first = rng.permutation(6), int(rng.integers(2))
        shown = predicted.copy()
        for j in range(first, 5, 2):
            if rng.random() < 0.5:
                shown[[j, j + 1]] = shown[[j + 1, j]]
        joint = [sum(rows[d] / math.log2(p + 2) for p, d in enumerate(order)) for order in (predicted, shown)]
        assert np.linalg.norm(joint[0] - joint[1]) <= FIRST_DROP * radius_of(Query.of(rows)) + 1e-12


def test_the_smallest_radius_would_not_do():
    shorter, longer = 1 / math.log2(3), 1.0
    change = math.sqrt(2) * (longer - shorter)  # rows (1, 0) and (0, 1), swapped
    assert change > FIRST_DROP * math.hypot(longer, shorter)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_weights_that_grow_as_fast_as_corollary_4_allows_stay_below_it(beta):
    length = 0.0
    for t in range(1, 400):
        length = math.sqrt(length**2 + 2 * beta * R * length + 4 * R**2)
        assert length <= beta * R * t + math.sqrt(2 * (4 - beta**2)) * R * math.sqrt(t) + 1e-9
        assert length * W / (A * t) <= approximate_regret(t, R, W, A, beta=beta) + 1e-9


def test_impossible_arguments_are_refused():
    for wrong in (
        lambda: preference_perceptron_regret(0, R, W, A),
        lambda: preference_perceptron_regret(T, R, W, 0.0),
        lambda: three_pr_regret(T, R, W, A, swap=2.0),
        lambda: dynamic_regret(T, R, W, A, budget=-1.0),
        lambda: approximate_regret(T, R, W, A, beta=1.5),
    ):
        with pytest.raises(InvalidInput):
            wrong()
