"""Follow the perturbed leader."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.registry import build
from rankloop.core.types import Decision, Problem, Query
from rankloop.learners.ftpl import FTPL
from rankloop.measures.kinds import DCG
from tests.feedback import relevances

QUERY = Query.of(np.empty((3, 0)))
NOBODY: Decision[tuple[()]] = Decision(np.arange(3), math.nan, ())


def test_noise_of_the_theory() -> None:
    assert FTPL(horizon=100).init(Problem(0, 3)).noise == math.sqrt(3 * 100)
    assert FTPL(horizon=100).init(Problem(0, 3, max_grade=2)).noise == (2**2 - 1) * math.sqrt(3 * 100)
    assert FTPL(horizon=100, measure="SumLoss").init(Problem(0, 3, max_grade=2)).noise == 2 * math.sqrt(3 * 100)
    assert FTPL(horizon=100, measure="P@2").init(Problem(0, 3, max_grade=2)).noise == math.sqrt(3 * 100)
    assert FTPL(epsilon=0.25).init(Problem(0, 3)).noise == 4


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), horizon=st.sampled_from([None, 4, 100]))
def test_sorts_totals_plus_uniform_noise(seed: int, horizon: int | None) -> None:
    learner = FTPL(horizon=horizon)
    state = learner.init(Problem(0, 3, max_grade=2))
    for grades in ([0, 1, 2], [2, 2, 0], [1, 1, 1]):
        state = learner.learn(state, QUERY, NOBODY, relevances([0, 1, 2], grades))
    totals = np.array([0 + 3 + 1, 1 + 3 + 1, 3 + 0 + 1])
    assert state.totals.tolist() == totals.tolist()
    noise = 3 * math.sqrt(3 * (horizon or 4)) * np.random.default_rng(seed).random(3)
    shown = learner.rank(state, QUERY, np.random.default_rng(seed))
    assert shown.ranking.tolist() == np.argsort(-(totals + noise), kind="stable").tolist()
    assert math.isnan(shown.log_propensity)
    assert learner.predict(state, QUERY).tolist() == [1, 0, 2]


def test_refuses_what_it_cannot_learn() -> None:
    for wrong in ({"horizon": 0}, {"epsilon": 0.0}, {"epsilon": 5e-324}, {"measure": "nDCG"}):
        with pytest.raises(InvalidInput):
            FTPL(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="all 3 items"):
        FTPL().init(Problem(0, 3, depth=1))
    with pytest.raises(InvalidInput, match="n_items"):
        FTPL().init(Problem(5))


def test_a_scale_whose_gain_is_no_number_is_refused() -> None:
    for kind in ("ftpl", "mirror_descent", "rtopk"):
        with pytest.raises(InvalidInput, match="max_grade = 2000 is too large"):
            build(kind, "learner").init(Problem(0, 3, max_grade=2000))
    assert FTPL(measure=DCG(gain="linear")).init(Problem(0, 3, max_grade=2000)).noise == 2000 * math.sqrt(3)


def test_a_grade_beyond_all_bounds_is_refused() -> None:
    learner = FTPL()
    with pytest.raises(UnstableUpdate):
        learner.learn(learner.init(Problem(0, 3)), QUERY, NOBODY, relevances([0, 1, 2], [5000, 0, 0]))


def test_one_item() -> None:
    learner, query = FTPL(), Query.of(np.empty((1, 0)))
    assert learner.rank(learner.init(Problem(0, 1)), query, np.random.default_rng(0)).ranking.tolist() == [0]
