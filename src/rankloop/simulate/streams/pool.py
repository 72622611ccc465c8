"""Endless rounds over a data set: a random query each time, its items shuffled."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.protocols import Stream
from rankloop.core.registry import Examples, register
from rankloop.core.types import Floats, Problem, Query
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


@register("held_out")
class HeldOut:
    """The inner stream without a `share` of its queries, which every run draws anew.

    An experiment with `new_queries` evaluates a learner on the queries that were held out.

    Args:
      inner: A stream over a data set: letor, web_search, linear_gaussian or separable.
      share: The share of the queries that is held out.
    """

    inner: Stream
    share: float = 0.2

    examples: ClassVar[Examples] = ({"inner": {"kind": "linear_gaussian", "n_queries": 5}},)

    def __post_init__(self) -> None:
        if not hasattr(self.inner, "dataset"):
            raise InvalidInput("held_out needs a stream over a data set: letor, web_search, linear_gaussian, separable")
        if not 0 < self.share < 1:
            raise InvalidInput(f"share = {self.share} must be a share between 0 and 1")

    @property
    def problem(self) -> Problem:
        return self.inner.problem

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        return shuffled_rounds(self.parts(rng)[0], rng, getattr(self.inner, "candidates", None))

    def parts(self, rng: Generator) -> tuple[Dataset, Dataset]:
        """Return the queries that take part and those that are held out, at least one of each."""
        dataset: Dataset = self.inner.dataset(rng)  # type: ignore[attr-defined]
        n_queries = dataset.n_queries
        if n_queries < 2:
            raise InvalidInput("held_out needs at least two queries")
        n_out = min(max(1, round(self.share * n_queries)), n_queries - 1)
        order = np.argsort(rng.random(n_queries), kind="stable")
        return dataset.subset(np.sort(order[n_out:])), dataset.subset(np.sort(order[:n_out]))
