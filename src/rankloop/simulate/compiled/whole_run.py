"""Whole runs in compiled code, for long horizons: the very same rankings as `play` with the same seed."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.protocols import FeedbackModel, Measure, Relevance, Stream
from rankloop.core.session import generators
from rankloop.core.types import Floats, Ints, Query, whole_number
from rankloop.data.dataset import Dataset
from rankloop.learners._shared.compiled_rounds import (
    WRITTEN,
    ClickRounds,
    CompiledRun,
    FixedSetRounds,
    QueryRounds,
    click_rounds,
    query_rounds,
    refill,
    refill_clicks,
)
from rankloop.learners._shared.fixed_set import size_of_fixed_set
from rankloop.learners._shared.linear_measure import gain_for, gain_of, worth_of_positions
from rankloop.measures.base import RankedMeasure, parse_measure
from rankloop.simulate.streams.letor import Letor
from rankloop.simulate.users.click_behaviours import TopDownReader
from rankloop.simulate.users.graders import Full, TopK

FIXED_SET_CHUNK, QUERIES_CHUNK = 2**16, 2**15  # numbers drawn at a time
Rounds = TypeVar("Rounds", FixedSetRounds, QueryRounds, ClickRounds)


@runtime_checkable
class DatasetStream(Protocol):
    """A stream that draws a data set and then shuffled queries from it."""

    def dataset(self, rng: Generator) -> Dataset: ...


class WholeRun(NamedTuple):
    """Sums up to each checkpoint: of the shown rankings, and of the one ranking that was best up to there."""

    rounds: Ints
    value: Floats
    best: Floats
    higher_is_better: bool
    state: Any  # after the last round

    def regret(self, factor: float = 1.0) -> Floats:
        """How much was lost against `factor` times the best fixed ranking of the rounds up to each checkpoint."""
        lost = factor * self.best - self.value
        return lost if self.higher_is_better else -lost

    def average_regret(self, factor: float = 1.0) -> Floats:
        """Regret per round."""
        return self.regret(factor) / self.rounds


class WholeQueries(NamedTuple):
    """The measure of every shown ranking (nan without a measure), and the state after the last round."""

    values: Floats
    state: Any


def chunks(
    learner: CompiledRun, state: Any, draw: Callable[[int], Rounds], n_rounds: int
) -> Iterator[tuple[Any, Any, Rounds]]:
    """Draw rounds, at most so many as are wanted, and play them: the states before and after, and the rounds."""
    done = 0
    while done < n_rounds:
        rounds = draw(n_rounds - done)
        before, state = state, learner.many_rounds(state, rounds)
        done += rounds.n_rounds
        yield before, state, rounds


def whole_run(
    learner: CompiledRun,
    stream: Stream,
    people: FeedbackModel,
    *,
    horizon: int,
    seed: int,
    measure: Measure | str = "DCG",
    checkpoints: Sequence[int] = (),
) -> WholeRun:
    """Play `horizon` rounds and judge them by a linear measure (DCG, SumLoss, P@n) at the checkpoints and at the end.

    Shows the same rankings as `play` with the same seed, many times faster. For learners with `many_rounds` of a fixed
    set (ftpl, mirror_descent, rtopk, precision_bandit), people who grade what they see (full, top_k), and streams that
    do not look at the rankings.
    """
    if not _plays(learner, FixedSetRounds) or not isinstance(people, Full | TopK):
        raise InvalidInput("a whole run needs a learner with many_rounds of a fixed set, and full or top_k people")
    whole_number(horizon, "horizon", 1)
    whole_number(seed, "seed", 0)
    judge, ends = parse_measure(measure), _ends(checkpoints, horizon)
    problem = stream.problem._replace(shown=people.shown, depth=people.depth)
    n_items = size_of_fixed_set(problem)
    of_stream, _, of_learner, _ = generators(seed)
    draw = partial(_fixed_set_rounds, stream.rounds(of_stream), of_learner, n_items, learner.doubles(n_items))
    totals, worth, sign = np.zeros(n_items), worth_of_positions(judge, n_items), 1.0 if judge.higher_is_better else -1.0
    values, bests = np.empty(len(ends)), np.empty(len(ends))
    state, value, done = learner.init(problem), 0.0, 0
    for i, end in enumerate(ends):
        for _, after, rounds in chunks(learner, state, draw, int(end) - done):
            value += _add_values(rounds.rankings, rounds.relevance, worth, *gain_for(judge), totals)
            state = after
        values[i], bests[i], done = sign * value, sign * float(worth @ -np.sort(-totals)), int(end)
    return WholeRun(ends, values, bests, judge.higher_is_better, state)


def whole_queries(
    learner: CompiledRun,
    stream: Stream,
    people: FeedbackModel,
    *,
    horizon: int,
    seed: int,
    measure: RankedMeasure | str | None = "nDCG@10",
) -> WholeQueries:
    """Play `horizon` rounds and judge each shown ranking; the same rankings as `play`, many times faster.

    For streams over a drawn data set (separable, linear_gaussian, web_search, letor) and learners with `many_rounds`
    over queries: ranking_perceptron, online_gradient with list_net, random_order, and topk_gradient with squared, kl,
    rank_svm or smooth_dcg, with people who grade what they see (full, top_k); newton_pairs and fair_pairs with people
    who read from the top (cascade, dcm, sdbn).
    """
    whole_number(horizon, "horizon", 0)
    whole_number(seed, "seed", 0)
    judge = None if measure is None else parse_measure(measure)
    of_clicks = _plays(learner, ClickRounds)
    if not (of_clicks or _plays(learner, QueryRounds)) or not isinstance(stream, DatasetStream):
        raise InvalidInput(
            "a whole run needs a learner with many_rounds over queries (newton_pairs, fair_pairs; ranking_perceptron; "
            "topk_gradient with squared, kl, rank_svm or smooth_dcg; online_gradient with list_net; random_order) and "
            "a stream with a data set: use play"
        )
    if isinstance(stream, Letor) and stream.candidates is not None:
        raise InvalidInput("a whole run shows all items of a query: leave out candidates, or use play")
    if not (_reads_from_the_top(people) if of_clicks else isinstance(people, Full | TopK)):
        wanted = "cascade, dcm or sdbn" if of_clicks else "full or top_k"
        raise InvalidInput(f"a whole run of this learner needs {wanted} people")
    if not isinstance(judge, RankedMeasure | None):
        raise InvalidInput("a whole run needs a measure of the grades in shown order")
    draw = _draws(stream, people, seed, of_clicks)
    state = learner.init(stream.problem._replace(shown=people.shown, depth=people.depth))
    values, done = np.full(horizon, np.nan), 0
    for _, after, rounds in chunks(learner, state, draw, horizon):
        if judge is not None:
            values[done : done + rounds.n_rounds] = judge.of_rankings(*_shown(rounds.queries if of_clicks else rounds))
        state, done = after, done + rounds.n_rounds
    return WholeQueries(values, state)


def _draws(stream: DatasetStream, people: Any, seed: int, of_clicks: bool) -> Callable[[int], Any]:
    """What draws the next rounds, as many as are wanted at most."""
    of_stream, of_people, of_learner, _ = generators(seed)
    dataset = stream.dataset(of_stream)
    if of_clicks:
        return partial(refill_clicks, click_rounds(dataset, QUERIES_CHUNK, people), of_stream, of_people, of_learner)
    return partial(refill, query_rounds(dataset, QUERIES_CHUNK, people.depth), of_stream, of_learner)


def _shown(rounds: QueryRounds) -> tuple[Ints, Floats, Ints]:
    """The rankings of all rounds one after another, their grades, and where each round ends."""
    n_items = int(rounds.counts[WRITTEN])
    return rounds.rankings[:n_items], rounds.grades[:n_items], rounds.ends[: rounds.n_rounds + 1]


def _reads_from_the_top(people: FeedbackModel) -> bool:
    """Whether compiled code clicks exactly as these people: a class may have an `observe` of its own."""
    return type(people).observe is TopDownReader.observe


def _plays(learner: Any, rounds: type) -> bool:
    return isinstance(learner, CompiledRun) and learner.compiled is rounds


@kernel
def _add_values(rankings: Ints, relevance: Floats, worth: Floats, form: int, start: float, totals: Floats) -> float:
    """Add each item's gains to totals; returns Σ worth · gain of the shown rankings."""
    value = 0.0
    for t in range(len(rankings)):
        for position in range(len(worth)):
            item = rankings[t, position]
            gain = gain_of(relevance[t, item], form, start)
            totals[item] += gain
            value += worth[position] * gain
    return value


def _fixed_set_rounds(
    stream: Iterator[tuple[Query, Relevance]], of_learner: Generator, n_items: int, doubles: int, limit: int
) -> FixedSetRounds:
    """The next rounds of the stream: their grades as one matrix, and what the learner draws in them."""
    size = min(limit, max(1, FIXED_SET_CHUNK // n_items))
    rows = [relevance for _, relevance in islice(stream, size)]
    if callable(rows[0]):
        raise InvalidInput("a whole run cannot ask a stream that looks at the rankings: use play")
    relevance: Floats = np.concatenate(rows).reshape(size, n_items)  # type: ignore[arg-type]
    return FixedSetRounds(relevance, of_learner.random((size, doubles)), np.empty((size, n_items), np.int64))


def _ends(checkpoints: Sequence[int], horizon: int) -> Ints:
    if horizon < 1 or any(not 1 <= point <= horizon for point in checkpoints):
        raise InvalidInput(f"horizon and checkpoints count rounds from 1 to the horizon, got {horizon}, {checkpoints}")
    return np.array(sorted({*checkpoints, horizon}), dtype=np.int64)
