"""Endless rounds over a data set: a random query each time, its items shuffled."""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Query
from rankloop.data.dataset import NO_CONTEXT, Dataset


def shuffled_rounds(dataset: Dataset, rng: Generator, candidates: int | None = None) -> Iterator[tuple[Query, Floats]]:
    """Yield queries of a data set that are drawn uniformly with replacement, their items in random order.

    Args:
      dataset: The data set.
      rng: The source of random numbers.
      candidates: The number of random items of each query; all if None.
    """
    if dataset.n_queries == 0:
        raise InvalidInput("a stream needs at least one query, this data set has none")
    features, relevance, offsets, names = dataset
    starts, sizes = offsets[:-1].tolist(), dataset.sizes.tolist()
    n_queries, random = len(sizes), rng.random
    while True:
        q = int(random() * n_queries)
        n_shown = sizes[q] if candidates is None else min(candidates, sizes[q])
        rows, grades = shuffled(features, relevance, starts[q], sizes[q], random(n_shown))
        yield Query(names[q], rows, NO_CONTEXT), grades


@kernel
def shuffled(features: Floats, relevance: Floats, start: int, size: int, draws: Floats) -> tuple[Floats, Floats]:
    """Return features and grades of the first len(draws) items of a Fisher–Yates shuffle of a query.

    Args:
      features: The features of the data set.
      relevance: The grades of the data set.
      start: The first row of the query.
      size: The number of its rows.
      draws: Uniform numbers, one for each item.
    """
    n_shown, n_features = len(draws), features.shape[1]
    order = np.arange(start, start + size)
    rows, grades = np.empty((n_shown, n_features)), np.empty(n_shown)
    for i in range(n_shown):
        j = i + int(draws[i] * (size - i))
        order[i], order[j] = order[j], order[i]
        row = order[i]
        grades[i] = relevance[row]
        for f in range(n_features):
            rows[i, f] = features[row, f]
    return rows, grades
