"""An impression: a ranking that was shown, whether in this process or by a service."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np

from rankloop.adapter import Id, RawValues
from rankloop.core.errors import InvalidInput
from rankloop.core.serialisation import decision_from_plain, decision_to_plain
from rankloop.core.types import Decision, Floats, Query, finite_floats

NOTHING = np.empty(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Impression:
    """What `Ranker.rank` and `Client.rank` return; it survives JSON, another process and a long wait.

    A service keeps features and context to itself: it knows the impression by its name.
    """

    items: list[Id]  # as they were given; item i is items[i]
    decision: Decision[Any]
    features: Floats = field(default_factory=lambda: np.empty((0, 0)))
    context: Floats = field(default_factory=lambda: NOTHING)
    query_id: str = ""
    missing: int = 0  # features that were not given and counted as 0
    impression: str = ""  # its name in the log of a service
    state: int = 0  # the number of the state that ranked
    values: RawValues | None = None  # where there is a schema: what was asked, in people's own values
    encoded: Query | None = field(default=None, repr=False)  # what the values become, while this process lives

    def __post_init__(self) -> None:
        """Lists and tables, as JSON has them, become arrays, checked: they may come from anywhere."""
        if self.values is not None and not isinstance(self.values, RawValues):
            object.__setattr__(self, "values", _raw_values(self.values))
        if self.encoded is not None and not isinstance(self.encoded, Query):
            raise InvalidInput("encoded is made from the values, and cannot be given")
        if isinstance(self.decision, Decision):
            return
        for name in ("items", "features", "context"):
            if not isinstance(getattr(self, name), list):
                raise InvalidInput(f"{name} must be a list")
        rows = np.empty((len(self.features), 0))
        rows = finite_floats(self.features, 2, "features") if any(self.features) else rows
        object.__setattr__(self, "features", rows)
        object.__setattr__(self, "context", finite_floats(self.context, 1, "context"))
        object.__setattr__(self, "decision", decision_from_plain(self.decision))

    @property
    def ids(self) -> list[Id]:
        """The items' ids, best first."""
        return [self.items[item] for item in self.decision.ranking.tolist()]

    @property
    def ranking(self) -> list[Id]:
        """The same as `ids`, as the service calls it."""
        return self.ids

    @property
    def log_propensity(self) -> float | None:
        """The log-probability with which this was shown; None where it has no closed form."""
        known = np.isfinite(self.decision.log_propensity)
        return float(self.decision.log_propensity) if known else None

    def query(self) -> Query:
        """What was asked."""
        if self.values is not None:
            raise InvalidInput("this was asked in values by name: the ranker that made it can encode them")
        if len(self.features) != len(self.items):
            raise InvalidInput(f"there are {len(self.features)} rows of features for {len(self.items)} shown items")
        return Query(self.query_id, self.features, self.context)

    def to_json(self) -> str:
        """One line of JSON, from which `Impression.from_json` makes the same again."""
        plain = {
            "items": self.items,
            "features": self.features.tolist(),
            "context": self.context.tolist(),
            "query_id": self.query_id,
            "decision": decision_to_plain(self.decision),
            "missing": self.missing,
        }
        plain |= {"impression": self.impression, "state": self.state} if self.impression else {}
        plain |= {"values": self.values._asdict()} if self.values is not None else {}
        return json.dumps(plain, allow_nan=False, default=plain_value)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Impression":
        """What `to_json` wrote, in this process or another."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"this is not a shown ranking: {error}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Impression) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]


def plain_value(value: Any) -> Any:
    """A value as JSON can carry it, which means the same."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r:.60} cannot be written down")


def _raw_values(plain: Any) -> RawValues:
    """What `to_json` wrote, checked as far as the encoder does not."""
    try:
        values = RawValues(**plain)
        fits = isinstance(values.rows, list) and isinstance(values.context, dict)
        if fits and all(isinstance(row, dict) for row in values.rows) and type(values.schema) is int:
            return values._replace(at=float(values.at))
    except (TypeError, ValueError):
        pass
    raise InvalidInput("values are rows, a context, at and the version of the schema")
