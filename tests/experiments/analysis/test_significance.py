"""Paired differences and Holm's correction, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankloop.core.types import Floats
from rankloop.experiments.analysis.significance import holm, paired


def test_the_paired_difference_by_hand() -> None:
    left, right = np.array([3.0, 5.0, 4.0]), np.array([1.0, 2.0, 3.0])
    difference = paired(left, right)  # 2, 3, 1: mean 2, deviation 1
    assert difference.mean == 2.0
    assert difference.low == pytest.approx(2.0 - 4.302652729911275 * 1.0 / math.sqrt(3.0))
    assert difference.t_test == pytest.approx(0.07417990022744853)  # t = 2·√3 with 2 degrees of freedom
    assert difference.wilcoxon == pytest.approx(2 * 1 / 2**3)


def test_pairs_matter_not_the_spread_between_seeds() -> None:
    worlds = np.array([0.1, 0.5, 0.9, 0.3])
    assert paired(worlds + np.array([0.010, 0.011, 0.012, 0.010]), worlds).t_test < 0.001


@pytest.mark.parametrize("values", [np.zeros(4), np.full(4, 0.25), np.array([0.0, 1.0, 1.0, -1.0])])
def test_ties_and_constants_are_no_trouble(values: Floats) -> None:
    difference = paired(values, np.zeros(4))
    assert 0.0 <= difference.t_test <= 1.0
    assert 0.0 <= difference.wilcoxon <= 1.0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert math.isnan(holm([math.nan, 0.01])[0])
