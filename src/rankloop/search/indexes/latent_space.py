"""Latent semantic analysis: documents and queries as short vectors whose cosine compares meaning instead of words."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.kernels import reassociated
from rankloop.core.types import Ints

Vectors = Any  # an array of 32-bit numbers: one vector, or one in each row
K1, B = 1.2, 0.75  # of BM25
MAX_DIMENSIONS = 192
MIN_DOCUMENTS = 12  # below it, words that stand together say nothing yet
DOCUMENTS_PER_DIMENSION = 6
MAX_WORDS_OF_DOCUMENT = 2_000
MAX_TERMS = 60_000
MAX_TERM_SHARE = 0.5  # of the documents; a more frequent term says nothing
MAX_REFIT_SHARE = 0.1  # of the vocabulary that may be new before the space is fitted again
N_POWER_STEPS, N_EXTRA_DIMENSIONS = 5, 20


class LatentSpace(NamedTuple):
    """Axes of a truncated singular value decomposition, by stem number."""

    terms: Ints  # stem numbers of the vocabulary, ascending
    weights: Vectors  # inverse document frequency of each term
    axes: Vectors  # the row of each term, (n_terms, n_dimensions)
    mean_length: float  # in words, of the documents that the space was fitted on
    unknown_terms: Ints  # that were folded in since and are in no document of the fit, ascending

    @property
    def is_outdated(self) -> bool:
        """Return True once a tenth of the vocabulary is new."""
        return len(self.unknown_terms) > MAX_REFIT_SHARE * len(self.terms)

    def query_vector(self, words: Ints) -> Vectors:
        """Return the unit vector of a query of stem numbers, zeros where none of them is in the vocabulary."""
        counts = _weighted_counts([np.asarray(words, dtype=np.int64)], self.terms, self.weights, mean_length=0.0)
        return unit_rows(_sparse_product(counts, self.axes))[0]

    def document_vectors(self, texts: Sequence[Ints]) -> Vectors:
        """Return a unit vector for each text, given as stem numbers; zeros for a text without words of the space."""
        counts = _weighted_counts(texts, self.terms, self.weights, self.mean_length)
        return unit_rows(_sparse_product(counts, self.axes))

    def with_unknown(self, texts: Iterable[Ints]) -> "LatentSpace":
        """Return the space with the terms noted that these new texts have and the vocabulary has not."""
        words = np.unique(np.concatenate([self.unknown_terms, *texts]).astype(np.int64))
        return self._replace(unknown_terms=words[~np.isin(words, self.terms)])

    def save(self, path: Path) -> None:
        """Write the space to a file."""
        with path.open("wb") as file:
            np.savez(file, **self._asdict())

    @classmethod
    def load(cls, path: Path) -> "LatentSpace":
        """Read what `save` wrote."""
        with np.load(path) as arrays:
            parts = {name: arrays[name] for name in cls._fields}
        return cls(**parts | {"mean_length": float(parts["mean_length"])})


class SparseRows(NamedTuple):
    """A sparse matrix: row i owns the entries from starts[i] to starts[i + 1]."""

    starts: Ints
    columns: Any  # int32
    values: Any  # float32

    def transposed(self, n_columns: int) -> "SparseRows":
        """Return the matrix with its columns as rows."""
        order = np.argsort(self.columns, kind="stable")
        rows = np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))
        starts = np.cumsum([0, *np.bincount(self.columns, minlength=n_columns)])
        return SparseRows(starts, rows[order], self.values[order])


@reassociated
def _sparse_product(matrix: SparseRows, dense: Any) -> Any:
    """Return a sparse matrix (n, m) times a dense one of float32 (m, k)."""
    product = np.zeros((len(matrix.starts) - 1, dense.shape[1]), np.float32)
    for i in range(len(product)):
        for entry in range(matrix.starts[i], matrix.starts[i + 1]):
            column, value = matrix.columns[entry], matrix.values[entry]
            for j in range(dense.shape[1]):
                product[i, j] += value * dense[column, j]
    return product


def fit_latent_space(texts: Sequence[Ints]) -> LatentSpace | None:
    """Fit a space by a randomised singular value decomposition of BM25-weighted, normalised documents.

    The documents are given as stem numbers; where they are too few, there is no space.

    References:
      Halko, Martinsson and Tropp (2011), Finding Structure with Randomness; Deerwester et al. (1990), Indexing by
      Latent Semantic Analysis.
    """
    if len(texts) < MIN_DOCUMENTS:
        return None
    terms, frequencies = _vocabulary(texts)
    if not len(terms):
        return None
    weights = np.log(1.0 + (len(texts) - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)
    mean_length = float(np.mean([len(text) for text in texts]))
    matrix = _weighted_counts(texts, terms, weights, mean_length, normalised=True)
    transposed = matrix.transposed(len(terms))
    size = min(MAX_DIMENSIONS, max(2, len(texts) // DOCUMENTS_PER_DIMENSION), len(terms))
    width = min(size + N_EXTRA_DIMENSIONS, len(texts), len(terms))
    basis = _sparse_product(matrix, np.random.default_rng(0).standard_normal((len(terms), width), dtype=np.float32))
    for _ in range(N_POWER_STEPS):  # each step makes small singular values smaller beside the large ones
        basis = _sparse_product(matrix, _orthonormal(_sparse_product(transposed, _orthonormal(basis))))
    projected = _sparse_product(transposed, _orthonormal(basis))
    values, vectors = np.linalg.eigh(projected.T @ projected)
    order = np.argsort(-values)[:size]
    order = order[values[order] > 1e-6 * max(float(values.max()), 1e-30)]
    axes = projected @ (vectors[:, order] / np.sqrt(values[order])).astype(np.float32)
    return LatentSpace(terms, weights, np.ascontiguousarray(axes, np.float32), mean_length, np.empty(0, np.int64))


def _orthonormal(columns: Vectors) -> Vectors:
    """Return an orthonormal basis of the same span; unlike `numpy.linalg.qr` it copies nothing to 64 bits."""
    values, vectors = np.linalg.eigh((columns.T @ columns).astype(np.float64))
    kept = values > 1e-7 * max(float(values.max()), 1e-30)
    return columns @ (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)


def _vocabulary(texts: Sequence[Ints]) -> tuple[Ints, Vectors]:
    """Return the terms that stand in two documents or more, but not in most of them, and in how many."""
    all_terms = np.concatenate([np.unique(text[:MAX_WORDS_OF_DOCUMENT]) for text in texts])
    terms, counts = np.unique(all_terms, return_counts=True)
    kept = (counts >= 2) & (counts <= max(MAX_TERM_SHARE * len(texts), 2))
    terms, counts = terms[kept], counts[kept]
    if len(terms) > MAX_TERMS:
        most_frequent = np.sort(np.argsort(-counts, kind="stable")[:MAX_TERMS])
        terms, counts = terms[most_frequent], counts[most_frequent]
    return terms.astype(np.int64), counts.astype(np.float32)


def _weighted_counts(
    texts: Sequence[Ints], terms: Ints, weights: Vectors, mean_length: float, normalised: bool = False
) -> SparseRows:
    """Return BM25's weight of each term in each text; without a mean length all count as of mean length."""
    columns, values, starts = list[Any](), list[Any](), np.zeros(len(texts) + 1, np.int64)
    for i, text in enumerate(texts):
        words, counts = np.unique(text[:MAX_WORDS_OF_DOCUMENT], return_counts=True)
        at = np.searchsorted(terms, words)
        is_term = terms[np.minimum(at, len(terms) - 1)] == words
        at, counts = at[is_term], counts[is_term]
        spread = K1 * (1.0 - B + B * len(text) / mean_length) if mean_length else K1
        row = weights[at] * counts * (K1 + 1.0) / (counts + spread)
        if normalised:
            row /= max(float(np.linalg.norm(row)), 1e-9)
        columns.append(at.astype(np.int32))
        values.append(row.astype(np.float32))
        starts[i + 1] = starts[i] + len(at)
    return SparseRows(starts, np.concatenate(columns), np.concatenate(values))


def unit_rows(rows: Vectors) -> Vectors:
    """Return the rows divided by their lengths; zeros stay zeros."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 1e-6)
