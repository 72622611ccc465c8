"""The first of many lists: selecting, counting and sorting agree."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.kernels import MAX_COUNTED_ITEMS as MANY
from rankloop.measures.formulas import MAX_SELECTED_POSITIONS, NO_CUTOFF, _descending, rankings_of
from tests.measures.plain_measures import GRADES


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10),
    st.sampled_from([3, 40, 350, MANY + 60]),
    st.integers(1, MAX_SELECTED_POSITIONS + 2),
    st.integers(2, 500),
)
def test_selecting_counting_and_sorting_agree(seed: int, n_items: int, cutoff: int, n_scores: int) -> None:
    scores = np.random.default_rng(seed).integers(0, n_scores, n_items).astype(float)
    expected = np.argsort(-scores, kind="stable")
    offsets = np.array([0, n_items])
    assert (rankings_of(scores, offsets, NO_CUTOFF) == expected).all()
    selected = rankings_of(scores, offsets, cutoff)
    assert (selected[:cutoff] == expected[:cutoff]).all()
    assert sorted(selected) == list(range(n_items))


@settings(deadline=None)
@given(st.lists(GRADES | st.floats(0, 100), max_size=20))
def test_descending(grades: list[float]) -> None:
    assert _descending(np.array(grades)).tolist() == sorted(grades, reverse=True)
