"""Tests of the core types."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop import InvalidInput, Query
from rankloop.core.types import item_indices


def test_a_query_is_a_writable_copy_in_float64():
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)[:, ::-1]
    query = Query.of(rows, context=[1, 2], id="q")
    assert query.features.dtype == np.float64
    assert query.features.flags.c_contiguous
    assert query.features.flags.writeable
    assert not np.shares_memory(query.features, rows)
    assert query.context.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0, np.nan]], "nan at row 0, column 1"),
        ([[1.0], [np.inf]], "inf at row 1, column 0"),
        ([1.0, 2.0], "2 dimension"),
        ([[1.0], [1.0, 2.0]], "must be numbers"),
        ([["x"]], "must be numbers"),
    ],
)
def test_bad_features_are_refused_by_position(features, message):
    with pytest.raises(InvalidInput, match=message):
        Query.of(features)


def test_bad_context_is_refused_by_position():
    with pytest.raises(InvalidInput, match="context: nan at entry 1"):
        Query.of([[1.0]], context=[0.0, np.nan])


@given(st.lists(st.floats(allow_nan=True), min_size=1))
def test_item_numbers_must_be_whole(values):
    with pytest.raises(InvalidInput):
        item_indices(values, "items")
