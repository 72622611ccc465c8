"""The latent space against a full decomposition, folding in, and refitting."""

from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from rankloop.search.indexes import latent_space
from rankloop.search.indexes.latent_space import (
    MIN_DOCUMENTS,
    LatentSpace,
    SparseRows,
    fit_latent_space,
)


def topics(n: int = 60, seed: int = 0) -> list[np.ndarray]:
    """Return texts of three topics with ten words each; word 100 + topic never stands with words below 5 of it."""
    rng = np.random.default_rng(seed)
    return [10 * (i % 3) + rng.integers(0, 10, 30) for i in range(n)]


def fitted(texts: list[np.ndarray], n_dimensions: int = 192) -> LatentSpace:
    with mock.patch.object(latent_space, "MAX_DIMENSIONS", n_dimensions):
        space = fit_latent_space(texts)
    assert space is not None
    return space


def test_products_are_those_of_the_dense_matrix() -> None:
    rng = np.random.default_rng(0)
    dense = (rng.random((7, 5)) * (rng.random((7, 5)) < 0.4)).astype(np.float32)
    rows, columns = np.nonzero(dense)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=7))])
    matrix = SparseRows(starts, columns.astype(np.int32), dense[rows, columns])
    right, left = rng.random((5, 3)).astype(np.float32), rng.random((7, 3)).astype(np.float32)
    assert latent_space._sparse_product(matrix, right) == pytest.approx(dense @ right, rel=1e-5)
    assert latent_space._sparse_product(matrix.transposed(5), left) == pytest.approx(dense.T @ left, rel=1e-5)


def test_the_axes_are_the_leading_singular_vectors() -> None:
    texts = topics()
    space = fitted(texts, 3)
    counts = np.array([[np.sum(text == term) for term in space.terms] for text in texts], dtype=float)
    lengths = np.array([len(text) for text in texts])[:, None]
    spread = 1.2 * (0.25 + 0.75 * lengths / space.mean_length)
    weighted = space.weights * counts * 2.2 / (counts + spread)
    weighted /= np.linalg.norm(weighted, axis=1, keepdims=True)
    exact = np.linalg.svd(weighted)[2][:3]
    assert np.linalg.norm(exact @ space.axes, axis=0) == pytest.approx(np.ones(3), abs=1e-3)
    assert space.axes.T @ space.axes == pytest.approx(np.eye(3), abs=1e-4)


def test_words_that_stand_together_mean_the_same() -> None:
    space = fitted(topics(), 3)
    vectors = space.document_vectors([np.array([0, 1]), np.array([8, 9]), np.array([18, 19])])
    query = space.query_vector(np.array([2]))
    near, also_near, far = vectors @ query
    assert near > 0.9
    assert also_near > 0.9
    assert abs(far) < 0.3
    assert not space.query_vector(np.array([77])).any()


def test_few_documents_have_no_space() -> None:
    assert fit_latent_space(topics(MIN_DOCUMENTS - 1)) is None
    assert fit_latent_space([np.array([i]) for i in range(50)]) is None


def test_a_tenth_of_new_words_outdates_it(tmp_path: Path) -> None:
    space = fitted(topics())
    assert not space.with_unknown([np.array([1, 2, 1000, 1000, 1001, 1002])]).is_outdated
    newer = space.with_unknown([np.array([1000, 1001])]).with_unknown([np.array([1002, 1003])])
    assert newer.is_outdated
    newer.save(tmp_path / "space.npz")
    again = LatentSpace.load(tmp_path / "space.npz")
    assert (again.unknown_terms.tolist(), again.is_outdated) == ([1000, 1001, 1002, 1003], True)
    assert np.array_equal(again.query_vector(np.array([2])), space.query_vector(np.array([2])))
