"""Compiled arithmetic: the decorator, scores and rankings, random draws, gains and discounts that measures share."""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload
from numpy.random import Generator

from rankloop.core.compilation import REASSOCIATED_SUMS
from rankloop.core.compilation import kernel as kernel  # every file with kernels imports the decorator from here
from rankloop.core.compilation import reassociated as reassociated
from rankloop.core.distributions import normal_quantiles
from rankloop.core.types import Features, Floats, Ints, Rows

MAX_FLOAT = float(np.finfo(np.float64).max)
ALL = -1  # how a state writes "every position is seen"
SMALLEST = 2.0**-54  # half of the smallest positive double that rng.random returns
COUNTED = 400  # up to this many items, counting who stands above whom beats sorting


def by_form(features: Any, dense: Any, sparse: Any) -> Any:
    """The form for `Rows` or the one for an array, whether the compiler asks or nothing is compiled."""
    return sparse if isinstance(features, types.BaseNamedTuple | Rows) else dense


def _dense_scores(features: Floats, weights: Floats) -> Floats:
    n_items, n_features = features.shape
    scores = np.empty(n_items)
    for i in range(n_items):
        total = 0.0
        for j in range(n_features):
            total += features[i, j] * weights[j]
        scores[i] = total
    return scores


def _sparse_scores(features: Rows, weights: Floats) -> Floats:
    n_items, n_dense = features.dense.shape
    starts, positions, values, dense = features.starts, features.positions, features.values, features.dense
    n_columns = len(features.columns)
    scores = np.empty(n_items)
    for i in range(n_items):
        total = 0.0
        for e in range(starts[i], starts[i + 1]):
            total += values[e] * weights[positions[e]]
        for j in range(n_dense):
            total += dense[i, j] * weights[n_columns + j]
        scores[i] = total
    return scores


def _scores(features: Any, weights: Floats) -> Floats:
    scores: Any = by_form(features, _dense_scores, _sparse_scores)
    found: Floats = scores(features, weights)
    return found


@overload(_scores, strict=False, jit_options={"fastmath": REASSOCIATED_SUMS, "nogil": True})
def _compiled_scores(features: Any, weights: Any) -> Any:
    return by_form(features, _dense_scores, _sparse_scores)


@reassociated
def scores_of(features: Features, weights: Floats) -> Floats:
    """features · weights, row by row: equal rows get equal scores wherever they stand, which BLAS does not promise."""
    return _scores(features, weights)


def _add_dense_row(total: Floats, features: Floats, row: int, factor: float) -> None:
    for j in range(len(total)):
        total[j] += factor * features[row, j]


def _add_sparse_row(total: Floats, features: Rows, row: int, factor: float) -> None:
    n_columns = len(features.columns)
    for e in range(features.starts[row], features.starts[row + 1]):
        total[features.positions[e]] += factor * features.values[e]
    for j in range(features.dense.shape[1]):
        total[n_columns + j] += factor * features.dense[row, j]


def add_row(total: Floats, features: Any, row: int, factor: float) -> None:
    """total += factor · features[row], in place; for kernels."""
    add: Any = by_form(features, _add_dense_row, _add_sparse_row)
    add(total, features, row, factor)


@overload(add_row, strict=False, jit_options={"nogil": True})
def _compiled_add_row(total: Any, features: Any, row: Any, factor: Any) -> Any:
    return by_form(features, _add_dense_row, _add_sparse_row)


def _dense_width(features: Floats) -> Any:
    return features.shape[1]


def _sparse_width(features: Rows) -> Any:
    return len(features.columns) + features.dense.shape[1]


def width_of(features: Any) -> int:
    """How many weights the features have; for kernels."""
    width: Any = by_form(features, _dense_width, _sparse_width)
    return int(width(features))


@overload(width_of, strict=False, jit_options={"nogil": True})
def _compiled_width(features: Any) -> Any:
    return by_form(features, _dense_width, _sparse_width)


@kernel
def weighted_rows(features: Features, row_weights: Floats) -> Floats:
    """Σ_i row_weights[i] · features[i]: a gradient over scores turned into one over weights."""
    total = np.zeros(width_of(features))
    for i in range(len(row_weights)):
        if row_weights[i] != 0.0:
            add_row(total, features, i, row_weights[i])
    return total


@kernel
def row_difference(features: Features, row: int, other: int) -> Floats:
    """features[row] − features[other]."""
    difference = np.zeros(width_of(features))
    add_row(difference, features, row, 1.0)
    add_row(difference, features, other, -1.0)
    return difference


@kernel
def all_finite(values: Floats) -> bool:
    """Whether every number is finite: comparisons without a branch, many at a time."""
    strange = False
    for value in values.ravel():
        strange |= not abs(value) <= MAX_FLOAT
    return not strange


@kernel
def ranking_of(scores: Floats) -> Ints:
    """Items by descending score; ties by item number, so that a ranking is a function of its scores."""
    n_items = len(scores)
    if n_items > COUNTED or not all_finite(scores):
        return np.argsort(-scores, kind="mergesort")
    positions = np.zeros(n_items, np.int64)
    for item in range(n_items):
        score, n_above = scores[item], np.int64(0)
        for earlier in range(item):  # no branches, so it runs in vectors
            above = np.int64(scores[earlier] >= score)
            n_above += above
            positions[earlier] += 1 - above
        positions[item] = n_above
    ranking = np.empty(n_items, np.int64)
    for item in range(n_items):
        ranking[positions[item]] = item
    return ranking


@kernel
def seen_count(shown: int, n_items: int) -> int:
    """How many of n_items positions are seen; a negative `shown` means all."""
    if shown < 0 or shown > n_items:
        return n_items
    return shown


@kernel
def clicked_weights(n_items: int, items: Ints, weights: Floats) -> Floats:
    """The weight of the click on each item, 0 where there was none."""
    clicked = np.zeros(n_items)
    for i in range(len(items)):
        clicked[items[i]] = weights[i]
    return clicked


@kernel
def due_item(best: Ints, position: int, positions: int, keep_first: bool, taken: Ints) -> int:
    """The item that must stand at `position`: the kept first, or the one that may not fall further; else −1."""
    if keep_first and position == 0:
        return int(best[0])
    if positions >= 0 and position >= positions and taken[best[position - positions]] == 0:
        return int(best[position - positions])
    return -1


@kernel
def positions_of(ranking: Ints) -> Ints:
    """The inverse permutation: where each item stands."""
    positions = np.empty(len(ranking), np.int64)
    for position in range(len(ranking)):
        positions[ranking[position]] = position
    return positions


@kernel
def is_permutation(ranking: Ints, n_items: int) -> bool:
    if len(ranking) != n_items:
        return False
    seen = np.zeros(n_items, np.bool_)
    for item in ranking:
        if item < 0 or item >= n_items or seen[item]:
            return False
        seen[item] = True
    return True


def random_ranking(n_items: int, rng: Generator) -> Ints:
    """A uniform ranking from exactly n_items doubles."""
    return ranking_of(rng.random(n_items))


def normals(rng: Generator, *shape: int) -> Floats:
    """Standard normal numbers by the inverse distribution function; 0, which the uniform can give, stays finite."""
    uniforms = np.maximum(rng.random(shape), SMALLEST)
    return normal_quantiles(uniforms.ravel()).reshape(shape)


def unit_vector(rng: Generator, length: int) -> Floats:
    """A uniformly random direction."""
    direction = normals(rng, length)
    scaled: Floats = direction / np.sqrt(np.sum(direction**2))
    return scaled


@kernel
def discount(position: int) -> float:
    """1 / log₂(position + 2), the DCG discount; positions count from 0."""
    value: float = 1.0 / np.log2(position + 2.0)
    return value


@kernel
def exponential_gain(grade: float) -> float:
    """2^grade − 1."""
    gain: float = 2.0**grade - 1.0
    return gain


def discounts(n_positions: int, cutoff: int | None = None) -> Floats:
    """The DCG discounts of the first n_positions positions, 0 from the cutoff on."""
    values: Floats = 1.0 / np.log2(np.arange(n_positions) + 2.0)
    if cutoff is not None:
        values[cutoff:] = 0.0
    return values
