"""How much a learner's top list changes, and what exploration costs."""

import numpy as np
import pytest

from rankloop import InvalidInput, Problem, Query, build, play
from rankloop.simulate.streams.simulated_queries import LinearGaussian
from rankloop.simulate.users.readers import NoisyReader
from research.stability import TopOverlap, common_items, overlaps

STREAM = LinearGaussian(n_items=30, n_features=6, n_queries=40)


def test_common_items():
    assert common_items(np.array([0, 1, 2, 3]), np.array([1, 5, 0, 2]), top=3) == 2
    assert common_items(np.arange(4), np.arange(4)[::-1].copy(), top=10) == 4


def test_overlaps_by_hand():
    """Weights that turn round every second round: two models an odd number of rounds apart share nothing at the top."""
    learner = build("fixed_weights(weights=[1.0])", "learner")
    query = Query.of(np.arange(6.0)[:, None])
    state = learner.init(Problem(n_features=1))
    states = [state._replace(weights=state.weights * (-1) ** t) for t in range(8)]
    assert list(overlaps(learner, states, [query], apart=1, every=2, top=3)) == [
        TopOverlap(2, 0.0),
        TopOverlap(4, 0.0),
        TopOverlap(6, 0.0),
    ]
    assert {one.common for one in overlaps(learner, states, [query], apart=2, every=1, top=3)} == {3.0}


def test_3pr_is_more_stable_than_moving_clicks_to_the_top():
    probes = [query for (query, _), _ in zip(STREAM.rounds(np.random.default_rng(9)), range(20))]
    mean = {}
    for spec in ("preference_perceptron", "3pr"):
        learner = build(spec, "learner")
        states = (round.learned for round in play(learner, STREAM, NoisyReader(), horizon=800, seed=0))
        mean[spec] = np.mean([one.common for one in overlaps(learner, states, probes) if one.t > 300])
    assert mean["3pr"] > mean["preference_perceptron"]


def test_impossible_arguments_are_refused():
    learner = build("3pr", "learner")
    with pytest.raises(InvalidInput):
        list(overlaps(learner, [], [Query.of(np.eye(2))], apart=0))
    with pytest.raises(InvalidInput):
        list(overlaps(learner, [], []))
