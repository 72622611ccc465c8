"""Shared kernels: scores, rankings (sorting), sums of rows, random draws, gains and discounts."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba.core import types
from numba.extending import overload
from numpy.random import Generator

from rankloop.core.compilation import REASSOCIATED_SUMS
from rankloop.core.compilation import kernel as kernel  # every file with kernels imports the decorator from here
from rankloop.core.compilation import reassociated as reassociated
from rankloop.core.statistics import normal_quantiles
from rankloop.core.types import Features, Floats, Ints, Rows

F = TypeVar("F", bound=Callable[..., Any])
MAX_FLOAT = float(np.finfo(np.float64).max)
ALL_POSITIONS = -1  # in a state: every position is visible
MIN_UNIFORM = 2.0**-54  # half of the smallest positive double that rng.random returns
SORTED_RUN = 16  # keys that are sorted by insertion before runs are merged
MAX_COUNTED_ITEMS = 400  # up to this many items, counting the items above each one is faster than sorting


def _by_form(dense: F, sparse: F, fastmath: bool | set[str] = False) -> F:
    """Return a function for kernels: `sparse` where an argument is `Rows`, else `dense`."""

    def implementation(arguments: tuple[Any, ...]) -> F:
        is_sparse = any(isinstance(argument, types.BaseNamedTuple | Rows) for argument in arguments)
        return sparse if is_sparse else dense

    def function(*arguments: Any) -> Any:  # in plain Python
        return implementation(arguments)(*arguments)

    options: Any = {"fastmath": fastmath, "nogil": True}
    overload(function, strict=False, jit_options=options)(lambda *arguments: implementation(arguments))
    return function  # type: ignore[return-value]


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


_scores = _by_form(_dense_scores, _sparse_scores, REASSOCIATED_SUMS)


@reassociated
def scores_of(features: Features, weights: Floats) -> Floats:
    """Return features · weights. Equal rows get equal scores, which BLAS does not guarantee.

    Args:
      features: One row per item.
      weights: One weight per feature.
    """
    return _scores(features, weights)  # type: ignore[no-any-return]


def _add_dense_row(total: Floats, features: Floats, row: int, factor: float) -> None:
    for j in range(len(total)):
        total[j] += factor * features[row, j]


def _add_sparse_row(total: Floats, features: Rows, row: int, factor: float) -> None:
    n_columns = len(features.columns)
    for e in range(features.starts[row], features.starts[row + 1]):
        total[features.positions[e]] += factor * features.values[e]
    for j in range(features.dense.shape[1]):
        total[n_columns + j] += factor * features.dense[row, j]


# Adds factor · features[row] to a sum, in place.
add_row = _by_form(_add_dense_row, _add_sparse_row)


def _dense_width(features: Floats) -> int:
    return int(features.shape[1])


def _sparse_width(features: Rows) -> int:
    return len(features.columns) + int(features.dense.shape[1])


# The number of weights that features need.
width_of = _by_form(_dense_width, _sparse_width)


@kernel
def weighted_rows(features: Features, row_weights: Floats) -> Floats:
    """Return Σ_i row_weights[i] · features[i]: the gradient in the weights from that in the scores.

    Args:
      features: One row per item.
      row_weights: One number per item.
    """
    total = np.zeros(width_of(features))
    for i in range(len(row_weights)):
        if row_weights[i] != 0.0:
            add_row(total, features, i, row_weights[i])
    return total


@kernel
def averaged_step(
    rows: Features, weights: Floats, newest: Floats, rounds: int, averaged: bool, row_weights: Floats, rate: float = 1.0
) -> tuple[Floats, Floats]:
    """Return the weights to rank by and the newest weights after a correction.

    Args:
      rows: The features of the items.
      weights: The weights to rank by: the mean of rounds + 1 vectors, if averaged.
      newest: The newest weights.
      rounds: The number of earlier corrections.
      averaged: True to rank by the mean of all newest weights, not by the last.
      row_weights: The correction Σ_i row_weights[i] · rows[i].
      rate: A factor of the correction.
    """
    new = newest.copy()
    for i in range(len(row_weights)):
        if rate * row_weights[i] != 0.0:
            add_row(new, rows, i, rate * row_weights[i])
    if not averaged:
        return new, new
    mean = np.empty_like(new)
    for j in range(len(new)):
        mean[j] = weights[j] + (new[j] - weights[j]) / (rounds + 2)
    return mean, new


@kernel
def all_finite(values: Floats) -> bool:
    """Return true if every number is finite; without branches, so that the loop is vectorised."""
    any_other = False
    for value in values.ravel():
        any_other |= not abs(value) <= MAX_FLOAT
    return not any_other


@kernel
def sorted_order(keys: Floats) -> Ints:
    """Return the order that sorts keys ascending, equal keys by their number, NaN last.

    A bottom-up merge sort: NumPy's sorts inside kernels take seconds to compile.
    """
    n_sortable, last = 0, len(keys)
    order, merged = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    for item in range(len(keys) - 1, -1, -1):  # NaN goes to the end
        if np.isnan(keys[item]):
            last -= 1
            order[last] = merged[last] = item
    for item in range(len(keys)):  # insertion sorts short runs of the others
        key, position = keys[item], n_sortable
        if not np.isnan(key):
            run_start = position - position % SORTED_RUN
            while position > run_start and key < keys[order[position - 1]]:
                order[position] = order[position - 1]
                position -= 1
            order[position] = item
            n_sortable += 1
    width = SORTED_RUN
    while width < n_sortable:
        for first in range(0, n_sortable, 2 * width):  # merge the sorted runs [first, middle) and [middle, end)
            middle, end = min(first + width, n_sortable), min(first + 2 * width, n_sortable)
            left, right, position = first, middle, first
            while left < middle and right < end:
                if keys[order[left]] <= keys[order[right]]:
                    merged[position] = order[left]
                    left += 1
                else:
                    merged[position] = order[right]
                    right += 1
                position += 1
            for i in range(left, middle):  # loops, since assigning slices takes a second to compile
                merged[position + i - left] = order[i]
            for i in range(right, end):
                merged[i] = order[i]
        order, merged = merged, order
        width *= 2
    return order


@kernel
def ranking_of(scores: Floats) -> Ints:
    """Sort items by descending score, ties by item number."""
    n_items = len(scores)
    if n_items > MAX_COUNTED_ITEMS or not all_finite(scores):
        return sorted_order(-scores)
    positions = np.zeros(n_items, np.int64)
    for item in range(n_items):
        score, n_above = scores[item], np.int64(0)
        for earlier in range(item):  # without branches, so that it is vectorised
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
    """Return the number of visible positions.

    Args:
      shown: The number of positions that are shown; negative: all.
      n_items: The number of items.
    """
    return n_items if shown < 0 or shown > n_items else shown


@kernel
def clicked_weights(n_items: int, items: Ints, weights: Floats) -> Floats:
    """Return the weight of the click on each item, 0 where there was none.

    Args:
      n_items: The number of items.
      items: The clicked items.
      weights: The weights of their clicks.
    """
    clicked = np.zeros(n_items)
    for i in range(len(items)):
        clicked[items[i]] = weights[i]
    return clicked


@kernel
def due_item(best: Ints, position: int, positions: int, keep_first: bool, taken: Ints) -> int:
    """Return the item that a `Limit` forces to a position, or −1.

    Args:
      best: The best ranking.
      position: The position to fill.
      positions: No item moves more positions than this; negative: no limit.
      keep_first: The first item of the best ranking stays first.
      taken: 1 for items that are placed already.
    """
    if keep_first and position == 0:
        return int(best[0])
    if positions >= 0 and position >= positions and taken[best[position - positions]] == 0:
        return int(best[position - positions])
    return -1


@kernel
def positions_of(ranking: Ints) -> Ints:
    """Return the position of each item."""
    positions = np.empty(len(ranking), np.int64)
    for position in range(len(ranking)):
        positions[ranking[position]] = position
    return positions


@kernel
def is_permutation(ranking: Ints, n_items: int) -> bool:
    """Return true if a ranking names each of `n_items` items once.

    Args:
      ranking: The ranking.
      n_items: The number of items.
    """
    if len(ranking) != n_items:
        return False
    taken = np.zeros(n_items, np.bool_)
    for item in ranking:
        if item < 0 or item >= n_items or taken[item]:
            return False
        taken[item] = True
    return True


def normals(rng: Generator, *shape: int) -> Floats:
    """Standard normal numbers by the inverse distribution function; 0, which the uniform can give, stays finite."""
    uniforms = np.maximum(rng.random(shape), MIN_UNIFORM)
    return normal_quantiles(uniforms.ravel()).reshape(shape)


@kernel
def discount(position: int) -> float:
    """Return the DCG discount 1 / log₂(position + 2); positions count from 0."""
    return float(1.0 / np.log2(position + 2.0))


@kernel
def exponential_gain(grade: float) -> float:
    """Return 2^grade − 1."""
    return float(2.0**grade - 1.0)


def discounts(n_positions: int, cutoff: int | None = None) -> Floats:
    """Return the DCG discounts of the first positions.

    Args:
      n_positions: The number of positions.
      cutoff: From this position on discounts are 0; None: nowhere.
    """
    values: Floats = 1.0 / np.log2(np.arange(n_positions) + 2.0)
    if cutoff is not None:
        values[cutoff:] = 0.0
    return values


@kernel
def project(weights: Floats, radius: float) -> None:
    """Scale weights in place so that their Euclidean norm is at most a radius.

    Args:
      weights: The weights.
      radius: The largest norm; may be infinite.
    """
    largest = np.abs(weights).max() if len(weights) else 0.0
    if radius == np.inf or largest == 0.0:
        return
    norm = largest * np.sqrt(np.sum((weights / largest) ** 2))
    if norm > radius:
        weights *= radius / norm
