"""The linear bandit against plain least squares, a peer's formula by hand, and chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop import InvalidInput, build, play
from rankloop.bandits.linear_ucb import LinearUCB, _optimistic_scores
from rankloop.core.types import Decision, Problem, Query, Reward

PROBLEM = Problem(n_features=0, n_items=3, n_context=2, shown=1)


def learned(learner, rows):
    state = learner.init(PROBLEM)
    for item, context, reward in rows:
        ranking = np.array([item, *(other for other in range(3) if other != item)])
        query = Query.of(np.zeros((3, 0)), context)
        state = learner.learn(state, query, Decision(ranking, 0.0, ()), Reward(reward))
    return state


@given(seed=st.integers(0, 1000), n=st.integers(0, 60), ridge=st.sampled_from([0.1, 1.0, 20.0]))
def test_every_item_has_its_own_ridge_regression(seed, n, ridge):
    rng = np.random.default_rng(seed)
    rows = [(int(rng.integers(3)), rng.normal(size=2), float(rng.normal())) for _ in range(n)]
    learner = LinearUCB(ridge=ridge, width=0.7)
    state, visitor = learned(learner, rows), rng.normal(size=2)
    x, scores = np.append(visitor, 1.0), []
    for item in range(3):
        own = np.array([np.append(context, 1.0) for shown, context, _ in rows if shown == item]).reshape(-1, 3)
        rewards = np.array([reward for shown, _, reward in rows if shown == item])
        precision = ridge * np.eye(3) + own.T @ own
        weights = np.linalg.solve(precision, own.T @ rewards)
        np.testing.assert_allclose(state.weights[item], weights, rtol=1e-8, atol=1e-10)
        scores.append(weights @ x + 0.7 * np.sqrt(x @ np.linalg.solve(precision, x)))
    np.testing.assert_allclose(_optimistic_scores(state.weights, state.inverse, x, 0.7), scores, rtol=1e-8)


def test_the_inverse_stays_one_after_many_rows():
    rng = np.random.default_rng(0)
    rows = [(0, rng.normal(size=2) * [1.0, 100.0], 1.0) for _ in range(5000)]
    own = np.array([np.append(context, 1.0) for _, context, _ in rows])
    inverse = learned(LinearUCB(), rows).inverse[0]
    np.testing.assert_allclose(inverse @ (np.eye(3) + own.T @ own), np.eye(3), atol=1e-7)


def test_what_was_never_shown_gets_the_benefit_of_the_doubt():
    learner, query = LinearUCB(epsilon=0.0), Query.of(np.zeros((3, 0)), [0.5, -0.5])
    state = learned(learner, [(0, [0.5, -0.5], 0.1)] * 40 + [(1, [0.5, -0.5], 0.0)] * 5)
    decision = learner.rank(state, query, np.random.default_rng(0))
    assert decision.ranking.tolist() == [2, 1, 0]  # unknown, little known, known
    assert learner.predict(state, query).tolist() == [0, 1, 2]  # what is known alone


def test_it_finds_who_likes_what():
    stream, users = build("campaign(taste=1.5)", "stream"), build("first_item_reward", "feedback")

    def earned(learner):
        rounds = list(play(build(learner, "learner"), stream, users, horizon=3000, seed=3))
        return np.mean([one.relevance[one.decision.ranking[0]] for one in rounds[-1500:]])

    assert earned("linear_ucb") > 1.4 * earned("random_order")


def test_what_it_cannot_have_is_refused():
    with pytest.raises(InvalidInput, match="fixed set"):
        LinearUCB().init(Problem(n_features=2, n_context=2))
    for wrong in ({"ridge": 0.0}, {"width": -1.0}, {"width": float("inf")}, {"epsilon": 1.5}):
        with pytest.raises(InvalidInput):
            LinearUCB(**wrong)
