"""CascadeUCB by hand, and what all learners of a fixed set from clicks have in common."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query, build
from rankloop.learners.top_rank import CascadeUcb, TopRank
from tests.feedback import clicks

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
