"""TopRank: its blocks by a second reading, and proofs that need the paper's number of clicks."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import Problem, Query
from rankloop.learners.top_rank import CONFIDENCE_CONSTANT, TopRank, _blocks_of
from tests.feedback import clicks

FIXED = Query.of(np.empty((4, 0)))


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
    assert _blocks_of(worse).tolist() == [block[i] for i in range(n_items)]


def test_a_proof_needs_the_papers_number_of_clicks():
    """With clicks on item 0 alone, S = N = n, and n ≥ √(2 n log(c √n · horizon)) for the first time at n."""
    learner, state = TopRank(horizon=100), None
    needed = next(
        n for n in range(1, 100) if n >= math.sqrt(2 * n * math.log(CONFIDENCE_CONSTANT * math.sqrt(n) * 100))
    )
    state = learner.init(Problem(n_features=0, n_items=4))
    for n in range(1, needed + 1):
        assert state.block.tolist() == [0, 0, 0, 0]
        decision = learner.rank(state, FIXED, default_rng(n))
        assert math.exp(decision.log_propensity) == pytest.approx(1 / 24)
        state = learner.learn(state, FIXED, decision, clicks([0]))
    assert state.block.tolist() == [0, 1, 1, 1]
    assert math.exp(learner.rank(state, FIXED, default_rng(0)).log_propensity) == pytest.approx(1 / 6)
    assert pytest.approx(3.34, abs=0.01) == CONFIDENCE_CONSTANT


def test_late_clicks_prove_nothing_between_blocks():
    learner = TopRank(horizon=100)
    state = learner.init(Problem(n_features=0, n_items=4))
    early = learner.rank(state, FIXED, default_rng(0))
    split = state._replace(worse=np.array([[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]))
    split = split._replace(block=_blocks_of(split.worse))
    learned = learner.learn(split, FIXED, early, clicks([1]))
    assert learned.lead[1].tolist() == [0.0, 0.0, 1.0, 1.0]
