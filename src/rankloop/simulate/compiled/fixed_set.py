"""Whole runs in compiled code, for long horizons: the very same rankings as `play` with the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.protocols import FeedbackModel, Measure, Relevance, Stream
from rankloop.core.session import generators
from rankloop.core.types import Floats, Ints, Query, whole_number
from rankloop.feedback.full import Full
from rankloop.feedback.top_k import TopK
from rankloop.learners._shared.fixed_set import size_of_fixed_set
from rankloop.learners._shared.linear_measure import gain_for, gain_of, worth_of_positions
from rankloop.measures.base import parse_measure

CHUNK = 2**16  # numbers drawn at a time


@runtime_checkable
class LongRunner(Protocol):
    """A learner of a fixed set of items that can play many rounds in one call."""

    def init(self, problem: Any) -> Any: ...
    def doubles(self, n_items: int) -> int: ...
    def many_rounds(self, state: Any, relevance: Floats, draws: Floats) -> tuple[Any, Ints]: ...


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


def whole_run(
    learner: LongRunner,
    stream: Stream,
    people: FeedbackModel,
    *,
    horizon: int,
    seed: int,
    measure: Measure | str = "DCG",
    checkpoints: Sequence[int] = (),
) -> WholeRun:
    """Play `horizon` rounds and judge them by a linear measure (DCG, SumLoss, P@n) at the checkpoints and at the end.

    Shows the same rankings as `play` with the same seed, many times faster. For learners with `many_rounds` (ftpl,
    mirror_descent, rtopk, precision_bandit), people who grade what they see (full, top_k), and streams that do not
    look at the rankings.
    """
    if not isinstance(learner, LongRunner) or not isinstance(people, Full | TopK):
        raise InvalidInput("a whole run needs a learner with many_rounds, and full or top_k people")
    whole_number(horizon, "horizon", 1)
    whole_number(seed, "seed", 0)
    judge, ends = parse_measure(measure), _ends(checkpoints, horizon)
    problem = stream.problem._replace(shown=people.shown, depth=people.depth)
    n_items = size_of_fixed_set(problem)
    of_stream, _, of_learner, _ = generators(seed)
    rounds, doubles = stream.rounds(of_stream), learner.doubles(n_items)
    totals, worth, sign = np.zeros(n_items), worth_of_positions(judge, n_items), 1.0 if judge.higher_is_better else -1.0
    values, bests = np.empty(len(ends)), np.empty(len(ends))
    state, value, done = learner.init(problem), 0.0, 0
    for i, end in enumerate(ends):
        while done < end:
            size = min(int(end) - done, max(1, CHUNK // n_items))
            relevance = _next_grades(rounds, size, n_items)
            state, rankings = learner.many_rounds(state, relevance, of_learner.random((size, doubles)))
            value += _add_values(rankings, relevance, worth, *gain_for(judge), totals)
            done += size
        values[i], bests[i] = sign * value, sign * float(worth @ -np.sort(-totals))
    return WholeRun(ends, values, bests, judge.higher_is_better, state)


def _next_grades(rounds: Iterator[tuple[Query, Relevance]], size: int, n_items: int) -> Floats:
    """The grades of the next `size` rounds as one matrix, one row per round."""
    rows = [relevance for _, relevance in islice(rounds, size)]
    if callable(rows[0]):
        raise InvalidInput("a whole run cannot ask a stream that looks at the rankings: use play")
    return np.concatenate(rows).reshape(size, n_items)  # type: ignore[arg-type]


def _ends(checkpoints: Sequence[int], horizon: int) -> Ints:
    if horizon < 1 or any(not 1 <= point <= horizon for point in checkpoints):
        raise InvalidInput(f"horizon and checkpoints count rounds from 1 to the horizon, got {horizon}, {checkpoints}")
    return np.array(sorted({*checkpoints, horizon}), dtype=np.int64)
