"""Rollback: the states that a ranker can go back to, and the step before the current one."""

from collections.abc import Sequence
from typing import NamedTuple

from rankloop.core.errors import Conflict
from rankloop.service.records import Created, Record, RolledBack


class StateRow(NamedTuple):
    """A state that a rollback can restore; the state of a rollback is the `same_as` another one."""

    state: int
    seq: int  # the last event that is in it
    at: float
    same_as: int | None = None

    @property
    def origin(self) -> int:
        """The number under which the state was learned."""
        return self.state if self.same_as is None else self.same_as


class StateList:
    """The states of a ranker, the initial one first: by its changes and its snapshots."""

    def __init__(self, changes: Sequence[Record], snapshots: Sequence[tuple[int, int, float]]) -> None:
        first = next(record for record in changes if isinstance(record.event, Created))
        rollbacks = {record.seq: record.event.to for record in changes if isinstance(record.event, RolledBack)}
        rows = {0: StateRow(0, first.seq, first.at)}
        for number, seq, at in snapshots:
            to = rollbacks.get(seq)
            rows[number] = StateRow(number, seq, at, rows[to].origin if to in rows else to)
        self.rows = [rows[number] for number in sorted(rows)]

    def before(self, current: int) -> int:
        """Return the last state that was kept; if nothing was learned since, the one before: each step goes further.

        `current` is the number of the state that is served.
        """
        newest = self.rows[-1]
        if newest.state != current:
            return newest.origin
        # After a rollback, learning went on from an earlier state.
        earlier = [row for row in self.rows if row.state < newest.origin]
        if not earlier:
            raise Conflict("this ranker is at state 0, its initial state: there is no state before it")
        return earlier[-1].origin
