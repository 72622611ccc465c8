"""Click residuals: a step for every position that was read, by how far its click is from what is usual there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query
from rankloop.core.types import Clicks
from rankloop.learners.click_residuals import MAX_COUNTED_UPDATES, N_RATES, PRIOR_UPDATES, ClickResiduals
from tests.feedback import clicks


def learned(learner, state, features, ranking, feedback):
    query = Query.of(np.asarray(features, float))
    decision = learner.rank(state, query, default_rng(0))._replace(ranking=np.array(ranking))
    return learner.learn(state, query, decision, feedback)


def test_one_update_by_hand():
    """The last click is at the second position, so three of four were read; each begins at a rate of 0.3."""
    learner = ClickResiduals(learning_rate=0.5)
    after = learned(learner, learner.init(Problem(4)), np.eye(4), [2, 0, 1, 3], clicks([0]))
    assert after.weights.tolist() == pytest.approx([0.5 * 0.7, -0.5 * 0.3, -0.5 * 0.3, 0.0])
    assert after.rates[:4].tolist() == pytest.approx([0.3 - 0.3 / 11, 0.3 + 0.7 / 11, 0.3 - 0.3 / 11, 0.3])
    assert after.counts[:4].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(("below", "clicked", "n_read"), [(0, [], 0), (1, [], 1), (2, [], 2), (0, [1], 2), (9, [0], 3)])
def test_how_far_people_read(below, clicked, n_read):
    """Down to the last click and `below` more, but never beyond what was shown: three positions."""
    learner = ClickResiduals(below=below)
    after = learned(learner, learner.init(Problem(1, shown=3)), np.ones((5, 1)), range(5), clicks(clicked))
    assert after.counts[:5].tolist() == [1] * n_read + [0] * (5 - n_read)


def test_a_click_of_some_weight_counts_as_often():
    learner = ClickResiduals(learning_rate=1.0)
    after = learned(learner, learner.init(Problem(1)), [[1.0]], [0], Clicks(np.array([0]), np.array([2.5])))
    assert after.weights.tolist() == pytest.approx([2.5 - 0.3])


def test_positions_below_share_the_last_rate():
    learner, n_items = ClickResiduals(below=1_000, rate=0.5), N_RATES + 2
    after = learned(learner, learner.init(Problem(1)), np.zeros((n_items, 1)), range(n_items), clicks([]))
    rate = 0.5
    for count in (1, 2, 3):
        rate -= rate / (count + PRIOR_UPDATES)
    assert after.counts[-2:].tolist() == [1, 3]
    assert after.rates[-1] == pytest.approx(rate)


@given(st.integers(0, 999), st.integers(0, 3), st.sampled_from([None, 3]))
def test_many_updates_beside_plain_sums(seed, below, shown):
    rng = default_rng(seed)
    learner = ClickResiduals(below=below, rate=0.2, learning_rate=0.3, start=(0.1, 0.2, 0.3))
    state = learner.init(Problem(3, shown=shown))
    weights, rates, counts = np.array([0.1, 0.2, 0.3]), [0.2] * 5, [0] * 5
    for _ in range(6):
        features, ranking = rng.normal(size=(5, 3)), rng.permutation(5)
        hit = rng.random(5) < 0.3
        hit[shown:] = False
        items = ranking[hit]
        state = learned(learner, state, features, ranking, clicks(items.tolist()))
        last = max(np.flatnonzero(hit), default=-1)
        for position in range(min(last + 1 + below, shown or 5)):
            residual = float(hit[position]) - rates[position]
            weights = weights + 0.3 * residual * features[ranking[position]]
            counts[position] += 1
            rates[position] += residual / min(counts[position] + PRIOR_UPDATES, MAX_COUNTED_UPDATES)
    np.testing.assert_allclose(state.weights, weights)
    np.testing.assert_allclose(state.rates[:5], rates)
    assert state.counts[:5].tolist() == counts


def test_rates_become_what_is_usual_and_random_clicks_then_say_nothing():
    """People who read all three and click by position alone: rates follow, and the mean step goes to 0."""
    rng, learner, usual = default_rng(0), ClickResiduals(below=3), np.array([0.6, 0.3, 0.1])
    state, before = learner.init(Problem(3)), np.zeros(3)
    for t in range(6_000):
        hit = np.flatnonzero(rng.random(3) < usual)
        ranking = rng.permutation(3)
        state = learned(learner, state, np.eye(3), ranking, clicks(ranking[hit].tolist()))
        before = state.weights if t == 999 else before
    np.testing.assert_allclose(state.rates[:3], usual, atol=0.07)  # a mean of the last 1000: sd 0.011
    drift = (state.weights - before) / 5_000 / learner.learning_rate
    np.testing.assert_allclose(drift, 0.0, atol=0.03)


def test_what_is_passed_over_goes_on_sinking():
    learner = ClickResiduals()
    state, seen = learner.init(Problem(2)), []
    for _ in range(300):
        state = learned(learner, state, np.eye(2), [0, 1], clicks([1]))
        seen.append(state.weights.copy())
    assert (np.diff(np.array(seen)[:, 0]) < 0).all()
    assert (np.diff(np.array(seen)[:, 1]) > 0).all()


def test_no_item_moves_by_more_than_one_position():
    learner, query = ClickResiduals(swap=0.5), Query.of(np.arange(6.0).reshape(6, 1))
    state = ClickResiduals(start=(1.0,)).init(Problem(1))
    best, moved = learner.predict(state, query).tolist(), set()
    assert best == [5, 4, 3, 2, 1, 0]
    for seed in range(50):
        ranking = learner.rank(state, query, default_rng(seed)).ranking.tolist()
        moved |= {abs(ranking.index(item) - best.index(item)) for item in range(6)}
    assert moved == {0, 1}


@pytest.mark.parametrize("wrong", [{"swap": 1.0}, {"swap": -0.1}, {"below": -1}, {"rate": 1.5}, {"learning_rate": 0.0}])
def test_parameters_that_make_no_sense(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        ClickResiduals(**wrong)
