"""One turn of the loop."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rankloop.core.types import Arrival, Decision, Feedback, Floats, Query


@dataclass(slots=True, eq=False)
class Round:
    """One turn of the loop.

    `feedback` is that of this round's own decision, whether or not it arrived; `refused` counts the updates so far that
    would have been unstable.
    """

    t: int
    query: Query
    relevance: Floats
    state: Any  # before
    decision: Decision[Any]
    arrived: tuple[Arrival, ...]
    learned: Any  # the state after
    feedback: Feedback
    refused: int

    def __iter__(self) -> Iterator[Any]:
        """t, query, relevance, state, decision, arrived, learned."""
        return iter((self.t, self.query, self.relevance, self.state, self.decision, self.arrived, self.learned))

    def __len__(self) -> int:
        return 7

    def __getitem__(self, position: int) -> Any:
        return tuple(self)[position]
