"""CascadeUCB, TopRank and linear Thompson sampling: their formulas by hand, and that they find the best items."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query, build
from rankloop.core.types import clicks
from rankloop.learners.cascade_ucb import CascadeUcb
from rankloop.learners.linear_thompson import LinearThompson, cholesky, drawn_weights
from rankloop.learners.top_rank import SCALE, TopRank, blocks_of

FIXED = Query.of(np.empty((4, 0)))
ATTRACTION = np.array([0.1, 0.6, 0.2, 0.5, 0.1, 0.05])


def test_looks_end_at_the_first_click():
    learner = CascadeUcb()
    state = learner.init(Problem(n_features=0, n_items=4, shown=3))
    decision = learner.rank(state, FIXED, default_rng(0))._replace(ranking=np.array([2, 0, 3, 1]))
    state = learner.learn(state, FIXED, decision, clicks([0, 3]))
    assert state.looks.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert state.clicks.tolist() == [1.0, 0.0, 0.0, 0.0]
    state = learner.learn(state, FIXED, decision, clicks([]))
    assert state.looks.tolist() == [2.0, 0.0, 2.0, 1.0]


def test_items_are_ranked_by_their_upper_confidence_bound():
    learner = CascadeUcb(exploration=1.5)
    state = learner.init(Problem(n_features=0, n_items=4))
    state = state._replace(looks=np.array([9.0, 4.0, 0.0, 30.0]), clicks=np.array([3.0, 1.0, 0.0, 15.0]), rounds=50)
    bounds = [3 / 9 + math.sqrt(1.5 * math.log(50) / 9), 1 / 4 + math.sqrt(1.5 * math.log(50) / 4), math.inf]
    bounds.append(15 / 30 + math.sqrt(1.5 * math.log(50) / 30))
    assert learner.rank(state, FIXED, default_rng(0)).ranking.tolist() == np.argsort(-np.array(bounds)).tolist()
    assert learner.predict(state, FIXED).tolist() == [3, 0, 1, 2]


@given(st.integers(1, 6), st.data())
def test_blocks_twin(n_items, data):
    pairs = [pair for pair in itertools.permutations(range(n_items), 2) if data.draw(st.booleans())]
    worse = np.zeros((n_items, n_items), np.int64)
    for i, j in pairs:
        worse[i, j] = 1
    block, left, number = {}, set(range(n_items)), 0
    while left:
        free = {i for i in left if not any((i, j) in pairs for j in left)} or set(left)
        block |= dict.fromkeys(free, number)
        left -= free
        number += 1
    assert blocks_of(worse).tolist() == [block[i] for i in range(n_items)]


def test_a_proof_needs_the_papers_number_of_clicks():
    """With clicks on item 0 alone, S = N = n, and n ≥ √(2 n log(c √n · horizon)) for the first time at n."""
    learner, state = TopRank(horizon=100), None
    needed = next(n for n in range(1, 100) if n >= math.sqrt(2 * n * math.log(SCALE * math.sqrt(n) * 100)))
    state = learner.init(Problem(n_features=0, n_items=4))
    for n in range(1, needed + 1):
        assert state.block.tolist() == [0, 0, 0, 0]
        decision = learner.rank(state, FIXED, default_rng(n))
        assert math.exp(decision.log_propensity) == pytest.approx(1 / 24)
        state = learner.learn(state, FIXED, decision, clicks([0]))
    assert state.block.tolist() == [0, 1, 1, 1]
    assert math.exp(learner.rank(state, FIXED, default_rng(0)).log_propensity) == pytest.approx(1 / 6)
    assert pytest.approx(3.34, abs=0.01) == SCALE


def test_late_clicks_prove_nothing_between_blocks():
    learner = TopRank(horizon=100)
    state = learner.init(Problem(n_features=0, n_items=4))
    early = learner.rank(state, FIXED, default_rng(0))
    split = state._replace(worse=np.array([[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]))
    split = split._replace(block=blocks_of(split.worse))
    learned = learner.learn(split, FIXED, early, clicks([1]))
    assert learned.lead[1].tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(("spec", "horizon"), [("cascade_ucb", 3000), ("top_rank(horizon=1000)", 3000)])
def test_the_most_attractive_items_come_to_the_top(spec, horizon):
    learner, rng = build(spec, "learner"), default_rng(0)
    state, query = learner.init(Problem(n_features=0, n_items=6, shown=3)), Query.of(np.empty((6, 0)))
    for _ in range(horizon):
        decision = learner.rank(state, query, rng)
        seen = decision.ranking[:3]
        hits = seen[rng.random(3) < ATTRACTION[seen]][:1]  # a cascade: the first that attracts
        state = learner.learn(state, query, decision, clicks(hits))
    assert set(learner.predict(state, query)[:2].tolist()) == {1, 3}


@given(st.integers(1, 6), st.integers(0, 99))
def test_belief_by_numpy(n_features, seed):
    rng = default_rng(seed)
    rows = rng.normal(size=(n_features + 2, n_features))
    precision, moment = rows.T @ rows + np.eye(n_features), rng.normal(size=n_features)
    np.testing.assert_allclose(cholesky(precision), np.linalg.cholesky(precision), atol=1e-10)
    mean = drawn_weights(precision, moment, np.zeros(n_features))
    np.testing.assert_allclose(mean, np.linalg.solve(precision, moment), rtol=1e-8, atol=1e-10)
    root = np.stack([drawn_weights(precision, moment, unit) - mean for unit in np.eye(n_features)], axis=1)
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-6, atol=1e-9)


def test_regression_on_what_was_looked_at():
    learner, rng = LinearThompson(noise=0.5, prior=2.0), default_rng(0)
    features = rng.normal(size=(5, 2))
    state = learner.init(Problem(n_features=2, shown=4))
    decision = learner.rank(state, Query.of(features), rng)._replace(ranking=np.array([3, 1, 0, 2, 4]))
    down_to_last_click = features[[3, 1, 0]]
    learned = learner.learn(state, Query.of(features), decision, clicks([3, 0]))
    np.testing.assert_allclose(learned.precision, np.eye(2) / 4 + 4 * down_to_last_click.T @ down_to_last_click)
    np.testing.assert_allclose(learned.moment, 4 * (features[3] + features[0]))
    np.testing.assert_allclose(learned.weights, np.linalg.solve(learned.precision, learned.moment))
    none = learner.learn(state, Query.of(features), decision, clicks([]))
    np.testing.assert_allclose(none.precision, np.eye(2) / 4 + 4 * features[[3, 1, 0, 2]].T @ features[[3, 1, 0, 2]])


def test_a_belief_may_begin_elsewhere():
    problem, query = Problem(n_features=2), Query.of(default_rng(0).normal(size=(4, 2)))
    learner = LinearThompson(prior=2.0, start=(3.0, -1.0))
    state = learner.init(problem)
    assert state.weights.tolist() == [3.0, -1.0]
    np.testing.assert_allclose(drawn_weights(state.precision, state.moment, np.zeros(2)), [3.0, -1.0])
    assert learner.predict(state, query).tolist() == np.argsort(-(query.features @ [3.0, -1.0])).tolist()
    decision = learner.rank(state, query, default_rng(1))
    learned, plain = (
        one.learn(one.init(problem), query, decision, clicks(decision.ranking[1:2]))
        for one in (learner, LinearThompson(prior=2.0))
    )
    assert learned.precision.tolist() == plain.precision.tolist()
    np.testing.assert_allclose(learned.moment - plain.moment, np.array([3.0, -1.0]) / 2.0**2)
    with pytest.raises(InvalidInput, match="start has 2 weights, the problem has 3 features"):
        learner.init(Problem(n_features=3))
    with pytest.raises(InvalidInput, match="start"):
        LinearThompson(start=(math.nan,))


@pytest.mark.parametrize("deviation", [1e-200, 1e200, 0.0, -1.0, math.inf, math.nan])
def test_deviations_whose_squares_are_no_numbers_are_refused(deviation):
    for name in ("prior", "noise"):
        with pytest.raises(InvalidInput, match=name):
            LinearThompson(**{name: deviation})


def test_what_is_reported_follows_the_clicks():
    cascade, top = CascadeUcb(), TopRank(horizon=10)
    for learner, path, first, last in ((cascade, "click_rate", 0.0, 0.5), (top, "n_blocks", 1, 2)):
        assert learner.reports == (path,)
        state = learner.init(Problem(n_features=0, n_items=4))
        assert getattr(state, path) == first
        decision = learner.rank(state, FIXED, default_rng(0))
        for _ in range(50):
            state = learner.learn(state, FIXED, decision, clicks(decision.ranking[1:2]))
        assert getattr(state, path) == last


def test_fixed_sets_need_their_size():
    for kind in ("cascade_ucb", "top_rank"):
        with pytest.raises(InvalidInput, match="n_items"):
            build(kind, "learner").init(Problem(n_features=2))
