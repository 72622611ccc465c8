"""Endless rounds over a data set: a random query each time, its items shuffled."""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Query
from rankloop.data.dataset import NO_CONTEXT, Dataset


def shuffled_rounds(dataset: Dataset, rng: Generator, candidates: int | None = None) -> Iterator[tuple[Query, Floats]]:
    """Queries drawn uniformly, with replacement; of each, `candidates` random items (None: all) in random order."""
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
    """The first len(draws) items of a Fisher–Yates shuffle of the rows start … start + size."""
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
