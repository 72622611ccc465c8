"""Whole runs over queries with features in compiled code: the very same rankings as `play` with the same seed."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import FeedbackModel, Stream
from rankloop.core.session import generators
from rankloop.core.types import Floats, whole_number
from rankloop.data.dataset import Dataset
from rankloop.data.streams.compiled_pool import ROUNDS, WRITTEN, Pool, pool_of, refill
from rankloop.data.streams.letor import Letor
from rankloop.feedback.full import Full
from rankloop.feedback.top_k import TopK
from rankloop.measures.base import RankedMeasure, parse_measure

CHUNK = 2**15  # numbers drawn at a time


@runtime_checkable
class LongQueryRunner(Protocol):
    """A learner that can play many rounds over a pool of queries in one call."""

    def init(self, problem: Any) -> Any: ...
    def many_queries(self, state: Any, pool: Pool) -> Any: ...


@runtime_checkable
class PooledStream(Protocol):
    """A stream that draws a data set and then shuffled queries from it."""

    def dataset(self, rng: Generator) -> Dataset: ...


class WholeQueries(NamedTuple):
    """The measure of every shown ranking (nan without a measure), and the state after the last round."""

    values: Floats
    state: Any


def whole_queries(
    learner: LongQueryRunner,
    stream: Stream,
    people: FeedbackModel,
    *,
    horizon: int,
    seed: int,
    measure: RankedMeasure | str | None = "nDCG@10",
) -> WholeQueries:
    """Play `horizon` rounds and judge each shown ranking; the same rankings as `play`, many times faster.

    For learners with `many_queries` (ranking_perceptron; topk_gradient with squared, kl or rank_svm), people who grade
    what they see (full, top_k), and streams over a drawn data set (separable, linear_gaussian, web_search, letor).
    """
    whole_number(horizon, "horizon", 0)
    whole_number(seed, "seed", 0)
    judge = None if measure is None else parse_measure(measure)
    if not isinstance(learner, LongQueryRunner) or not isinstance(stream, PooledStream):
        raise InvalidInput("a whole run needs a learner with many_queries and a stream with a data set: use play")
    if isinstance(stream, Letor) and stream.candidates is not None:
        raise InvalidInput("a whole run shows all items of a query: leave out candidates, or use play")
    if not isinstance(people, Full | TopK) or not isinstance(judge, RankedMeasure | None):
        raise InvalidInput("a whole run needs full or top_k people and a measure of the grades in shown order")
    of_stream, _, of_learner, _ = generators(seed)
    dataset = stream.dataset(of_stream)
    state = learner.init(stream.problem._replace(shown=people.shown, depth=people.depth))
    pool, values, done = pool_of(dataset, CHUNK, people.depth), np.full(horizon, np.nan), 0
    while done < horizon:
        refill(pool, of_stream, of_learner, horizon - done)
        state = learner.many_queries(state, pool)
        n_rounds, n_items = int(pool.counts[ROUNDS]), int(pool.counts[WRITTEN])
        if judge is not None:
            shown = pool.rankings[:n_items], pool.grades[:n_items], pool.ends[: n_rounds + 1]
            values[done : done + n_rounds] = judge.of_rankings(*shown)
        done += n_rounds
    return WholeQueries(values, state)
