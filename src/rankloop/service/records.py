"""Records: the events that a state depends on, as the log keeps them, and what is written with them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import numpy as np

from rankloop.adapter import Id
from rankloop.core.types import Floats
from rankloop.service.requests import CreateBody, ExperimentBody

Values = Mapping[str, Any]  # of an item or a visitor, by name


class Event(msgspec.Struct, tag_field="kind", array_like=False, omit_defaults=True):
    """The base of every event; `at` is a wall clock, for people: nothing is computed from it in a replay."""


class Created(Event, tag="created"):
    """A ranker begins; `start` is a saved session when it begins as a copy of another."""

    body: CreateBody
    start: bytes = b""
    source: str = ""


class ComparisonCreated(Event, tag="experiment"):
    """A comparison begins."""

    body: ExperimentBody


class Ranked(Event, tag="ranked"):
    """An impression: what was asked, decided and shown, and where the generator stood after it."""

    impression: str
    ids: list[Id]
    features: bytes  # float64, one row per id
    order: list[int] = msgspec.field(name="shown")  # indices into ids, best first
    query_id: str = ""
    context: list[float] = []
    candidates: list[int] | None = msgspec.field(default=None, name="asked")  # what the learner ranked; None: all ids
    decision: dict[str, Any] | None = None  # of the learner, over the candidates
    mixed: dict[str, Any] | None = None  # of a comparison, over the candidates
    trainable: bool = msgspec.field(default=True, name="teaches")
    log_propensity: float | None = None
    explored: float = 0.0  # how far from the predicted ranking, 0 … 1
    state_number: int = msgspec.field(default=0, name="state")
    generator: str = msgspec.field(default="", name="position")  # where it stood after the decision
    values: bytes = b""  # where there is a schema, what was given by name (`domain.named_values`) instead of features
    at: float = 0.0  # when it was asked: dates became ages by it
    schema: int = 0  # the version by which it was encoded; 0: features are plain numbers
    catalogue: int = 0  # the event after which the rest of the values was read from the ranker's catalogue
    user: str = ""
    session: str = ""
    tags: dict[str, str] = {}
    base_model: str = ""  # the name or hash of what computed the base score; the score itself is among the features
    elsewhere: bool = False  # others showed it in this order; the decision is what the learner would have done

    @property
    def all_features(self) -> Floats:
        """One row per id, as the request gave them; a writable copy, for which kernels are compiled."""
        return np.array(np.frombuffer(self.features, dtype=np.float64).reshape(len(self.ids), -1))


class FeedbackReceived(Event, tag="fed"):
    """Feedback: items are indices into the impression's ids."""

    impression: str
    kind: str = msgspec.field(name="what")
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
    code: str  # the version of rankloop that learned it


class Evolved(Event, tag="evolved"):
    """The schema of a ranker becomes its next version; one that another was quicker to make does not count."""

    schema: dict[str, Any]


class Rebased(Event, tag="rebased"):
    """What was learned up to here stands, though events that it was learned from are gone: a replay goes on from it.

    Without a projection it is only a state that can be gone back to, as after `Snapshotted`.
    """

    number: int
    session: bytes = b""  # a saved session; empty where nothing is learned
    rejected: int = 0
    projection: bytes = b""  # counts and flags at this event


class Amended(Event, tag="amended"):
    """The past was changed: so many events are other than they were, or gone."""

    events: int = 0


class Windowed(Event, tag="windowed"):
    """The window of feedback becomes another, also for what is open."""

    window: float


class AliasSet(Event, tag="alias"):
    """A name leads to a ranker from now on; to none where it is empty."""

    ranker: str = ""


class Deleted(Event, tag="deleted"):
    """An entity ends: what stood before is gone; another of its name may begin."""


class CatalogueChanged(Event, tag="catalogue"):
    """Rows of a catalogue by id: each replaces that of its id, None takes it away."""

    rows: dict[str, dict[str, Any] | None]


AnyEvent = (
    Created
    | ComparisonCreated
    | Ranked
    | FeedbackReceived
    | Closed
    | Frozen
    | Resumed
    | RolledBack
    | Snapshotted
    | Evolved
    | CatalogueChanged
    | Rebased
    | Deleted
    | Amended
    | Windowed
    | AliasSet
)

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(AnyEvent).decode


class Snapshot(NamedTuple):
    """A state at rest: enough, with the log after it, to go on."""

    entity: str
    number: int
    state_seq: int  # the last event that is in the state
    session: bytes  # a saved session
    projection: bytes  # counts and flags at that event
    rejected: int
    oldest_open: int  # impressions that were open began here or later


class ArchiveFile(NamedTuple):
    """A file that holds events of an entity in place of the database."""

    name: str
    first: int  # its events lie between these two
    last: int
    events: int
    digest: str  # SHA-256 of the file


class LogRow(NamedTuple):
    """What goes into the log: an event, encoded, and what is looked for without its body."""

    entity: str
    kind: str  # the tag of the event; "final" for the last feedback on an impression
    impression: str | None
    body: bytes
    snapshot: Snapshot | None = None


Settle = Callable[[Any], AnyEvent | str]


class LogEntry(NamedTuple):
    """What is to be written: an event of an entity, and perhaps a snapshot with it."""

    entity: str
    event: AnyEvent | None  # None where `settle` makes it
    body: bytes  # the event, encoded
    impression: str | None = None
    snapshot: Snapshot | None = None
    once: bool = False  # not written where its entity has this impression already
    settle: Settle | None = None  # the event, or a verdict without one, out of the impression as it is when written
    unless_after: int | None = None  # not written where the entity has changed after this event
    fence: tuple[int, int] | None = None  # of a learner: its partition and the number of its lease


class Record(NamedTuple):
    """What has been written."""

    seq: int
    entity: str
    at: float
    event: AnyEvent


def ranker_entity(name: str) -> str:
    return f"ranker/{name}"


def comparison_entity(name: str) -> str:
    return f"experiment/{name}"


def catalogue_entity(name: str) -> str:
    return f"catalogue/{name}"


def alias_entity(name: str) -> str:
    return f"alias/{name}"


def partition_of(entity: str, partitions: int) -> int:
    """Which of so many partitions an entity belongs to: each is learned by one process at a time."""
    return crc32(entity.encode()) % partitions
