"""Rounds of `play` that compiled code has played, many at a time: their parts are made when they are asked for."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from rankloop.core.protocols import AnyLearner, FeedbackModel, Stream
from rankloop.core.session import generators
from rankloop.core.types import Arrival, Decision, Feedback, Floats, Ints, Query
from rankloop.data.dataset import NO_CONTEXT, Dataset
from rankloop.learners._shared.compiled_rounds import (
    COUNT,
    FIRST_ROW,
    NUMBERS,
    REFUSED,
    WRITTEN,
    QueryRounds,
    query_rounds,
    refill,
)
from rankloop.simulate.compiled.whole_run import chunks
from rankloop.simulate.round import Round
from rankloop.simulate.streams.letor import Letor
from rankloop.simulate.streams.linear_gaussian import LinearGaussian
from rankloop.simulate.streams.separable import Separable
from rankloop.simulate.streams.web_search import WebSearch
from rankloop.simulate.users.graders import Full, TopK

CHUNK = 2**13  # numbers drawn at a time
PEOPLE, STREAMS = (Full, TopK), (LinearGaussian, Separable, WebSearch)  # people who draw nothing; shuffled data sets
UNUSED = np.random.default_rng(0)


def can_be_compiled(learner: AnyLearner, stream: Stream, people: FeedbackModel) -> bool:
    """Whether `compiled_rounds` plays exactly as these do: classes that derive from the known ones may not."""
    shuffles = type(stream) in STREAMS or (type(stream) is Letor and stream.candidates is None)
    own_kernel = "many_rounds" in vars(type(learner)) and learner.compiled is QueryRounds  # type: ignore[attr-defined]
    return shuffles and own_kernel and type(people) in PEOPLE


def compiled_rounds(
    learner: Any, stream: Any, people: FeedbackModel, state: Any, horizon: int, seed: int
) -> Iterator[Round]:
    """The rounds of `play`, from the whole-run kernel of the learner."""
    for played in played_chunks(learner, stream, people, state, horizon, seed):
        yield from played.rounds()


def played_chunks(
    learner: Any, stream: Any, people: FeedbackModel, state: Any, horizon: int, seed: int
) -> Iterator["Played"]:
    """The same rounds, many together: who asks each for its parts pays more for that than for playing it."""
    of_stream, _, of_learner, _ = generators(seed)
    dataset = stream.dataset(of_stream)
    empty, done, refused = query_rounds(dataset, CHUNK, people.depth, history=True), 0, 0
    draw = partial(refill, empty, of_stream, of_learner)
    for before, after, rounds in chunks(learner, state, draw, horizon):
        played = Played(learner, people, dataset, rounds, (before, after), done, refused)
        yield played
        done, refused = done + played.n_rounds, played.refused


class PlayedRound(Round):
    """A round of `Played`, which makes its parts."""

    __slots__ = ("__dict__", "_played", "_position")

    def __init__(self, t: int, played: "Played", position: int) -> None:
        self.t, self._played, self._position = t, played, position


class _Part:
    """A part of a `PlayedRound`: made when it is first asked for, then found in the dictionary of the round."""

    def __init__(self, name: str) -> None:
        self.name, self.make = name, getattr(Played, f"{name}_of")

    def __get__(self, round: Any, owner: type) -> Any:
        if round is None:
            return self
        part = round.__dict__[self.name] = self.make(round._played, round, round._position)
        return part


class Played:
    """The rounds of one call of `many_rounds`, from their history."""

    def __init__(
        self,
        learner: Any,
        people: FeedbackModel,
        dataset: Dataset,
        rounds: QueryRounds,
        states: tuple[Any, Any],
        first: int,
        refused: int,
    ) -> None:
        self.first, self.n_rounds, n_entries = first, rounds.n_rounds, int(rounds.counts[WRITTEN])
        self._learner, self._people, self._dataset, self._refused = learner, people, dataset, refused
        items = rounds.order, rounds.rankings, rounds.familiar
        self._order, self._rankings, self._familiar = (array[:n_entries].copy() for array in items)
        self._grades = rounds.grades[:n_entries].copy()
        self._depth = n_entries if people.depth is None else people.depth
        self._ends = rounds.ends[: self.n_rounds + 1].tolist()
        self._numbers = rounds.history[: self.n_rounds + 1, :NUMBERS].tolist()
        self._weights = rounds.history[: self.n_rounds + 1, NUMBERS:].copy()
        counts, positions = rounds.history[: self.n_rounds + 1, COUNT], np.arange(self.n_rounds + 1)
        changed = np.diff(counts, prepend=counts[0]) != 0.0
        self._last_change = np.maximum.accumulate(np.where(changed, positions, 0)).tolist()
        self._states: dict[int, Any] = {self._last_change[self.n_rounds]: states[1], 0: states[0]}

    def rounds(self) -> Iterator[Round]:
        """All of them; the number of the first one is `first`."""
        for position in range(self.n_rounds):
            yield PlayedRound(self.first + position, self, position)

    @property
    def shown(self) -> tuple[Ints, Floats, Ints]:
        """All rankings one after another, the grades in item order, and where each round begins and the last ends."""
        return self._rankings, self._grades, np.array(self._ends)

    @property
    def refused(self) -> int:
        """How many updates were, up to the last round."""
        return self._refused + int(self._numbers[-1][REFUSED])

    def query_of(self, round: Round, position: int) -> Query:
        features, _, offsets, names = self._dataset
        start = int(self._numbers[position][FIRST_ROW])
        rows = start + self._order[self._ends[position] : self._ends[position + 1]]
        return Query(names[int(np.searchsorted(offsets, start, "right")) - 1], features[rows], NO_CONTEXT)

    def relevance_of(self, round: Round, position: int) -> Floats:
        return self._grades[self._ends[position] : self._ends[position + 1]]

    def state_of(self, round: Round, position: int) -> Any:
        return self.state_before(position)

    def learned_of(self, round: Round, position: int) -> Any:
        return self.state_before(position + 1)

    def decision_of(self, round: Round, position: int) -> Decision[Any]:
        start, end = self._ends[position], self._ends[position + 1]
        familiar = self._familiar[start : min(end, start + self._depth)]
        shown, numbers = self._rankings[start:end], self._numbers[position]
        return self._learner.recorded_decision(shown, numbers, familiar)  # type: ignore[no-any-return]

    def feedback_of(self, round: Round, position: int) -> Feedback:
        return self._people.observe(round.decision.ranking, round.relevance, UNUSED)

    def arrived_of(self, round: Round, position: int) -> tuple[Arrival, ...]:
        return (Arrival(round.query, round.decision, round.feedback),)

    def refused_of(self, round: Round, position: int) -> int:
        return self._refused + int(self._numbers[position + 1][REFUSED])

    def state_before(self, position: int) -> Any:
        """The state before the round at `position`; rounds that change nothing share theirs."""
        position = self._last_change[position]
        if position not in self._states:
            count = int(self._numbers[position][COUNT])
            self._states[position] = type(self._states[0])(self._weights[position], count, *self._states[0][2:])
        return self._states[position]


for _name in ("query", "relevance", "state", "decision", "arrived", "learned", "feedback", "refused"):
    setattr(PlayedRound, _name, _Part(_name))
