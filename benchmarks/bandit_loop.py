"""One loop for all sides that choose an item, see what it earns and learn: reward and time per round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import process_time
from typing import Any, NamedTuple, Protocol

from benchmarks.environment import installed
from benchmarks.measurement import Row, quality, row, timed
from rankloop import Problem, Query, Session, build
from rankloop.core.protocols import Stream
from rankloop.core.session import generators
from rankloop.core.types import Feedback, Floats

Rounds = list[tuple[Query, Floats]]
SEEDS = range(10, 15)  # not those that the settings were tried with


class Chooser(Protocol):
    """Whoever plays gets the rounds beforehand, in the form it likes; only what follows is timed."""

    def choose(self, t: int) -> int: ...
    def learn(self, t: int, item: int, reward: float) -> None: ...


class Ours:
    """A session of a rankloop learner, which shows its first item."""

    def __init__(self, spec: str, problem: Problem, answer: Callable[[int, float], Feedback]) -> None:
        self.spec, self.problem, self.answer = spec, problem, answer

    def __call__(self, rounds: Rounds, seed: int) -> Ours:
        self.queries = [query for query, _ in rounds]
        self.session = Session(build(self.spec, "learner"), self.problem._replace(shown=1), seed)
        return self

    def choose(self, t: int) -> int:
        self.decision = self.session.rank(self.queries[t])
        return int(self.decision.ranking[0])

    def learn(self, t: int, item: int, reward: float) -> None:
        self.session.learn(self.queries[t], self.decision, self.answer(item, reward))


class Side(NamedTuple):
    """Who plays, with which settings."""

    peer: str
    setting: str
    make: Callable[[Rounds, int], Chooser]


class Played(NamedTuple):
    """What a run earned and cost per round."""

    reward: float
    seconds: float


def compared(title: str, unit: str, stream: Stream, horizon: int, ours: Ours, sides: Sequence[Side]) -> Iterator[Row]:
    """A row for each peer; every seed is a stream that all sides meet alike."""
    drawn = {seed: drawn_rounds(stream, seed, horizon) for seed in SEEDS}
    blind = sum(float(relevance.mean()) for rounds in drawn.values() for _, relevance in rounds)
    by_chance = f"by chance {blind / horizon / len(drawn):.3f}"
    played(ours, drawn[SEEDS[0]][:100], 0)  # compiles
    for peer, setting, make in sides:
        if installed(peer):
            played(make, drawn[SEEDS[0]][:100], 0)  # imports
            both = [(played(ours, drawn[seed], seed), played(make, drawn[seed], seed)) for seed in SEEDS]
            judged = quality(unit, [mine.reward for mine, _ in both], [other.reward for _, other in both])
            times = timed([(mine.seconds, other.seconds) for mine, other in both])
            note = f"{ours.spec} beside {setting}; {by_chance}; {horizon:,} rounds, {len(SEEDS)} seeds"
            yield row(f"{title}, beside {peer}", times, peer=peer, judged=judged, note=note)


def drawn_rounds(stream: Any, seed: int, horizon: int) -> Rounds:
    return list(islice(stream.rounds(generators(seed)[0]), horizon))


def played(make: Callable[[Rounds, int], Chooser], rounds: Rounds, seed: int) -> Played:
    """All sides compute in one thread, so that CPU seconds say it, however busy the machine is."""
    chooser, total = make(rounds, seed), 0.0
    relevances = [relevance for _, relevance in rounds]
    start = process_time()
    for t, relevance in enumerate(relevances):
        item = chooser.choose(t)
        reward = float(relevance[item])
        chooser.learn(t, item, reward)
        total += reward
    return Played(total / len(rounds), (process_time() - start) / len(rounds))
