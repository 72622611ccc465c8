"""An impression: a ranking that was shown, by this process or by a service."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np

from rankloop.adapter import Id, RawValues
from rankloop.core.errors import InvalidInput
from rankloop.core.plain_values import decision_from_plain, decision_to_plain
from rankloop.core.types import Decision, Floats, Query, finite_floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Impression:
    """A shown ranking, as `Ranker.rank` and `Client.rank` return it: show its `ids`, hand it to `learn` later.

    It can be written to JSON and read by another process. One that comes from a service has no features and context,
    because the service keeps them.

    Examples:
      >>> from rankloop import Ranker
      >>> shown = Ranker("online_gradient", features=["size"]).rank({"a": {"size": 1}, "b": {"size": 2}})
      >>> shown.ids
      ['a', 'b']
      >>> Impression.from_json(shown.to_json()) == shown
      True
    """

    items: list[Id]  # in the order of the request; item i is items[i]
    decision: Decision[Any]
    features: Floats = field(default_factory=lambda: np.empty((0, 0)))
    context: Floats = field(default_factory=lambda: np.empty(0))
    query_id: str = ""
    missing: int = 0  # the number of missing feature values
    impression: str = ""  # its id in the log of a service
    state: int = 0  # the number of the state that ranked
    values: RawValues | None = None  # the raw values, where there is a schema
    encoded: Query | None = field(default=None, repr=False)  # the encoded values, in this process only

    def __post_init__(self) -> None:
        """Check lists and dicts that come from JSON, and convert them to arrays."""
        if self.values is not None and not isinstance(self.values, RawValues):
            object.__setattr__(self, "values", _raw_values(self.values))
        if self.encoded is not None and not isinstance(self.encoded, Query):
            raise InvalidInput("encoded cannot be set; it is computed from the values")
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
        """The item ids, best first."""
        return [self.items[item] for item in self.decision.ranking.tolist()]

    @property
    def ranking(self) -> list[Id]:
        """The item ids, best first; the name in the HTTP API."""
        return self.ids

    @property
    def log_propensity(self) -> float | None:
        """The log-probability with which this ranking was shown; None where it has no closed form."""
        value = float(self.decision.log_propensity)
        return value if np.isfinite(value) else None

    def query(self) -> Query:
        """Return the request as arrays.

        Raises:
          InvalidInput: If the request had raw values, which only its ranker can encode, or came from a service.
        """
        if self.values is not None:
            raise InvalidInput("this impression has raw values by name; only the ranker that made it can encode them")
        if len(self.features) != len(self.items):
            raise InvalidInput(f"there are {len(self.features)} rows of features for {len(self.items)} shown items")
        return Query(self.query_id, self.features, self.context)

    def to_json(self) -> str:
        """Return one line of JSON, which `Impression.from_json` reads."""
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
        """Read what `to_json` wrote; raise `InvalidInput` for anything else."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"this is not the JSON of an impression: {error}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Impression) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]


def plain_value(value: Any) -> Any:
    """Return a value as JSON can carry it: the `default` of `json.dumps`."""
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
    raise TypeError(f"{value!r:.60} cannot be written to JSON")


def _raw_values(plain: Any) -> RawValues:
    """Return raw values that `to_json` wrote, checked as far as the encoder does not check them."""
    try:
        values = RawValues(**plain)
        fits = isinstance(values.rows, list) and isinstance(values.context, dict)
        if fits and all(isinstance(row, dict) for row in values.rows) and type(values.schema) is int:
            return values._replace(at=float(values.at))
    except (TypeError, ValueError):
        pass
    raise InvalidInput("values must have rows, context, at and schema")
