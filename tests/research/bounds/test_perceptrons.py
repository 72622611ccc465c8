"""The bounds of the perceptrons hold on measured runs, and the adversary reaches what cannot be avoided."""

import math
from itertools import pairwise

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.session import generators
from rankloop.core.types import Problem, Query, Relevances
from rankloop.data.dataset import Dataset
from rankloop.learners.ranking_perceptron import MaxPairPerceptron, Perceptron, RankingPerceptron
from rankloop.measures.base import parse_measure
from rankloop.simulate.play import play
from rankloop.simulate.streams.lower_bound import LowerBound
from rankloop.simulate.streams.simulated_queries import Separable
from rankloop.simulate.users.readers import Full
from rankloop.surrogates.pairwise import Slam
from research.bounds.perceptrons import (
    SlamWeights,
    margin_of,
    max_pair_perceptron_loss,
    perceptron_mistakes,
    ranking_perceptron_loss,
    self_bounding,
    slam_weights,
    unavoidable_loss,
)

STREAM = Separable(n_queries=300)
SEED = 5


def test_the_margin_is_the_least_gap_of_all_pairs():
    rng = np.random.default_rng(4)
    dataset = Dataset.of(rng.normal(size=(9, 2)), rng.integers(0, 3, 9).astype(float), [0, 5, 9])
    weights = rng.normal(size=2)
    scores = dataset.features @ weights
    gaps = [
        scores[i] - scores[j]
        for first, end in pairwise(dataset.offsets)
        for i in range(first, end)
        for j in range(first, end)
        if dataset.relevance[i] > dataset.relevance[j]
    ]
    assert margin_of(dataset, weights) == pytest.approx(min(gaps))


@pytest.fixture(scope="module")
def world():
    """(1 / margin, longest feature vector, relevance of one query) of the stream that `play` meets."""
    dataset, weights = STREAM.dataset_and_weights(generators(SEED)[0])
    longest = float(np.linalg.norm(dataset.features, axis=1).max())
    return float(1.0 / margin_of(dataset, weights)), longest, dataset.relevance[: dataset.offsets[1]]


def summed_loss(learner, measure, horizon=600):
    judge = parse_measure(measure)
    rounds = play(learner, STREAM, Full(), horizon=horizon, seed=SEED)
    return sum(1 - judge(round.decision.ranking, round.relevance) for round in rounds)


@pytest.mark.parametrize("measure", ["nDCG", "nDCG@10", "AP"])
def test_the_ranking_perceptron_stays_below_theorems_6_and_8(world, measure):
    norm, radius, relevance = world
    weights = slam_weights(relevance, measure)
    rate = 1 / self_bounding(radius, weights)
    loss = summed_loss(RankingPerceptron(measure=measure, learning_rate=rate), measure)
    bound = ranking_perceptron_loss(norm, radius, weights)
    assert 0 < loss <= bound <= ranking_perceptron_loss(norm, radius, weights, tight=False)


@pytest.mark.parametrize("measure", ["nDCG", "AP"])
def test_the_max_pair_perceptron_stays_below_theorem_10(world, measure):
    norm, radius, _ = world
    loss = summed_loss(MaxPairPerceptron(measure=measure), measure)
    assert 0 < loss <= max_pair_perceptron_loss(norm, radius)


def test_the_perceptron_stays_below_theorem_1():
    rng = np.random.default_rng(0)
    direction = np.array([0.6, 0.8, 0.0])
    learner = Perceptron()
    state, radius, margin = learner.init(Problem(3)), 0.0, math.inf
    for _ in range(300):
        features = rng.normal(size=(4, 3))
        scores = features @ direction
        features += np.outer(np.sign(scores) * 0.3, direction)
        grades = (scores > 0).astype(float)
        state = learner.learn(state, Query.of(features), None, Relevances(np.arange(4), grades))
        radius = max(radius, np.linalg.norm(features, axis=1).max())
        margin = min(margin, np.abs(features @ direction).min())
    assert 0 < state.mistakes <= perceptron_mistakes(1 / margin, radius)


def test_bounds_with_a_comparator_that_is_not_perfect():
    # L + b·√L + b²
    assert perceptron_mistakes(2.0, 3.0, 4.0) == pytest.approx(4 + 6 * 2 + 36)
    assert max_pair_perceptron_loss(2.0, 3.0, 4.0) == pytest.approx(4 + 2 * 2 * 3 * 2 + 4 * 4 * 9)
    weights = SlamWeights(5, 2.0, 0.1)
    printed = ranking_perceptron_loss(3.0, 2.0, weights, 4.0, tight=False)
    constant = 4 * 2**2 * 5 * 2
    assert printed == pytest.approx(4 + 3 * math.sqrt(constant * 4) + constant * 9)
    tight = 4 * 2**2 / 0.1
    assert ranking_perceptron_loss(3.0, 2.0, weights, 4.0) == pytest.approx(4 + 3 * math.sqrt(tight * 4) + tight * 9)
    with pytest.raises(InvalidInput):
        perceptron_mistakes(-1.0, 1.0)


def test_the_tight_constant_is_several_times_smaller():
    relevance = np.repeat([0.0, 1.0, 2.0, 3.0, 4.0], 4)
    weights = slam_weights(relevance)
    assert self_bounding(1.0, weights, tight=False) > 2.5 * self_bounding(1.0, weights)


def test_slam_weights_by_hand():
    ideal = 3 + 1 / math.log2(3)
    assert slam_weights(np.array([0.0, 2.0, 1.0])) == pytest.approx((2, 3 * math.log2(3), 1 / math.log2(3) / ideal))
    assert slam_weights(np.array([0.0, 2.0, 1.0]), "nDCG@1") == pytest.approx((1, 1.0, 1.0))
    assert slam_weights(np.array([0.0, 1.0, 1.0]), "AP") == pytest.approx((2, 1.0, 0.5))
    assert slam_weights(np.zeros(3)).positive == 0


@pytest.mark.parametrize("measure", ["nDCG", "nDCG@2", "AP"])
def test_lemma_5_bounds_the_gradient_of_every_mistake(measure):
    rng = np.random.default_rng(1)
    surrogate = Slam(measure="AP") if measure == "AP" else Slam(cutoff=parse_measure(measure).cutoff)
    checked = 0
    for _ in range(300):
        scores, grades = rng.integers(0, 4, 5).astype(float), rng.integers(0, 3, 5).astype(float)
        value, grad = surrogate.value_and_grad(scores, grades)
        mistaken = parse_measure(measure)(np.argsort(-scores, kind="stable"), grades) < 1
        if value > 0 and mistaken and (grades >= 1).any():
            checked += 1
            constant = self_bounding(1.0, slam_weights(grades, measure))
            assert np.abs(grad).sum() ** 2 <= constant * value + 1e-9
    assert checked > 100


@pytest.mark.parametrize("kind", ["ranking_perceptron", "max_pair_perceptron", "online_gradient", "perceptron"])
def test_nobody_escapes_the_adversary(kind):
    stream = LowerBound(n_features=16, margin=0.25)
    judge = parse_measure("nDCG")
    rounds = list(play(build(kind, "learner"), stream, Full(), horizon=32, seed=0))
    losses = [1 - judge(round.decision.ranking, round.relevance) for round in rounds]
    assert sum(losses[:16]) == pytest.approx(unavoidable_loss(1.0, 0.5)) == pytest.approx(16 * (1 - 1 / math.log2(3)))
    assert all(np.array_equal(a.relevance, b.relevance) for a, b in zip(rounds[:16], rounds[16:]))
    mistakes = sum(loss > 0 for loss in losses)
    assert mistakes >= max_pair_perceptron_loss(1 / 0.5, 1.0) == 16  # Corollary 11 is met: the constant 4 is exact
    assert kind != "max_pair_perceptron" or mistakes == 16


def test_the_adversary_is_separable_with_its_margin():
    stream = LowerBound(n_features=16, margin=0.25)
    rounds = list(play(MaxPairPerceptron(), stream, Full(), horizon=16, seed=0))
    weights = np.zeros(16)
    for i, round in enumerate(rounds):
        weights[i] = 0.25 if round.relevance[0] > round.relevance[1] else -0.25
    assert np.linalg.norm(weights) <= 1
    for round in rounds:
        better, worse = np.argmax(round.relevance), np.argmin(round.relevance)
        assert (round.query.features[better] - round.query.features[worse]) @ weights == pytest.approx(0.5)


def test_too_many_queries_for_the_features_are_refused():
    with pytest.raises(InvalidInput, match="need as many features"):
        LowerBound(n_features=5, margin=0.25)
    with pytest.raises(InvalidInput, match="margin"):
        LowerBound(margin=0.0)
