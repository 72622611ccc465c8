"""Records of the event log: the events that states are computed from, and the rows that are written with them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Union
from zlib import crc32

import msgspec
import numpy as np

from rankloop.adapter import Id
from rankloop.core.types import Floats
from rankloop.rules import Rules
from rankloop.service.request_bodies import CreateBody, ExperimentBody

IMPRESSION_BYTES, ITEM_BYTES = 1_600, 130  # memory of an impression, and of each item beside its features
Values = Mapping[str, Any]  # the values of an item or of the context, by field name


class Event(msgspec.Struct, tag_field="kind", array_like=False, omit_defaults=True):
    """The base of all events. The log encodes an event under the names of its attributes."""


class Created(Event, tag="created"):
    """A ranker was created; `start` is a saved session if it starts as a copy of another ranker or of a file."""

    body: CreateBody
    start: bytes = b""
    source: str = ""


class ExperimentCreated(Event, tag="experiment_created"):
    """An experiment was created."""

    body: ExperimentBody


class Ranked(Event, tag="ranked"):
    """An impression: the request, the learner's decision and the order that was shown."""

    impression: str
    ids: list[Id]
    features: bytes  # float64, one row per id
    order: list[int]  # indices into ids, best first
    query_id: str = ""
    context: list[float] = []
    candidates: list[int] | None = None  # indices of the items that the learner ranked; None: all
    decision: dict[str, Any] | None = None  # the learner's decision over the candidates
    mixed: dict[str, Any] | None = None  # the interleaved list of two rankings over the candidates
    trainable: bool = True
    log_propensity: float | None = None
    explored: float = 0.0  # distance from the predicted ranking, from 0 to 1
    state_number: int = 0
    generator_state: str = ""  # the state of the random generator after the decision
    values: bytes = b""  # with a schema: the values of items and context (`domain.named_values`), instead of features
    at: float = 0.0  # the time of the request; fields of kind date become ages relative to it
    schema: int = 0  # the version of the schema that encoded the request; 0: features are plain numbers
    user: str = ""
    session: str = ""
    tags: dict[str, str] = {}
    base_model: str = ""  # the name or hash of the model that computed the base score
    variant: str = ""  # of an A/B test: the variant that was shown, "a" or "b"
    ingested: bool = False  # another system showed this order; the decision is the one the learner would have made
    rules: dict[str, list[int]] = {}  # by rule the items that it has pinned, left out or moved
    reordered: bool = False  # rules may have changed the order, so that it is learned from like a shadow ranking

    @property
    def all_features(self) -> Floats:
        """One row of features per id, as a writable copy: kernels are compiled for writable arrays."""
        return np.array(np.frombuffer(self.features, dtype=np.float64).reshape(len(self.ids), -1))


class FeedbackReceived(Event, tag="feedback"):
    """Feedback on an impression; items are indices into the impression's ids."""

    impression: str
    feedback_kind: str
    items: list[int] = []
    values: list[float] = []
    final: bool = False


class OutcomesReceived(Event, tag="outcomes"):
    """Outcomes of an impression: what was added to each, and the weights by which that is learned."""

    impression: str
    values: dict[str, dict[int, float]]  # by outcome and item
    weights: dict[int, float] = {}  # by item, in clicks
    ranked: Ranked | None = None  # the impression, if it had closed; without features where nothing is learned


class Closed(Event, tag="closed"):
    """The feedback window of an impression ended."""

    impression: str


class Frozen(Event, tag="frozen"):
    """Learning stopped."""

    reason: str = ""


class Resumed(Event, tag="resumed"):
    """Learning started again."""


class RolledBack(Event, tag="rolled_back"):
    """The state was set back to the snapshot `to`; with `freezes`, learning stopped too."""

    to: int
    reason: str = ""
    freezes: bool = False


class Snapshotted(Event, tag="snapshotted"):
    """State `number`, reached after the event `state_seq`, had this digest; a replay must reproduce it."""

    number: int
    state_seq: int
    digest: str
    rankloop_version: str


class SchemaChanged(Event, tag="schema_changed"):
    """The schema of a ranker got its next version; of two concurrent changes only the first takes effect."""

    schema: dict[str, Any]


class RulesChanged(Event, tag="rules_changed"):
    """The rules of a ranker were replaced."""

    rules: Rules


class Rebased(Event, tag="rebased"):
    """Events were removed from the log, but the state learned from them was kept: a replay continues from it.

    Without a projection it only marks a state for rollback, like `Snapshotted`, and has its `state_seq`.
    """

    number: int
    session: bytes = b""  # a saved session; empty for an experiment
    rejected: int = 0
    projection: bytes = b""  # counts and flags at this event
    state_seq: int = 0


class Amended(Event, tag="amended"):
    """Earlier events were changed or removed, `events` of them."""

    events: int = 0


class WindowChanged(Event, tag="window_changed"):
    """The feedback window was changed to `window` seconds, also for open impressions."""

    window: float


class AliasSet(Event, tag="alias_set"):
    """An alias was pointed to a ranker; an empty name removes the alias."""

    ranker: str = ""


class Deleted(Event, tag="deleted"):
    """An entity was deleted; a new one may be created under its name."""


class CatalogueChanged(Event, tag="catalogue_changed"):
    """Rows of a catalogue by id: each replaces the row of its id, None deletes it."""

    rows: dict[str, dict[str, Any] | None]


encode = msgspec.msgpack.Encoder().encode
decode: Callable[[bytes], Event] = msgspec.msgpack.Decoder(Union[tuple(Event.__subclasses__())]).decode  # noqa: UP007


class Snapshot(NamedTuple):
    """A saved state; with the log after it, it is enough to continue."""

    entity: str
    number: int
    state_seq: int  # the last event that is in the state
    session: bytes  # a saved session
    projection: bytes  # counts and flags at that event
    rejected: int
    oldest_open: int  # every impression that was open was shown at this event or later


class LogRow(NamedTuple):
    """A row of the log: an encoded event, and the columns that are searched without decoding it."""

    entity: str
    kind: str  # the tag of the event; "final" for the last feedback on an impression
    impression: str | None
    body: bytes
    event: Event
    snapshot: Snapshot | None = None


Settle = Callable[[Any], Sequence[Event] | Event | str]


class LogEntry(NamedTuple):
    """A request to write an event of an entity, and perhaps a snapshot with it."""

    entity: str
    event: Event | None = None  # None if `settle` makes it
    body: bytes = b""  # the encoded event
    impression: str | None = None
    snapshot: Snapshot | None = None
    once: bool = False  # do not write it if the entity already has this impression
    settle: Settle | None = None  # called inside the transaction with the impression; returns events or a verdict
    unless_after: int | None = None  # do not write it if the entity changed after this event
    fence: tuple[int, int] | None = None  # of a learner worker: its partition and the number of its lease


class Record(NamedTuple):
    """An event that has been written."""

    seq: int
    entity: str  # as in "ranker/shop"; the others are experiments, catalogues and aliases
    at: float
    event: Event


def partition_of(entity: str, partitions: int) -> int:
    """Return the partition that an entity belongs to; one learner worker at a time learns a partition.

    Args:
      entity: As in `ranker/shop`; so are `experiment/…`, `catalogue/…` and `alias/…`.
      partitions: Of the store.
    """
    return crc32(entity.encode()) % partitions
