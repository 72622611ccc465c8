"""The bounds of coactive learning: their formulas as arithmetic, and that played rounds keep them."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from rankloop import InvalidInput, Preferred, build, play
from rankloop.core.types import Decision, Problem, Query
from rankloop.learners.newton_pairs import NewtonPairs, Receipt
from rankloop.learners.preference_perceptron import PreferencePerceptron
from rankloop.learners.three_pr import ThreePR
from rankloop.simulate.users.readers import NoisyReader
from research.bounds.coactive import (
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
from tests.feedback import clicks

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
    assert perturbed_regret(T, R, W, A, XI, score_agreement=4.0) == pytest.approx(0.2 + math.sqrt(44) * 2 / 10)
    transient = math.sqrt(3.75) * 6 / 10
    assert approximate_regret(T, R, W, A, XI, beta=0.5) == pytest.approx(0.2 + 0.5 * 6 / 0.5 + transient)
    beta = 0.5 * (1 - 1 / math.log2(3))
    assert three_pr_regret(T, R, W, A, XI, swap=0.5) == pytest.approx(approximate_regret(T, R, W, A, XI, beta=beta))
    inner = 4 * 9 + 2 * 5.0
    for change, non_negative in ((1 - 1 / math.log2(3), True), (2.0, False)):
        outer = inner + 2 * change * 3 * math.sqrt(inner / 400)
        found = dynamic_regret(T, R, W, A, XI, budget=5.0, non_negative=non_negative)
        assert found == pytest.approx(0.2 + math.sqrt(outer) * 2 / 10)


def test_no_perturbation_recovers_theorem_1():
    assert perturbed_regret(T, R, W, A, XI, score_agreement=0.0) == preference_perceptron_regret(T, R, W, A, XI)
    assert perturbed_regret(T, R, W, A, XI, score_agreement=-1e9) == XI / A
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
    """The proof is pathwise: with the realised score agreement and slacks the bound holds for every single run."""
    rounds, radius = [], 0.0
    for round in play(ThreePR(swap=swap), Linear(), NoisyReader(noise=0.1, shown=8, max_clicks=8), horizon=600, seed=0):
        rounds.append(utilities(TRUE_WEIGHTS, round.query, round.decision.ranking, better_ranking(round)))
        radius = max(radius, radius_of(round.query))
        last = round.learned
    norm, n = float(np.linalg.norm(TRUE_WEIGHTS)), len(rounds)
    slack = float(slacks(rounds, alpha).mean())
    bound = perturbed_regret(n, radius, norm, alpha, slack, score_agreement=last.score_agreement / n)
    assert 0 < utility_regret(rounds) < bound
    if swap == "dynamic":
        assert utility_regret(rounds) < dynamic_regret(n, radius, norm, alpha, slack, non_negative=False)
    if swap == 0.0:
        assert last.score_agreement <= 1e-9


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
        assert length <= beta * R * t + math.sqrt((4 - beta**2) * t) * R + 1e-9
        assert length * W / (A * t) <= approximate_regret(t, R, W, A, beta=beta) + 1e-9


def test_z_times_its_tail_is_at_most_17_hundredths():
    z = np.linspace(0, 10, 10_001)
    assert 0.1699 < (z * ndtr(-z)).max() < 0.17


@pytest.mark.parametrize("floor", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("seed", range(8))
def test_what_swaps_by_doubt_cost(seed, floor):
    """Over all rankings with their probabilities, beside the sum over pairs."""
    rng, learner = np.random.default_rng(seed), NewtonPairs(alpha=1.5, floor=floor)
    rows = rng.normal(size=(9, 3))
    precision = 10.0 * np.eye(3) + rows.T @ rows
    state = learner.init(Problem(3))._replace(weights=rng.normal(size=3), precision=precision)
    state = state._replace(covariance=np.linalg.inv(precision))
    query = Query.of(rng.normal(size=(5, 3)))
    scores, best = query.features @ state.weights, learner.predict(state, query)
    gamma = 1 / np.log2(np.arange(5) + 2)
    cost = sum(
        math.exp(learner.log_prob(state, query, np.array(order))) * (gamma @ scores[best] - gamma @ scores[list(order)])
        for order in itertools.permutations(range(5))
    )
    most = 0.0
    for j, (upper, lower) in enumerate(itertools.pairwise(best)):
        x, margin = query.features[upper] - query.features[lower], scores[upper] - scores[lower]
        doubt = 1.5 * math.sqrt(x @ state.covariance @ x)
        most += 0.5 * (gamma[j] - gamma[j + 1]) * max(0.17 * doubt, floor * margin)
    assert 0 < cost <= most * (1 + 1e-12)


class TwoItems:
    """The second item is better."""

    problem = Problem(n_features=1)

    def rounds(self, rng):
        while True:
            yield Query.of([[0.0], [1.0]]), np.array([0.0, 1.0])


class Contrary:
    """Nobody clicks when the better item is first; else one in four clicks it below, the others what is above."""

    shown = depth = None

    def observe(self, ranking, relevance, rng):
        lower = rng.random() < 0.25
        return clicks([]) if ranking[0] == 1 else clicks([1 if lower else 0])


@pytest.mark.parametrize(
    ("learner", "broken", "alpha", "regret"),
    [
        ("3pr", False, 0.25, 0.094),
        ("newton_pairs", True, 0.118, 0.359),
        ("fair_pairs(either=true)", True, 0.099, 0.314),
    ],
)
def test_steps_from_either_click_can_break_the_bound(learner, broken, alpha, regret):
    told, affirmed, n_rounds = [], 0.0, 10_000
    for round in play(build(learner), TwoItems(), Contrary(), horizon=n_rounds, seed=0):
        shown, first = round.decision.ranking, round.decision.receipt.first
        better = shown[::-1] if first == 0 and round.feedback.items.tolist() == [1] else shown
        told.append(utilities(np.ones(1), round.query, shown, better))
        affirmed += round.state.weights[0] * FIRST_DROP * (better is not shown) / n_rounds
    assert informativeness(told) == pytest.approx(alpha, abs=6e-4)
    assert utility_regret(told) == pytest.approx(regret, abs=6e-4)
    bound = perturbed_regret(n_rounds, 1.0, 1.0, informativeness(told), score_agreement=max(affirmed, 0.0))
    assert (utility_regret(told) > bound) == broken


def test_where_contrary_people_lead_newton_pairs():
    """Of the one order that is clicked, ¼ σ(−w) = ¾ σ(w) at w = log ⅓; the first step goes there already."""
    learner, query = NewtonPairs(), Query.of([[0.0], [1.0]])
    state, expected = learner.init(Problem(1)), 0.0
    for clicked, probability in ((1, 1 / 4), (0, 3 / 4)):
        decision = Decision(np.array([0, 1]), math.nan, Receipt(np.array([0.5]), 0))
        expected += probability * learner.learn(state, query, decision, clicks([clicked])).weights[0]
    assert expected == pytest.approx((1 / 4 - 3 / 4) * (1 / 2) / (10 + 1 / 4))
    *_, last = play(NewtonPairs(), TwoItems(), Contrary(), horizon=10_000, seed=0)
    assert last.learned.weights[0] == pytest.approx(math.log(1 / 3), abs=0.15)


def test_impossible_arguments_are_refused():
    for wrong in (
        lambda: preference_perceptron_regret(0, R, W, A),
        lambda: preference_perceptron_regret(T, R, W, 0.0),
        lambda: three_pr_regret(T, R, W, A, swap=2.0),
        lambda: dynamic_regret(T, R, W, A, budget=-1.0),
        lambda: dynamic_regret(0, R, W, A, budget=2.0),
        lambda: approximate_regret(T, R, W, A, beta=1.5),
    ):
        with pytest.raises(InvalidInput):
            wrong()
