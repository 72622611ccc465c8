"""Requests and answers, as they travel: unknown fields are refused, so that a typing error is not silently ignored."""

from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from rankloop.adapter import MAX_ID_LENGTH, Id
from rankloop.core.errors import Rejected
from rankloop.core.types import Floats

Name = str
Value = Annotated[  # checked by the schema, which can say whose value and which field is wrong
    Any,
    msgspec.Meta(
        description="A text, a number, true or false, null for what is not known, or a list of them",
        extra_json_schema={"type": ["string", "number", "boolean", "null", "array"]},
    ),
]
MAX_TAGS, MAX_TAG_NAME = 16, 64  # per request; characters
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"


class Strict(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The base of every request."""


class ContextBody(Strict):
    """How a visitor's columns become numbers: one with values as 0/1 for each of them, one without as it is."""

    columns: list[str]
    values: list[list[str]]
    means: list[float]  # what a number that is not known counts as


class ProblemBody(Strict):
    """What is known before the first ranking; `items` names a fixed set."""

    n_features: int | None = None  # may be left out where `feature_names` say it
    items: list[Id] | None = None
    n_context: int = 0  # may be left out where `context` says it
    shown: int | None = None
    depth: int | None = None
    max_grade: int = 1
    feature_names: list[str] | None = None
    context: ContextBody | None = None
    schema: dict[str, Any] | None = None  # fields by kind: features, context, crosses, bits; instead of numbers
    catalogue: Name | None = None  # where the values of an item are that a request does not give; needs a schema


class BaseBody(Strict):
    """Today's ranker: the feature that holds its score, its weights, or a booster that computes it here."""

    feature: str | int | None = None
    weights: list[float] | None = None
    weight: float = 1.0  # how much today's score counts at the beginning; a larger one is left more slowly
    model: str | None = None  # the name or hash of what computes that feature; a request may name a newer one
    booster: bytes | None = None  # the file of LightGBM, XGBoost or `rankloop train --trees`, in base64


class CreateBody(Strict):
    """A ranker."""

    learner: dict[str, Any] | str
    problem: ProblemBody
    seed: int = 0
    window: float = 1800.0  # seconds in which the feedback of an impression may come
    default_feedback: Literal["none", "not_clicked"] = "none"  # when none has come by then
    snapshot_every: int = 1000  # updates
    base: BaseBody | None = None
    shadow: bool = False  # rank and learn, but show the base order
    evaluation_share: float = 0.0  # of the rankings, mixed with the base order to compare the two; not learned from
    guard: bool = False  # freeze and go back when that comparison is lost


class Item(Strict):
    """A candidate: features in order, or by name; where there is a schema, values by name of the kinds that it says."""

    id: Id
    features: list[float] | dict[str, Value] = []


class RankBody(Strict):
    """One request to rank."""

    items: list[Item] = []
    query_id: str = ""
    context: list[float] | dict[str, Value] = []  # numbers, or columns by name
    pinned: list[Id] = []  # these stand first, in this order
    excluded: list[Id] = []  # these are not shown
    ids: list[Id] = []  # items of which the catalogue knows all that is needed, after those of `items`
    user: str = ""  # who asks, and in which session: kept in the log, to be joined with or to be forgotten
    session: str = ""
    tags: dict[str, str] = {}  # whatever else the log should say of it, as in {"page": "home", "variant": "b"}
    base_model: str | None = None  # what computed the base score of the items; that of the ranker's base unless given
    order: list[Id] = []  # of a page that others have shown: all its items as they stood; it is taken in, not ranked


def check_tags(tags: dict[str, str]) -> None:
    """Few and short, since every ranking logs them: 16 of them, names of 64 characters, values like an id."""
    if len(tags) > MAX_TAGS:
        raise Rejected("tags", f"{len(tags)} tags, the limit is {MAX_TAGS}")
    for name, value in tags.items():
        if not 0 < len(name) <= MAX_TAG_NAME or len(value) > MAX_ID_LENGTH:
            limits = f"a name has 1 to {MAX_TAG_NAME} characters, a value at most {MAX_ID_LENGTH}"
            raise Rejected("tags", f"{name!r:.80}: {limits}")


class PackedRankBody(RankBody):
    """The same in MessagePack, where `features` may be the bytes of one array: a row for each of `ids`."""

    features: bytes = b""  # little end first, row by row
    dtype: Literal["float32", "float64"] = "float64"

    def rows(self, n_features: int) -> Floats:
        """The features of `ids`, one row each."""
        dtype = np.dtype(self.dtype).newbyteorder("<")
        wanted = len(self.ids) * n_features * dtype.itemsize
        if self.items or len(self.features) != wanted:
            told = f"{len(self.ids)} ids with {n_features} features as {self.dtype}, and no items, are {wanted} bytes"
            raise Rejected("features", f"{told}; got {len(self.features)} bytes and {len(self.items)} items")
        return np.frombuffer(self.features, dtype).astype(np.float64).reshape(-1, n_features)


class FeedbackBody(Strict):
    """What came back for an impression: one of four kinds."""

    impression: str
    clicks: list[Id] | dict[str, float] | None = None
    relevances: dict[str, float] | None = None
    preferred: list[Id] | None = None
    reward: float | None = None
    final: bool = False


class RankBatch(Strict):
    """Many requests to rank."""

    requests: list[RankBody]


class FeedbackBatch(Strict):
    """Feedback for many impressions."""

    feedback: list[FeedbackBody]


class SchemaBody(Strict):
    """What a live schema gets and what it loses: fields by kind, crosses; `remove` names fields or crosses."""

    features: dict[str, Any] = {}
    context: dict[str, Any] = {}
    crosses: list[str] = []
    remove: list[str] = []


class CatalogueBody(Strict):
    """Rows by id: each replaces that of its id, null takes it away."""

    rows: dict[str, dict[str, Value] | None]


class RollbackBody(Strict):
    """Which snapshot to go back to, by its state number; the newest when left out."""

    state: int | None = None


class ForgetBody(Strict):
    """Which impressions to forget: of a query, of a user, shown before a time (seconds since 1970)."""

    query_id: str | None = None
    user: str | None = None
    before: float | None = None


class RankerBody(Strict):
    """What of a live ranker can be changed: the seconds in which feedback may come."""

    window: float


class AliasBody(Strict):
    """The ranker that a name leads to."""

    ranker: Name


class CloneBody(Strict):
    """The name of the new ranker."""

    name: Name


class FreezeBody(Strict):
    """Why learning stops."""

    reason: str = ""


class SideBody(Strict):
    """One side of an experiment: a ranker, or fixed weights."""

    ranker: Name | None = None
    weights: list[float] | None = None


class ExperimentBody(Strict):
    """Two rankers whose predictions are shown as one list."""

    a: SideBody
    b: SideBody
    method: dict[str, Any] | str = "team_draft"
    seed: int = 0
    window: float = 1800.0


class RankResponse(msgspec.Struct):
    """What to show, best first."""

    impression: str
    ranking: list[Id]
    state: int
    log_propensity: float | None


class FeedbackResponse(msgspec.Struct):
    """What became of the feedback: taken, closed (the impression is), or repeated (it was there already)."""

    impression: str
    verdict: Literal["accepted", "closed", "repeated"]
    state: int
