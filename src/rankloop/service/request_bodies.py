"""Request and response bodies. Unknown fields are refused, so that a misspelt name is not silently ignored."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rankloop.adapter import MAX_ID_LENGTH, Id
from rankloop.outcomes import DEFAULT_MAX_CLICK_WEIGHT, DEFAULT_WINDOW

Value = Annotated[  # checked by the ranker's schema, whose errors name the item and the field
    Any,
    Meta(
        description="A text, a number, true, false, null if it is unknown, or a list of these",
        extra_json_schema={"type": ["string", "number", "boolean", "null", "array"]},
    ),
]
MAX_SIZE = 10_000  # of a problem
MAX_WINDOW_SECONDS = 30 * 86_400.0
Text = Annotated[str, Meta(max_length=MAX_ID_LENGTH)]
Name = Annotated[str, Meta(min_length=1, max_length=128)]  # of a field
Size = Annotated[int, Meta(ge=0, le=MAX_SIZE)]
Depth = Annotated[int, Meta(ge=1, le=MAX_SIZE)]
Grade = Annotated[int, Meta(ge=0, le=1_000)]  # a sum of larger powers of 2 may overflow
ClickWeight = Annotated[float, Meta(gt=0, le=1e6)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Share = Annotated[float, Meta(ge=0, le=1)]
WindowSeconds = Annotated[float, Meta(gt=0, le=MAX_WINDOW_SECONDS)]
TagName = Annotated[str, Meta(min_length=1, max_length=64)]
Tags = Annotated[dict[TagName, Text], Meta(max_length=16)]  # few and short: every ranking logs them
PlainValue = str | int | float | bool | None
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"


class Strict(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The base of all request bodies."""


class ContextBody(Strict):
    """The columns of the context: a column with values becomes one 0/1 number per value, one without is a number."""

    columns: list[str]
    values: list[list[str]]
    means: list[float]  # replace unknown numbers


class ProblemBody(Strict):
    """The problem of a ranker; `items` are its fixed set of items, if it has one."""

    n_features: Size | None = None  # not needed with `feature_names`
    items: list[Id] | None = None
    n_context: Size = 0  # not needed with `context`
    shown: Depth | None = None
    depth: Depth | None = None
    max_grade: Grade = 1
    feature_names: Annotated[list[str], Meta(max_length=MAX_SIZE)] | None = None
    context: ContextBody | None = None
    schema: dict[str, Any] | None = None  # features and context by kind, crosses, bits; instead of n_features
    catalogue: str | None = None  # holds item values that requests need not send; needs a schema


class BaseBody(Strict):
    """The existing ranker: the feature that holds its score, weights, a booster, or the order of the request."""

    feature: str | int | None = None
    weights: list[float] | None = None
    weight: Annotated[float, Meta(ge=0)] = 1.0  # the initial one of the base score; 0: the base is only compared with
    model: str | None = None  # the name or hash of the model that computes the feature; a request may name a newer one
    booster: bytes | None = None  # a file of LightGBM or `rankloop train --trees`, in base64
    kind: Literal["given_order"] | None = None  # requests have the items in the existing order


class OutcomeBody(Strict):
    """An outcome beside clicks, such as a purchase or revenue."""

    weight: float = 1.0  # clicks that one of it counts as; 0: it is reported, not learned from
    window: float | str = DEFAULT_WINDOW  # after a ranking, in which it is accepted: seconds, or as in 12h or 7d


class CreateBody(Strict):
    """Create a ranker."""

    learner: dict[str, Any] | str
    problem: ProblemBody
    seed: Seed = 0
    window: WindowSeconds = 1800.0  # seconds after a ranking in which feedback is accepted
    default_feedback: Literal["none", "not_clicked"] = "none"  # if no feedback came in the window
    snapshot_every: Annotated[int, Meta(ge=1, le=10**9)] = 100  # updates; older snapshots are thinned
    max_click_weight: ClickWeight = DEFAULT_MAX_CLICK_WEIGHT  # of a click; a heavier outcome counts as much
    outcomes: dict[str, OutcomeBody] = {}  # by name, as in {"purchase": {"weight": 20, "window": "7d"}}
    base: BaseBody | None = None
    shadow: bool = False  # rank and learn, but show the base order
    evaluation_share: Share = 0.0  # share of rankings that are interleaved with the base order, and not learned from
    guard: bool = False  # freeze and roll back if the ranker loses that comparison


class Item(Strict):
    """A candidate: features in order or by name; with a schema, values by name."""

    id: Id
    features: list[float] | dict[str, Value] = []


class RankBody(Strict):
    """Rank items."""

    items: list[Item] = []
    query_id: Text = ""
    context: list[float] | dict[str, Value] = []  # numbers, or values by column name
    pinned: list[Id] = []  # shown first, in this order
    excluded: list[Id] = []  # not shown
    ids: list[Id] = []  # items whose values are all in the catalogue, in addition to `items`
    user: Text = ""  # the user and the session are kept in the log, for joins and for erasing a user
    session: Text = ""
    tags: Tags = {}  # further labels for the log, as in {"page": "home", "variant": "b"}
    base_model: str | None = None  # the model that computed the base score; that of the ranker unless given
    order: list[Id] = []  # all items of a page that another system has shown, in its order: logged, not ranked


class FeedbackBody(Strict):
    """Feedback on an impression: one of clicks, relevances, preferred and reward; outcomes with it or alone.

    `final` closes the impression; outcomes are accepted until their own windows end.
    """

    impression: str
    clicks: list[Id] | dict[str, float] | None = None
    relevances: dict[str, float] | None = None
    preferred: list[Id] | None = None
    reward: float | None = None
    outcomes: dict[str, dict[str, float]] | None = None  # totals so far, as in {"purchase": {"b": 1}}
    final: bool = False


class RankBatch(Strict):
    """A batch of requests to rank."""

    requests: list[RankBody]


class FeedbackBatch(Strict):
    """Feedback for many impressions."""

    feedback: list[FeedbackBody]


class SchemaBody(Strict):
    """Add fields and crosses to a schema; `remove` names fields or crosses to remove."""

    features: dict[str, Any] = {}
    context: dict[str, Any] = {}
    crosses: list[str] = []
    remove: list[str] = []


class CatalogueBody(Strict):
    """Rows of a catalogue by id: each replaces the row of its id, null deletes it."""

    rows: dict[
        Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH)],
        Annotated[dict[Name, PlainValue | list[PlainValue]], Meta(max_length=1_000)] | None,
    ]


class RollbackBody(Strict):
    """Roll back to a state, by its number; one step back if it is left out. A preview changes nothing."""

    state: int | None = None
    preview: bool = False


class ForgetBody(Strict):
    """Delete impressions: of a query, of a user, or shown before a time (seconds since 1970)."""

    query_id: str | None = None
    user: str | None = None
    shown_before: float | None = None


class RankerChangeBody(Strict):
    """Change the feedback window of a ranker, in seconds."""

    window: WindowSeconds


class AliasBody(Strict):
    """Point an alias to a ranker."""

    ranker: str


class CloneBody(Strict):
    """Clone a ranker under a new name."""

    name: str


class FreezeBody(Strict):
    """Stop learning, with a reason for the report."""

    reason: str = ""


class VariantBody(Strict):
    """One variant of an experiment: a ranker, fixed weights, or the items in the order of the request."""

    ranker: str | None = None
    weights: list[float] | None = None
    kind: Literal["given_order"] | None = None


class ExperimentBody(Strict):
    """Create an experiment: one list of both variants for everybody, or one variant for each user (an A/B test)."""

    a: VariantBody  # the new one, in an A/B test
    b: VariantBody
    method: Literal["interleaving", "split"] = "interleaving"
    interleaving: dict[str, Any] | str = "team_draft"
    guardrails: dict[str, Share] = {}  # of an A/B test: how much of clicks or an outcome a may lose, as in 0.02
    seed: Seed = 0
    window: WindowSeconds = 1800.0
    outcomes: dict[str, OutcomeBody] = {}  # those of its rankers, unless given


class RankResponse(msgspec.Struct):
    """The order to show, best first."""

    impression: str
    ranking: list[Id]
    state: int
    log_propensity: float | None


class FeedbackResponse(msgspec.Struct):
    """The verdict on feedback: accepted, closed (accepted, and it closed the impression), or repeated (a duplicate)."""

    impression: str
    verdict: Literal["accepted", "closed", "repeated"]
    state: int
