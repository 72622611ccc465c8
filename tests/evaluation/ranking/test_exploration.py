"""What exploration costs."""

import math

import numpy as np
import pytest

from rankloop import Query, build, parse_measure, play
from rankloop.evaluation.ranking.exploration import exploration_cost, utility_of
from rankloop.simulate.streams.simulated_queries import LinearGaussian
from rankloop.simulate.users.readers import NoisyReader

STREAM = LinearGaussian(n_items=30, n_features=6, n_queries=40)


def test_exploration_cost_by_arithmetic():
    query, relevance = Query.of(np.array([[2.0], [1.0], [0.0]])), np.array([1.0, 0.0, 0.0])
    shown, predicted, weights = np.array([1, 0, 2]), np.array([0, 1, 2]), np.array([3.0])
    assert utility_of(weights, query, predicted) == pytest.approx(6 / math.log2(2) + 3 / math.log2(3))
    cost = exploration_cost(parse_measure("nDCG"), query, relevance, shown, predicted, weights)
    assert cost.utility == pytest.approx((6 - 3) * (1 - 1 / math.log2(3)))
    assert cost.measure == pytest.approx(1 - 1 / math.log2(3))
    loss = exploration_cost(parse_measure("AUCLoss"), query, relevance, shown, predicted, weights)
    assert loss.measure == pytest.approx(0.5)


def test_swaps_never_gain_utility_of_their_own():
    learner, ndcg = build("3pr", "learner"), parse_measure("nDCG@10")
    for round in play(learner, STREAM, NoisyReader(), horizon=60, seed=1):
        predicted = learner.predict(round.state, round.query)
        shown, weights = round.decision.ranking, round.state.weights
        cost = exploration_cost(ndcg, round.query, round.relevance, shown, predicted, weights)
        assert -1e-9 <= cost.utility <= round.decision.receipt.max_perturbation + 1e-9
