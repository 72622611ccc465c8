"""DBGD and MGD: candidates on the sphere, steps towards winners, and rankings that get better."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query, build, play
from rankloop.learners.dbgd import Dbgd, Mgd, _step_to_winners
from rankloop.measures.base import parse_measure
from rankloop.simulate.streams.simulated_queries import LinearGaussian
from rankloop.simulate.users.click_users import Dcm
from tests.feedback import clicks


def test_candidates_are_neighbours_at_the_spread():
    learner, rng = Mgd(candidates=4, spread=0.5), default_rng(0)
    query = Query.of(rng.normal(size=(6, 3)))
    state = learner.init(Problem(n_features=3))._replace(weights=np.array([1.0, -1.0, 0.2]))
    receipt = learner.rank(state, query, rng).receipt
    np.testing.assert_allclose(np.linalg.norm(receipt.directions, axis=1), 1.0)
    assert receipt.rankings[0].tolist() == learner.predict(state, query).tolist()
    for direction, ranking in zip(receipt.directions, receipt.rankings[1:], strict=True):
        scores = query.features @ (state.weights + 0.5 * direction)
        assert ranking.tolist() == np.argsort(-scores, kind="stable").tolist()


def test_directions_are_uniform():
    learner, rng = Dbgd(), default_rng(1)
    state, query = learner.init(Problem(n_features=2)), Query.of(np.zeros((2, 2)))
    drawn = np.array([learner.rank(state, query, rng).receipt.directions[0] for _ in range(2000)])
    assert np.all(np.abs(drawn.mean(axis=0)) < 5 * np.sqrt(0.5 / 2000))
    assert np.all(np.abs((drawn**2).mean(axis=0) - 0.5) < 5 * np.sqrt(0.125 / 2000))


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=2, max_size=6), st.integers(0, 99))
def test_step_twin(credits, seed):
    directions, weights = default_rng(seed).normal(size=(len(credits) - 1, 3)), np.array([1.0, 2.0, 3.0])
    winners = [direction for direction, credit in zip(directions, credits[1:]) if credit > credits[0]]
    wanted = weights + 0.1 * np.mean(winners, axis=0) if winners else weights
    np.testing.assert_allclose(_step_to_winners(weights, directions, np.array(credits), 0.1), wanted)


def test_a_click_on_the_candidates_item_is_followed():
    learner, query = Dbgd(learning_rate=0.1, spread=2.0), Query.of(np.array([[1.0], [-1.0]]))
    state = learner.init(Problem(n_features=1))._replace(weights=np.array([1.0]))
    rng = default_rng(3)
    decision = learner.rank(state, query, rng)
    while decision.receipt.directions[0, 0] > 0:  # until the candidate turns the order round
        decision = learner.rank(state, query, rng)
    assert decision.receipt.rankings.tolist() == [[0, 1], [1, 0]]
    assert learner.learn(state, query, decision, clicks([1])).weights[0] == pytest.approx(1.0 - 0.1 * 2.0)
    assert learner.learn(state, query, decision, clicks([0])).weights.tolist() == [1.0]
    assert learner.learn(state, query, decision, clicks([])).weights.tolist() == [1.0]


@pytest.mark.parametrize("spec", ["dbgd", "mgd", "mgd(interleaving='probabilistic')"])
def test_rankings_get_better(spec):
    learner, ndcg = build(spec, "learner"), parse_measure("nDCG@10")
    stream = LinearGaussian(n_items=10, n_features=4, n_queries=200, noise=0.1)
    values = []
    for round in play(learner, stream, Dcm(behaviour="perfect"), horizon=1500, seed=0):
        values.append(ndcg(learner.predict(round.state, round.query), round.relevance))
    assert np.mean(values[-300:]) > np.mean(values[:5]) + 0.2
    assert np.mean(values[-300:]) > 0.8


def test_bad_parameters_are_refused():
    for wrong in ({"candidates": 0}, {"learning_rate": 0.0}, {"spread": -1.0}):
        with pytest.raises(InvalidInput):
            Mgd(**wrong)
