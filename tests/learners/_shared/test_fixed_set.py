"""Linear measures: worth of places times gains is the measure; means of gains have grades."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Problem
from rankloop.learners._shared.fixed_set import (
    gain_for,
    gain_of,
    largest_gain,
    require_all_grades,
    size_of_fixed_set,
    with_gains,
    worth_of_positions,
)
from rankloop.learners.rtopk import _grades_with
from rankloop.measures import parse_measure

NAMES = ["DCG", "DCG@3", "DCG(gain='linear')", "SumLoss", "P@2", "P(relevant_from=2.0)@3"]


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(grades=st.lists(st.integers(0, 4), min_size=1, max_size=7), seed=st.integers(0, 99))
def test_measure_is_worth_times_gain(name: str, grades: list[int], seed: int) -> None:
    measure, relevance = parse_measure(name), np.array(grades, dtype=np.float64)
    ranking = np.random.default_rng(seed).permutation(len(grades))
    gains = [gain_of(relevance[item], *gain_for(measure)) for item in ranking]
    value = float(np.sum(worth_of_positions(measure, len(grades)) * gains))
    expected = measure(ranking, relevance)
    assert (value if measure.higher_is_better else -value) == pytest.approx(expected)


@pytest.mark.parametrize("name", NAMES)
def test_worth_falls_with_the_position(name: str) -> None:
    assert np.all(np.diff(worth_of_positions(parse_measure(name), 6)) <= 0)


@pytest.mark.parametrize("name", ["nDCG", "AP", "AUC", "PairwiseLoss", "P"])
def test_measures_that_are_not_linear_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="gain"):
        gain_for(parse_measure(name))


@pytest.mark.parametrize("name", NAMES)
def test_mean_gains_have_grades(name: str) -> None:
    gain = gain_for(parse_measure(name))
    top = gain_of(3.0, *gain)
    means = np.array([0.0, 0.3, 0.77, 1.0]) * top
    back = [gain_of(grade, *gain) for grade in _grades_with(means, *gain)]
    assert back == pytest.approx(means)


def test_the_mean_of_gains_is_not_the_gain_of_the_mean() -> None:
    gain = gain_for(parse_measure("DCG"))
    mean = (gain_of(0.0, *gain) + gain_of(2.0, *gain)) / 2
    assert mean == (2**0 - 1 + 2**2 - 1) / 2
    assert _grades_with(np.array([mean]), *gain) == pytest.approx(np.log2(1 + 1.5))


def test_with_gains_leaves_the_old_totals_alone() -> None:
    totals = np.zeros(3)
    new = with_gains(totals, np.array([2, 0]), np.array([3.0, 1.0]), *gain_for(parse_measure("DCG")))
    assert totals.tolist() == [0, 0, 0]
    assert new.tolist() == [2**1 - 1, 0, 2**3 - 1]


def test_largest_gain_and_the_fixed_set() -> None:
    assert largest_gain(parse_measure("DCG"), Problem(0, 4, max_grade=4)) == 2**4 - 1
    assert largest_gain(parse_measure("SumLoss"), Problem(0, 4, max_grade=4)) == 4
    assert largest_gain(parse_measure("P@2"), Problem(0, 4, max_grade=4)) == 1
    assert largest_gain(parse_measure("DCG"), Problem(0, 4, max_grade=0)) == 1
    with pytest.raises(InvalidInput, match="n_items"):
        size_of_fixed_set(Problem(3))
    with pytest.raises(InvalidInput, match="rtopk"):
        require_all_grades(Problem(0, 4, depth=2))
