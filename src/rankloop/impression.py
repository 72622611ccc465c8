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
        """What `to_json` wrote, in this process or another, checked anew: these lines may come from anywhere."""
        try:
            plain = json.loads(text)
            for name in ("items", "features", "context"):
                if not isinstance(plain[name], list):
                    raise InvalidInput(f"{name} must be a list")
            rows = plain["features"]
            plain["features"] = finite_floats(rows, 2, "features") if any(rows) else np.empty((len(rows), 0))
            plain["context"] = finite_floats(plain["context"], 1, "context")
            plain["decision"] = decision_from_plain(plain["decision"])
            return cls(**plain)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"this is not a shown ranking: {error}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Impression) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]


Shown = Impression  # its name in version 0.1
