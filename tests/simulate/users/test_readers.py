"""Tests of simulated readers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 100))
def test_top_k_grades_the_first_items_and_full_all(n_items: int, depth: int, seed: int):
    rng = default_rng(seed)
    ranking, relevance = rng.permutation(n_items), rng.integers(0, 5, n_items).astype(float)
    for users, wanted in ((build("full"), ranking), (build({"kind": "top_k", "depth": depth}), ranking[:depth])):
        items, grades = users.observe(ranking, relevance, rng)
        assert items.tolist() == wanted.tolist()
        assert grades.tolist() == [relevance[item] for item in wanted]


def test_everybody_sees_all_positions():
    assert (build("full").shown, build("full").depth) == (None, None)
    assert (build("top_k(depth=3)").shown, build("top_k(depth=3)").depth) == (None, 3)


def test_the_grades_are_a_copy():
    relevance = np.array([1.0, 0.0])
    for users in (build("full"), build("top_k")):
        users.observe(np.array([0, 1]), relevance, default_rng(0)).grades[0] = 9.0
    assert relevance.tolist() == [1.0, 0.0]


def test_nothing_graded_is_no_feedback():
    with pytest.raises(InvalidInput, match="depth = 0"):
        build("top_k(depth=0)")
