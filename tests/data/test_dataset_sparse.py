"""Sparse data sets are the dense ones with the zeros left out."""

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Rows
from rankloop.data.dataset import Collection, SparseDataset
from rankloop.training.clicks.batch import OFFSET_VALUE, _squared_slopes, _with_offsets
from tests.sparse_rows import to_array

N_HASHED, N_DENSE = 50, 2


def rows_of(rng, n_items: int) -> Rows:
    columns = rng.permutation(N_HASHED)[: rng.integers(1, 12)]
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 5, n_items))]).astype(np.int64)
    positions = rng.integers(0, len(columns), starts[-1])
    return Rows(starts, positions, rng.normal(size=starts[-1]), columns, rng.normal(size=(n_items, N_DENSE)))


def wide(rows: Rows, n_hashed: int = N_HASHED) -> np.ndarray:
    """With every hashed column, occurring or not."""
    array, seen = np.zeros((rows.n_items, n_hashed + rows.dense.shape[1])), to_array(rows)
    array[:, rows.columns] = seen[:, : len(rows.columns)]
    array[:, n_hashed:] = rows.dense
    return array


def sample(seed: int = 0) -> tuple[SparseDataset, list[np.ndarray]]:
    rng, collection, arrays = default_rng(seed), Collection(N_HASHED), []
    for q in range(8):
        rows = rows_of(rng, 1 + q % 4)
        collection.add(f"q{q}", rows)
        arrays.append(wide(rows))
    return collection.dataset(rng.random(sum(map(len, arrays)))), arrays


def test_queries_are_gathered_on_the_columns_that_occur():
    data, arrays = sample()
    occurring = np.unique(np.flatnonzero(np.vstack(arrays)[:, :N_HASHED].any(axis=0)))
    assert set(occurring) <= set(data.features.columns.tolist())
    assert len(set(data.features.columns.tolist())) == len(data.features.columns)
    np.testing.assert_array_equal(wide(data.features), np.vstack(arrays))
    assert (data.n_queries, data.query_ids[:2]) == (8, ("q0", "q1"))
    assert data.n_features == len(data.features.columns) + N_DENSE


@pytest.mark.parametrize("chosen", [[2, 3, 4], [5, 0, 7], [6]])
def test_a_subset_has_these_queries(chosen: list[int]):
    data, arrays = sample()
    part = data._replace(base=np.arange(len(data.relevance)) * 1.0).subset(chosen)
    np.testing.assert_array_equal(wide(part.features), np.vstack([arrays[q] for q in chosen]))
    own = np.concatenate([np.arange(data.offsets[q], data.offsets[q + 1]) for q in chosen])
    np.testing.assert_array_equal(part.relevance, data.relevance[own])
    np.testing.assert_array_equal(part.base, own)
    assert np.diff(part.offsets).tolist() == [len(arrays[q]) for q in chosen]
    assert part.query_ids == tuple(f"q{q}" for q in chosen)


def test_one_more_column_for_each_item():
    data, _ = sample()
    numbers = np.arange(len(data.relevance)) % 3
    more = _with_offsets(data.features, numbers)
    expected = np.hstack([to_array(data.features)[:, : len(data.features.columns)], OFFSET_VALUE * np.eye(3)[numbers]])
    np.testing.assert_array_equal(to_array(more), np.hstack([expected, data.features.dense]))


def test_squares_are_those_of_each_query():
    data, _ = sample()
    grad, array = default_rng(1).normal(size=len(data.relevance)), to_array(data.features)
    by_hand = sum((grad[first:end] @ array[first:end]) ** 2 for first, end in zip(data.offsets[:-1], data.offsets[1:]))
    np.testing.assert_allclose(_squared_slopes(data.features, grad, data.offsets), by_hand, atol=1e-12)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidInput, match="no query"):
        Collection(4).dataset(np.ones(1))
    collection = Collection(N_HASHED)
    collection.add("q", rows_of(default_rng(0), 3))
    with pytest.raises(InvalidInput, match="3 items and 2 grades"):
        collection.dataset(np.ones(2))
