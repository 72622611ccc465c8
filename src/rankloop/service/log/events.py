"""The log: everything that a state depends on, in the order in which it counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from rankloop.core.errors import InvalidInput
from rankloop.service.requests import CreateBody, ExperimentBody, Id


class Event(msgspec.Struct, tag_field="kind", array_like=False, omit_defaults=True):
    """The base of every event; `at` is a wall clock, for people: nothing is computed from it in a replay."""


class Created(Event, tag="created"):
    """A ranker begins; `start` is a saved session when it begins as a copy of another."""

    body: CreateBody
    start: bytes = b""
    source: str = ""


class Experiment(Event, tag="experiment"):
    """An experiment begins."""

    body: ExperimentBody


class Ranked(Event, tag="ranked"):
    """An impression: what was asked, decided and shown, and where the generator stood after it."""

    impression: str
    ids: list[Id]
    features: bytes  # float64, one row per id
    shown: list[int]  # indices into ids, best first
    query_id: str = ""
    context: list[float] = []
    asked: list[int] | None = None  # the ids that the learner was asked to rank; None: all
    decision: dict[str, Any] | None = None  # of the learner, over the asked
    mixed: dict[str, Any] | None = None  # of a comparison, over the asked
    teaches: bool = True
    log_propensity: float | None = None
    explored: float = 0.0  # how far from the predicted ranking, 0 … 1
    state: int = 0
    position: str = ""  # of the generator, after the decision
    slot: int = 0  # which of several workers drew


class Fed(Event, tag="fed"):
    """Feedback: items are indices into the impression's ids."""

    impression: str
    what: str
    items: list[int] = []
    values: list[float] = []
    final: bool = False


class Closed(Event, tag="closed"):
    """The window of an impression closes."""

    impression: str


class Frozen(Event, tag="frozen"):
    """Learning stops."""

    reason: str = ""


class Resumed(Event, tag="resumed"):
    """Learning goes on."""


class RolledBack(Event, tag="rolled_back"):
    """The state becomes that of an earlier snapshot; where the guard says so, learning stops with it."""

    to: int
    reason: str = ""
    freezes: bool = False


class Snapshotted(Event, tag="snapshotted"):
    """State `number`, reached after the event `state_seq`, has this digest: what a replay has to arrive at."""

    number: int
    state_seq: int
    digest: str


AnyEvent = Created | Experiment | Ranked | Fed | Closed | Frozen | Resumed | RolledBack | Snapshotted

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(AnyEvent).decode


class Snapshot(NamedTuple):
    """A state at rest: enough, with the log after it, to go on."""

    stream: str
    number: int
    state_seq: int  # the last event that is in the state
    session: bytes  # a saved session
    view: bytes  # counts and flags at that event
    unfit: int
    oldest_open: int  # impressions that were open began here or later


class Entry(NamedTuple):
    """What is to be written: an event of a stream, and perhaps a snapshot with it."""

    stream: str
    event: AnyEvent
    body: bytes  # the event, encoded
    impression: str | None = None
    snapshot: Snapshot | None = None


class Record(NamedTuple):
    """What has been written."""

    seq: int
    stream: str
    at: float
    event: AnyEvent


def entry_of(stream: str, event: AnyEvent, snapshot: Snapshot | None = None) -> Entry:
    """Encoded by whoever asks: what cannot be written fails alone, and not with all that is written in its batch."""
    try:
        body = encode(event)
    except (msgspec.MsgspecError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InvalidInput(f"this cannot be written to the log: {error}") from None
    return Entry(stream, event, body, getattr(event, "impression", None), snapshot)


def ranker_stream(name: str) -> str:
    return f"ranker/{name}"


def experiment_stream(name: str) -> str:
    return f"experiment/{name}"
