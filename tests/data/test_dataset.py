"""Data sets as values: built, cut, joined, normalised."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rankloop.core.errors import InvalidInput
from rankloop.data import Dataset, concatenate, normalise_queries

FEATURES = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def small() -> Dataset:
    return Dataset.of(FEATURES, [0, 1, 2], [0, 2, 3], ["a", "b"])


def test_a_query_and_its_grades_are_copies():
    data = small()
    query, relevance = data.query(0)
    assert query.id == "a"
    assert query.features.tolist() == FEATURES[:2]
    assert relevance.tolist() == [0, 1]
    query.features[:] = 9
    relevance[:] = 9
    assert data.features.tolist() == FEATURES
    assert data.relevance.tolist() == [0, 1, 2]


def test_counts():
    data = small()
    assert (data.n_queries, data.n_features, data.sizes.tolist()) == (2, 2, [2, 1])


def test_subset_keeps_the_order_asked_for():
    chosen = small().subset([1, 0, 1])
    assert chosen.query_ids == ("b", "a", "b")
    assert chosen.offsets.tolist() == [0, 1, 3, 4]
    assert chosen.relevance.tolist() == [2, 0, 1, 2]
    assert small().subset([]).n_queries == 0


@pytest.mark.parametrize("index", [-1, 2])
def test_queries_that_are_not_there(index):
    with pytest.raises(InvalidInput, match="there are 2"):
        small().query(index)
    with pytest.raises(InvalidInput, match="there are 2"):
        small().subset([index])


def test_concatenate_fills_missing_features_with_zero():
    both = concatenate([small(), Dataset.of([[7.0]], [1], [0, 1], ["c"])])
    assert both.features.tolist() == [*FEATURES, [7.0, 0.0]]
    assert both.offsets.tolist() == [0, 2, 3, 4]
    assert both.query_ids == ("a", "b", "c")
    with pytest.raises(InvalidInput, match="one or more data sets"):
        concatenate([])


def test_rows_with_query_ids_are_gathered():
    data = Dataset.of_rows(FEATURES, [0, 1, 2], [7, 8, 7])
    assert data.query_ids == ("7", "8")
    assert data.relevance.tolist() == [0, 2, 1]
    with pytest.raises(InvalidInput, match="equally many"):
        Dataset.of_rows(FEATURES, [0, 1, 2], [7, 8])


@pytest.mark.parametrize(
    ("relevance", "offsets", "ids"),
    [
        ([0, 1], [0, 2], None),
        ([0, 1, 2], [0, 2], None),
        ([0, 1, 2], [1, 3], None),
        ([0, 1, 2], [0, 2, 1, 3], None),
        ([0, 1, 2], [], None),
        ([0, 1, 2], [0.0, 3.0], None),
        ([0, 1, 2], [[0], [1, 3]], None),
        ([0, 1, 2], [0, 3], ["a", "b"]),
        ([0, 1, np.nan], [0, 3], None),
    ],
)
def test_parts_that_do_not_fit_are_refused(relevance, offsets, ids):
    with pytest.raises(InvalidInput):
        Dataset.of(FEATURES, relevance, offsets, ids)


numbers = st.floats(-1e308, 1e308) | st.integers(-3, 3).map(float)


@settings(deadline=None)
@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(1, 3)), elements=numbers), st.data())
def test_normalised_queries_against_numpy(features, data):
    cut = data.draw(st.integers(0, len(features)))
    offsets = [0, cut, len(features)]
    scaled = normalise_queries(Dataset.of(features, np.zeros(len(features)), offsets)).features
    for first, end in itertools.pairwise(offsets):
        part = features[first:end].astype(np.longdouble)
        if len(part):
            low, width = part.min(axis=0), np.ptp(part, axis=0)
            truth = np.where(width > 0, (part - low) / np.where(width > 0, width, 1), 0)
            np.testing.assert_allclose(scaled[first:end], truth.astype(float), rtol=1e-12, atol=1e-12)
    assert scaled.min() >= 0
    assert scaled.max() <= 1


def test_a_constant_feature_becomes_zero_and_the_data_stay():
    data = Dataset.of([[5.0, 1.0], [5.0, 3.0]], [0, 1], [0, 2])
    assert normalise_queries(data).features.tolist() == [[0, 0], [0, 1]]
    assert data.features.tolist() == [[5, 1], [5, 3]]
