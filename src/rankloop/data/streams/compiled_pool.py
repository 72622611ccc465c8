"""A data set and its draws as one value, for compiled whole runs that go through it as `shuffled_rounds` does."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.random import Generator

from rankloop.core.kernels import kernel
from rankloop.core.learner_parts import ALL
from rankloop.core.types import Floats, Ints
from rankloop.data.dataset import Dataset

ROUNDS, DRAWN, OWN, WRITTEN, LIMIT = 0, 1, 2, 3, 4  # the entries of Pool.counts
FIRST_ROW, COUNT, REFUSED, LOG_PROPENSITY, EXPLORATION, NUMBERS = range(6)  # the entries of a row of Pool.history
LINE = 8  # numbers in a line of the processor's cache
AHEAD = 2**11  # numbers fetched ahead; of longer queries the processor itself foresees the rest


class Pool(NamedTuple):
    """Queries, random numbers of the stream and of the learner, and where the shown rankings and their grades go."""

    features: Floats
    relevance: Floats
    offsets: Ints
    draws: Floats
    own_draws: Floats
    depth: int  # how many items are graded, −1: all
    order: Ints  # of all rounds, one after another: which row of its query each item is
    rankings: Ints  # likewise, each counting from 0
    grades: Floats  # likewise, in item order
    ends: Ints  # the entries of round t end at ends[t + 1]
    counts: Ints
    history: Floats  # when it has rows, one for each round: its numbers, then the weights before it
    familiar: Ints  # as the rankings, when there is a history: the items graded without exploration


def pool_of(dataset: Dataset, chunk: int, depth: int | None, keeps: bool = False) -> Pool:
    """A pool with room for `chunk` random numbers of the stream and as many of the learner, all of them used up.

    There is room for any two queries at least. `keeps`: and for what the learner had before each round, too.
    """
    size = max(chunk, 2 * (int(dataset.sizes.max()) + 1))
    draws, own_draws, grades = np.empty(size), np.empty(size), np.empty(size)
    order, rankings = np.empty(size, np.int64), np.empty(size, np.int64)
    counts, ends = np.array([0, size, size, 0, 0]), np.zeros(size // (1 + int(dataset.sizes.min())) + 1, np.int64)
    history = np.zeros((len(ends) * keeps, NUMBERS + dataset.n_features))
    familiar = np.empty(size * keeps, np.int64)
    arrays = dataset.features, dataset.relevance, dataset.offsets
    graded = ALL if depth is None else depth
    return Pool(*arrays, draws, own_draws, graded, order, rankings, grades, ends, counts, history, familiar)


def refill(pool: Pool, of_stream: Generator, of_learner: Generator, limit: int) -> None:
    """Room for at most `limit` more rounds: what is left of the draws, and new ones as they would come one by one."""
    for draws, position, rng in ((pool.draws, DRAWN, of_stream), (pool.own_draws, OWN, of_learner)):
        n_left = len(draws) - int(pool.counts[position])
        draws[:n_left] = draws[len(draws) - n_left :].copy()
        rng.random(out=draws[n_left:])
    pool.counts[:] = 0, 0, 0, 0, limit


@kernel
def more_rounds(pool: Pool, draws_own: bool) -> bool:
    """Whether the next round is wanted and its random numbers are there: the learner's are one more than its items."""
    counts = pool.counts
    if counts[ROUNDS] == counts[LIMIT] or counts[DRAWN] == len(pool.draws):
        return False
    start, end = _next_rows(pool)
    enough = counts[DRAWN] + 1 + end - start <= len(pool.draws)
    return enough and (not draws_own or counts[OWN] + 1 + end - start <= len(pool.own_draws))


@intrinsic
def _fetch(_: Any, array: Any, position: Any) -> Any:
    """Ask for the cache line of array.flat[position], without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(numbers.data, [arguments[1]]), ir.IntType(8).as_pointer())
        reads, second_level, data = (ir.IntType(32)(code) for code in (0, 2, 1))
        kinds = ir.FunctionType(ir.VoidType(), [address.type, *[ir.IntType(32)] * 3])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kinds)
        builder.call(prefetch, [address, reads, second_level, data])
        return context.get_dummy_value()

    return types.void(array, position), generate


@kernel
def _fetch_ahead(pool: Pool) -> None:
    """Have the rows of the round after this one on their way from memory while this one is played."""
    if pool.counts[DRAWN] < len(pool.draws):
        start, end = _next_rows(pool)
        n_features = pool.features.shape[1]
        first, last = start * n_features, end * n_features
        for position in range(first, min(last, first + AHEAD), LINE):
            _fetch(pool.features, position)  # type: ignore[call-arg]


@kernel
def next_query(pool: Pool) -> tuple[int, int, int]:
    """Of the next round: where its rows begin and end, and where its entries in order and grades begin.

    The rows stay where they are: copying them in shuffled order would take most of the time.
    """
    start, end = _next_rows(pool)
    first, size, written = pool.counts[DRAWN] + 1, end - start, pool.counts[WRITTEN]
    pool.counts[DRAWN] = first + size
    _fetch_ahead(pool)
    order = pool.order[written:]
    for i in range(size):
        order[i] = i
    for i in range(size):
        j = i + int(pool.draws[first + i] * (size - i))
        row = order[j]
        order[i], order[j] = row, order[i]
        pool.grades[written + i] = pool.relevance[start + row]
    return start, end, written


@kernel
def next_own(pool: Pool, n: int) -> Floats:
    """The learner's next n random numbers."""
    first = pool.counts[OWN]
    pool.counts[OWN] = first + n
    return pool.own_draws[first : first + n]


@kernel
def keep(pool: Pool, numbers: tuple[float, float, float, float, float], weights: Floats) -> None:
    """A row of the history: of the round that is written next, or of the end after the last one."""
    row = pool.history[pool.counts[ROUNDS]]
    row[FIRST_ROW], row[COUNT], row[REFUSED], row[LOG_PROPENSITY], row[EXPLORATION] = numbers
    for j in range(len(weights)):
        row[NUMBERS + j] = weights[j]


@kernel
def write_round(pool: Pool, ranking: Ints) -> None:
    """Keep what was shown, to be judged later; the grades are there already."""
    counts = pool.counts
    first = counts[WRITTEN]
    for position in range(len(ranking)):
        pool.rankings[first + position] = ranking[position]
    counts[WRITTEN] = first + len(ranking)
    counts[ROUNDS] += 1
    pool.ends[counts[ROUNDS]] = counts[WRITTEN]


@kernel
def _next_rows(pool: Pool) -> tuple[int, int]:
    """Where the rows of the next query begin and end."""
    query = int(pool.draws[pool.counts[DRAWN]] * (len(pool.offsets) - 1))
    return pool.offsets[query], pool.offsets[query + 1]
