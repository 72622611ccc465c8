"""The arrays of a logged impression."""

from __future__ import annotations

import numpy as np

from rankloop.core.types import Floats
from rankloop.service.events import Ranked


def features_of(ranked: Ranked) -> Floats:
    """One row per id, as the request gave them; a writable copy, for which kernels are compiled."""
    rows = np.frombuffer(ranked.features, dtype=np.float64).reshape(len(ranked.ids), -1)
    return np.array(rows)


def asked_features(ranked: Ranked) -> Floats:
    """The rows that the learner was asked to rank."""
    rows = features_of(ranked)
    return rows if ranked.asked is None else np.ascontiguousarray(rows[ranked.asked])


def context_of(ranked: Ranked) -> Floats:
    return np.array(ranked.context, dtype=np.float64)
