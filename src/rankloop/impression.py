"""An impression: a ranking that was shown, whether in this process or by a service."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankloop.core.adapter import Id
from rankloop.core.errors import InvalidInput
from rankloop.core.plain import decision_from_plain, decision_to_plain
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

    def __post_init__(self) -> None:
        """Lists and tables, as JSON has them, become arrays, checked: they may come from anywhere."""
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
        return json.dumps(plain, allow_nan=False)

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


Shown = Impression  # its name in version 0.1
