"""Endless rounds over a data set: a random query each time, its items shuffled; and data sets drawn for that."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_at_least
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Problem, Query
from rankloop.data.dataset import NO_CONTEXT, Dataset

N_GRADES = 5  # of simulated queries


@dataclass(frozen=True, kw_only=True)
class SimulatedQueries:
    """Queries with equally many items and grades 0 to 4; a stream says in `dataset` how those of one run are drawn."""

    n_items: int
    n_features: int
    n_queries: int

    def __post_init__(self) -> None:
        check_at_least(1, n_items=self.n_items, n_features=self.n_features, n_queries=self.n_queries)

    @property
    def problem(self) -> Problem:
        return Problem(n_features=self.n_features, max_grade=N_GRADES - 1)

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        return shuffled_rounds(self.dataset(rng), rng)

    @abstractmethod
    def dataset(self, rng: Generator) -> Dataset:
        """The queries of one run."""


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


def dataset_of_equal(features: Floats, relevance: Floats) -> Dataset:
    """A data set from (n_queries, n_items, n_features) and (n_queries, n_items)."""
    n_queries, n_items, n_features = features.shape
    table = np.ascontiguousarray(features.reshape(n_queries * n_items, n_features))
    offsets = np.arange(n_queries + 1, dtype=np.int64) * n_items
    return Dataset(table, relevance.reshape(-1), offsets, tuple(map(str, range(n_queries))))


def grades_by_share(latent: Floats, shares: tuple[float, ...]) -> Floats:
    """Grades 0, 1, … by ascending latent value, grade g being given to a part shares[g] of the items."""
    cuts = np.quantile(latent, np.cumsum(shares)[:-1] / np.sum(shares))
    return np.searchsorted(cuts, latent, side="left").astype(np.float64)


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
