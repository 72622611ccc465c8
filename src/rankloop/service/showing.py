"""What is shown beside the learner's own order, how far that lies from the best known, and what it is called."""

from __future__ import annotations

import hashlib
import secrets
import time

import numpy as np

from rankloop.core.rankings import discounts, ranking_of
from rankloop.core.types import Ints
from rankloop.service.asking import Asked
from rankloop.service.plan import Plan


def base_ranking(asked: Asked, plan: Plan) -> Ints:
    """Today's order."""
    return ranking_of(np.ascontiguousarray(asked.query.features[:, plan.base_column]))


def explored(ranking: Ints, predicted: Ints, shown: int | None) -> float:
    """The share of the seen places, weighted by their DCG discount, at which another than the predicted item stands."""
    seen = len(ranking) if shown is None else min(shown, len(ranking))
    weights = discounts(seen)
    return float(weights[ranking[:seen] != predicted[:seen]].sum() / weights.sum())


def new_impression(key: str | None) -> str:
    """A name for an impression that sorts by time; for a request with a key always the same one."""
    if key is not None:
        return f"k{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return f"{time.time_ns():016x}{secrets.token_hex(8)}"
