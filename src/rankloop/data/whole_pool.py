"""A data set and its draws as one value, for compiled whole runs that go through it as `shuffled_rounds` does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.data.dataset import Dataset

ROUNDS, DRAWN, OWN, WRITTEN, LIMIT = 0, 1, 2, 3, 4  # the places of Pool.counts


class Pool(NamedTuple):
    """Queries, random numbers of the stream and of the learner, and where the shown rankings and their grades go."""

    features: Floats
    relevance: Floats
    offsets: Ints
    draws: Floats
    own_draws: Floats
    depth: int  # how many items are graded, −1: all
    rankings: Ints  # one after another, each counting from 0
    grades: Floats  # in item order
    ends: Ints  # the entries of round t end at ends[t + 1]
    counts: Ints


def pool_of(dataset: Dataset, draws: Floats, own_draws: Floats, depth: int, limit: int) -> Pool:
    """A pool with room for all rounds that these draws allow, at most `limit`."""
    rankings, grades = np.empty(len(draws), np.int64), np.empty(len(draws))
    counts = np.array([0, 0, 0, 0, limit])
    ends = np.zeros(limit + 1, np.int64)
    arrays = dataset.features, dataset.relevance, dataset.offsets
    return Pool(*arrays, draws, own_draws, depth, rankings, grades, ends, counts)


@kernel
def more_rounds(pool: Pool, draws_own: bool) -> bool:
    """Whether the next round is wanted and its random numbers are there: the learner's are one more than its items."""
    counts = pool.counts
    if counts[ROUNDS] == counts[LIMIT] or counts[DRAWN] == len(pool.draws):
        return False
    size = _next_size(pool)
    enough = counts[DRAWN] + 1 + size <= len(pool.draws)
    return enough and (not draws_own or counts[OWN] + 1 + size <= len(pool.own_draws))


@kernel
def next_query(pool: Pool) -> tuple[Floats, Ints, Floats]:
    """Of the next round: the rows of its query, which of them each item is, and the grades of the items.

    The rows stay where they are: copying them in shuffled order would take most of the time.
    """
    counts, offsets = pool.counts, pool.offsets
    query = int(pool.draws[counts[DRAWN]] * (len(offsets) - 1))
    start, end = offsets[query], offsets[query + 1]
    first, size = counts[DRAWN] + 1, end - start
    counts[DRAWN] = first + size
    order, grades = np.arange(size), np.empty(size)
    for i in range(size):
        j = i + int(pool.draws[first + i] * (size - i))
        order[i], order[j] = order[j], order[i]
        grades[i] = pool.relevance[start + order[i]]
    return pool.features[start:end], order, grades


@kernel
def next_own(pool: Pool, n: int) -> Floats:
    """The learner's next n random numbers."""
    first = pool.counts[OWN]
    pool.counts[OWN] = first + n
    return pool.own_draws[first : first + n]


@kernel
def write_round(pool: Pool, ranking: Ints, relevance: Floats) -> None:
    """Keep what was shown, to be judged later."""
    counts = pool.counts
    first = counts[WRITTEN]
    for place in range(len(ranking)):
        pool.rankings[first + place] = ranking[place]
        pool.grades[first + place] = relevance[place]
    counts[WRITTEN] = first + len(ranking)
    counts[ROUNDS] += 1
    pool.ends[counts[ROUNDS]] = counts[WRITTEN]


@kernel
def _next_size(pool: Pool) -> int:
    query = int(pool.draws[pool.counts[DRAWN]] * (len(pool.offsets) - 1))
    size: int = pool.offsets[query + 1] - pool.offsets[query]
    return size
