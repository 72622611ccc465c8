"""What a `Ranker` showed, as plain data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.core.adapter import Id
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Query, finite_floats


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a `Ranker` showed: plain data that survives JSON, another process and a long wait."""

    items: list[Id]  # as they were given; item i is items[i]
    features: list[list[float]]
    context: list[float]
    query_id: str
    decision: dict[str, Any]
    missing: int  # features that were not given and counted as 0

    def __post_init__(self) -> None:
        for name in ("items", "features", "context"):
            if not isinstance(getattr(self, name), list):
                raise InvalidInput(f"{name} must be a list")

    @property
    def ids(self) -> list[Id]:
        """The items' ids, best first."""
        return [self.items[item] for item in self.decision["ranking"]]

    @property
    def log_propensity(self) -> float | None:
        """The log-probability with which this was shown; None where it has no closed form."""
        propensity: float | None = self.decision["log_propensity"]
        return propensity

    def query(self) -> Query:
        """What was asked, checked anew: these lines may come from anywhere."""
        empty = np.empty((len(self.features), 0))
        rows = finite_floats(self.features, 2, "features") if any(self.features) else empty
        if len(rows) != len(self.items):
            raise InvalidInput(f"there are {len(rows)} rows of features for {len(self.items)} shown items")
        return Query.of(rows, self.context, self.query_id)

    def to_json(self) -> str:
        """One line of JSON, from which `Shown.from_json` makes the same again."""
        return json.dumps(vars(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Shown:
        """What `to_json` wrote, in this process or another."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"this is not a shown ranking: {error}") from None
