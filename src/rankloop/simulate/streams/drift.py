"""Streams that change while the learner learns."""

from collections.abc import Iterator
from itertools import islice
from typing import ClassVar, Literal

from numpy.random import Generator

from rankloop.core.checks import PositiveCount
from rankloop.core.protocols import Relevance, Stream
from rankloop.core.registry import Examples, register
from rankloop.core.types import Problem, Query


@register("drift")
class Drift:
    """A stream whose queries or grades change at round `at`.

    Use it to measure how fast a learner adapts.

    Args:
      inner: The stream that changes.
      at: The round of the change, counted from 0.
      repeat: If true, there is a change every `at` rounds.
      change: "redraw" starts the inner stream again with fresh draws, so a synthetic one has other relevant items or
        hidden weights. "reverse" turns a grade g into max_grade − g, and back at the next change.
    """

    inner: Stream
    at: PositiveCount
    repeat: bool = False
    change: Literal["redraw", "reverse"] = "redraw"

    examples: ClassVar[Examples] = (
        {"inner": "linear_gaussian", "at": 20},
        {"inner": "flipped_relevance", "at": 20, "change": "reverse"},
    )

    @property
    def problem(self) -> Problem:
        return self.inner.problem

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Relevance]]:
        rounds, max_grade = self.inner.rounds(rng), self.problem.max_grade
        yield from islice(rounds, self.at)
        is_reversed = False
        while True:
            if self.change == "redraw":
                rounds = self.inner.rounds(rng)
            is_reversed = self.change == "reverse" and not is_reversed
            phase = islice(rounds, self.at) if self.repeat else rounds
            for query, relevance in phase:
                yield query, _reverse_grades(relevance, max_grade) if is_reversed else relevance


def _reverse_grades(relevance: Relevance, max_grade: int) -> Relevance:
    if callable(relevance):
        return lambda ranking: max_grade - relevance(ranking)
    return max_grade - relevance
