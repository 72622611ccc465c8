"""Rounds that a learner plays in one call of compiled code: of a fixed set of items, or over queries of a data set."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.random import Generator

from rankloop.core.kernels import ALL, kernel, seen_count
from rankloop.core.types import Floats, Ints, Problem
from rankloop.data.dataset import Dataset
from rankloop.simulate.users.click_behaviours import N_DRAWS, TopDownReader, walk_down

ROUNDS, DRAWN, OWN, WRITTEN, LIMIT = 0, 1, 2, 3, 4  # the entries of QueryRounds.counts
FIRST_ROW, COUNT, REFUSED, LOG_PROPENSITY, EXPLORATION, NUMBERS = range(6)  # the entries of a row of its history
LINE = 8  # numbers in a line of the processor's cache
AHEAD = 2**11  # numbers fetched ahead; of longer queries the processor itself foresees the rest


@runtime_checkable
class CompiledRun(Protocol):
    """A learner that plays many rounds in one call, bit for bit as `rank` and `learn` would one after another."""

    @property
    def compiled(self) -> type | None:
        """The rounds that it plays, one of the tuples below; None where its kernel lacks the parameters."""

    def init(self, problem: Problem) -> Any: ...
    def doubles(self, n_items: int) -> int:
        """How many doubles `rank` takes."""

    def many_rounds(self, state: Any, rounds: Any) -> Any:
        """The state after all rounds that there are draws for; what was shown is written into `rounds`."""


class FixedSetRounds(NamedTuple):
    """Rounds of a fixed set of items, a row each: the grades, the learner's random numbers, what it shows."""

    relevance: Floats
    draws: Floats
    rankings: Ints

    @property
    def n_rounds(self) -> int:
        return len(self.rankings)


class QueryRounds(NamedTuple):
    """A data set through which to go as `shuffled_rounds` does.

    Queries, random numbers of the stream and of the learner, and where the shown rankings and their grades go.
    """

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

    @property
    def n_rounds(self) -> int:
        """How many were played."""
        return int(self.counts[ROUNDS])


class Readers(NamedTuple):
    """People who read from the top and click (`TopDownReader`), as numbers: how they do, and their random numbers."""

    click: Floats
    stop: Floats
    persistence: float
    shown: int
    draws: Floats
    used: Ints  # one entry: how many of the draws are used up


class ClickRounds(NamedTuple):
    """Rounds over queries that are answered by clicks."""

    queries: QueryRounds
    readers: Readers

    @property
    def n_rounds(self) -> int:
        """How many were played."""
        return self.queries.n_rounds


def query_rounds(dataset: Dataset, chunk: int, depth: int | None, history: bool = False) -> QueryRounds:
    """Room for `chunk` random numbers of the stream and as many of the learner, all of them used up.

    There is room for any two queries at least, and with `history` for what the learner had before each round.
    """
    size = max(chunk, 2 * (int(dataset.sizes.max()) + 1))
    draws, own_draws, grades = np.empty(size), np.empty(size), np.empty(size)
    order, rankings = np.empty(size, np.int64), np.empty(size, np.int64)
    counts, ends = np.array([0, size, size, 0, 0]), np.zeros(size // (1 + int(dataset.sizes.min())) + 1, np.int64)
    table = np.zeros((len(ends) * history, NUMBERS + dataset.n_features))
    familiar = np.empty(size * history, np.int64)
    arrays = dataset.features, dataset.relevance, dataset.offsets
    graded = ALL if depth is None else depth
    return QueryRounds(*arrays, draws, own_draws, graded, order, rankings, grades, ends, counts, table, familiar)


def refill(rounds: QueryRounds, of_stream: Generator, of_learner: Generator, limit: int) -> QueryRounds:
    """At most `limit` more rounds: what is left of the draws, and new ones as they would come one by one."""
    for draws, position, rng in ((rounds.draws, DRAWN, of_stream), (rounds.own_draws, OWN, of_learner)):
        n_left = len(draws) - int(rounds.counts[position])
        draws[:n_left] = draws[len(draws) - n_left :].copy()
        rng.random(out=draws[n_left:])
    rounds.counts[:] = 0, 0, 0, 0, limit
    return rounds


def click_rounds(dataset: Dataset, chunk: int, people: TopDownReader) -> ClickRounds:
    """Room for `chunk` random numbers of the stream and of the learner, and for those of the people beside them."""
    queries = query_rounds(dataset, chunk, None)
    n_draws = N_DRAWS * min(people.shown, int(dataset.sizes.max())) * len(queries.ends)
    readers = Readers(*people.behaviour_by_grade, people.shown, np.empty(n_draws), np.array([n_draws]))
    return ClickRounds(queries, readers)


def refill_clicks(
    rounds: ClickRounds, of_stream: Generator, of_people: Generator, of_learner: Generator, limit: int
) -> ClickRounds:
    """As `refill`, with the random numbers of the people."""
    draws, used = rounds.readers.draws, rounds.readers.used
    n_left = len(draws) - int(used[0])
    draws[:n_left] = draws[len(draws) - n_left :].copy()
    of_people.random(out=draws[n_left:])
    used[0] = 0
    refill(rounds.queries, of_stream, of_learner, limit)
    return rounds


@kernel
def next_clicks(readers: Readers, ranking: Ints, grades: Floats) -> tuple[Ints, Floats]:
    """The clicked items and their weights, exactly as `observe` of the people has them."""
    n_seen, first = seen_count(readers.shown, len(ranking)), readers.used[0]
    readers.used[0] = first + N_DRAWS * n_seen
    draws = readers.draws[first : first + N_DRAWS * n_seen].reshape((N_DRAWS, n_seen))
    return walk_down(ranking, grades, readers.click, readers.stop, readers.persistence, draws)


@kernel
def more_rounds(rounds: QueryRounds, draws_own: bool) -> bool:
    """Whether the next round is wanted and its random numbers are there: the learner's are one more than its items."""
    counts = rounds.counts
    if counts[ROUNDS] == counts[LIMIT] or counts[DRAWN] == len(rounds.draws):
        return False
    start, end = _next_rows(rounds)
    enough = counts[DRAWN] + 1 + end - start <= len(rounds.draws)
    return enough and (not draws_own or counts[OWN] + 1 + end - start <= len(rounds.own_draws))


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
def _fetch_ahead(rounds: QueryRounds) -> None:
    """Have the rows of the round after this one on their way from memory while this one is played."""
    if rounds.counts[DRAWN] < len(rounds.draws):
        start, end = _next_rows(rounds)
        n_features = rounds.features.shape[1]
        first, last = start * n_features, end * n_features
        for position in range(first, min(last, first + AHEAD), LINE):
            _fetch(rounds.features, position)  # type: ignore[call-arg]


@kernel
def next_query(rounds: QueryRounds) -> tuple[int, int, int]:
    """Of the next round: where its rows begin and end, and where its entries in order and grades begin.

    The rows stay where they are: copying them in shuffled order would take most of the time.
    """
    start, end = _next_rows(rounds)
    first, size, written = rounds.counts[DRAWN] + 1, end - start, rounds.counts[WRITTEN]
    rounds.counts[DRAWN] = first + size
    _fetch_ahead(rounds)
    order = rounds.order[written:]
    for i in range(size):
        order[i] = i
    for i in range(size):
        j = i + int(rounds.draws[first + i] * (size - i))
        row = order[j]
        order[i], order[j] = row, order[i]
        rounds.grades[written + i] = rounds.relevance[start + row]
    return start, end, written


@kernel
def next_own(rounds: QueryRounds, n: int) -> Floats:
    """The learner's next n random numbers."""
    first = rounds.counts[OWN]
    rounds.counts[OWN] = first + n
    return rounds.own_draws[first : first + n]


@kernel
def write_history(rounds: QueryRounds, numbers: tuple[float, float, float, float, float], weights: Floats) -> None:
    """A row of the history: of the round that is written next, or of the end after the last one."""
    row = rounds.history[rounds.counts[ROUNDS]]
    row[FIRST_ROW], row[COUNT], row[REFUSED], row[LOG_PROPENSITY], row[EXPLORATION] = numbers
    for j in range(len(weights)):
        row[NUMBERS + j] = weights[j]


@kernel
def write_round(rounds: QueryRounds, ranking: Ints) -> None:
    """Write what was shown, to be judged later; the grades are there already."""
    counts = rounds.counts
    first = counts[WRITTEN]
    for position in range(len(ranking)):
        rounds.rankings[first + position] = ranking[position]
    counts[WRITTEN] = first + len(ranking)
    counts[ROUNDS] += 1
    rounds.ends[counts[ROUNDS]] = counts[WRITTEN]


@kernel
def _next_rows(rounds: QueryRounds) -> tuple[int, int]:
    """Where the rows of the next query begin and end."""
    query = int(rounds.draws[rounds.counts[DRAWN]] * (len(rounds.offsets) - 1))
    return rounds.offsets[query], rounds.offsets[query + 1]
