"""The learner's parts against plain versions: threshold, exploration, one step of learning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankloop.bandits.auc_policy import CRITERIA, AUCPolicy, Receipt, _sampled_threshold, threshold
from rankloop.bandits.auc_ranker import objective
from rankloop.bandits.policies import EpsilonGreedy, LinearScorer, Softmax, _shares_of, drawn_ranking, first_log_prob
from rankloop.core.errors import IncompatibleFeedback, InvalidInput
from rankloop.core.types import Decision, Problem, Query, Reward

coarse = arrays(np.float64, st.integers(1, 9), elements=st.integers(-3, 3).map(float))
PROBLEM = Problem(n_features=0, n_items=3, n_context=2, shown=1)


@pytest.mark.parametrize("criterion", CRITERIA)
@given(clicked=coarse, unclicked=coarse, own=st.integers(1, 3), other=st.integers(1, 4))
def test_the_threshold_counts_every_kept_example_for_all_it_stands_for(criterion, clicked, unclicked, own, other):
    scores = np.concatenate([np.repeat(clicked, own), np.repeat(unclicked, other)])
    labels = np.concatenate([np.ones(own * len(clicked)), np.zeros(other * len(unclicked))])
    n_clicked, n_unclicked = float(own * len(clicked)), float(other * len(unclicked))
    found = _sampled_threshold(clicked, unclicked, n_clicked, n_unclicked, CRITERIA[criterion])
    assert found == pytest.approx(threshold(scores, labels, criterion), abs=1e-8)


def test_exploration_is_that_of_the_policies():
    contexts = np.random.default_rng(0).normal(size=(6, 2))
    scorer = LinearScorer(np.random.default_rng(1).normal(size=(3, 2)), np.zeros(3))
    for row, scores in enumerate(scorer.scores(contexts)):
        greedy = EpsilonGreedy(scorer=scorer, epsilon=0.3).probabilities(contexts)[row]
        soft = Softmax(scorer=scorer, temperature=0.7).probabilities(contexts)[row]
        np.testing.assert_allclose(_shares_of(scores, 0.3, 0.0), greedy, atol=1e-12)
        np.testing.assert_allclose(_shares_of(scores, 0.3, 0.7), soft, atol=1e-12)


def test_draws_cut_the_unit_interval_by_the_shares():
    scores = np.array([0.2, 1.0, -0.5])
    edges = np.cumsum(_shares_of(scores, 0.4, 0.0))
    for draw in np.linspace(0, 0.999, 60):
        ranking, log_prob = drawn_ranking(scores, 0.4, 0.0, draw)
        assert ranking[0] == np.searchsorted(edges, draw, side="right")
        assert ranking[1:].tolist() == [i for i in (1, 0, 2) if i != ranking[0]]
        assert log_prob == pytest.approx(first_log_prob(scores, 0.4, 0.0, ranking, -1))
    assert drawn_ranking(scores, 0.0, 0.0, 1.0 - 1e-17)[0][0] == 1  # never an ad of probability 0
    assert first_log_prob(scores, 0.4, 0.0, np.array([2, 0, 1]), -1) == -np.inf
    assert first_log_prob(scores, 0.4, 0.0, np.array([2, 0, 1]), 1) == pytest.approx(np.log(0.2))


def test_one_step_of_learning_by_hand():
    learner = AUCPolicy(learning_rate=0.1, regularisation=0.0)
    rng = np.random.default_rng(2)
    state = learner.init(PROBLEM)
    visitors = rng.normal(size=(4, 2))
    for visitor, reward in zip(visitors, (0.0, 0.0, 1.0, 0.0)):
        before = state
        decision = Decision(np.array([1, 0, 2]), 0.0, Receipt(0.5))
        state = learner.learn(state, Query.of(np.zeros((3, 0)), visitor), decision, Reward(reward))
    of = objective(visitors[2:3], visitors[3:4], "logistic", 0.0)
    np.testing.assert_allclose(state.weights[1], before.weights[1] - 0.1 * of(before.weights[1])[1], rtol=1e-12)
    assert (state.weights[[0, 2]] == 0).all()
    assert state.n_clicked.tolist() == [0, 1, 0]
    assert state.n_unclicked.tolist() == [0, 3, 0]
    np.testing.assert_array_equal(state.clicked[1, 0], visitors[2])
    np.testing.assert_array_equal(state.unclicked[1, :3], visitors[[0, 1, 3]])
    assert state.thresholds[1] == pytest.approx(threshold(visitors @ state.weights[1], [0, 0, 1, 0]))


def test_with_click_rate_an_ad_that_nobody_clicks_sinks():
    learner = AUCPolicy(criterion="click_rate")
    state, visitor = learner.init(PROBLEM), Query.of(np.zeros((3, 0)), [1.0, -1.0])
    for n in range(1, 6):
        state = learner.learn(state, visitor, Decision(np.array([1, 0, 2]), 0.0, Receipt(0.5)), Reward(0.0))
        assert state.thresholds.tolist() == pytest.approx([0.0, np.log((n - 0.5) / 0.5), 0.0])
    assert learner.predict(state, visitor).tolist() == [0, 2, 1]


@pytest.mark.parametrize("draw", [-7.0, -1e-9, 1.0, 1e308])
def test_a_draw_that_is_none_does_not_reach_past_the_kept_examples(draw):
    learner, visitor = AUCPolicy(buffer=1), Query.of(np.zeros((3, 0)), [1.0, -1.0])
    state = learner.init(PROBLEM)
    for _ in range(3):
        state = learner.learn(state, visitor, Decision(np.array([1, 0, 2]), 0.0, Receipt(0.999)), Reward(1.0))
    with pytest.raises(IncompatibleFeedback, match="receipt"):
        learner.learn(state, visitor, Decision(np.array([1, 0, 2]), 0.0, Receipt(draw)), Reward(1.0))


def test_problems_it_cannot_have_are_refused():
    for problem in (Problem(n_features=2, n_context=2), Problem(n_features=0, n_items=3)):
        with pytest.raises(InvalidInput, match="fixed set"):
            AUCPolicy().init(problem)
    with pytest.raises(InvalidInput, match="epsilon"):
        AUCPolicy(epsilon=1.5)
