"""Is a ranker well? Numbers out of its counts and its state."""

from __future__ import annotations

import math
from typing import Any

from rankloop.learners.base import from_layers
from rankloop.service.log.counters import Tally
from rankloop.service.ranker.config import Plan

MAX_WEIGHTS = 100


def health_of(tally: Tally, plan: Plan, state: Any, refused: int) -> dict[str, Any]:
    """Clicks, grades, exploration, drift, and what the learner itself finds worth watching."""
    return {
        "refused": refused,
        "exploration_cost": ratio(tally.explored, tally.explorable),
        "ctr": ratio(tally.clicked, tally.counted),
        "ctr_recent": tally.fast if tally.counted else None,
        "ctr_by_position": [clicked / shown for clicked, shown in zip(tally.clicked_at, tally.shown_at) if shown],
        "ndcg": ratio(tally.ndcg, tally.graded),
        "drift": tally.drift(),
        **_reports(plan, state),
    }


def weights_of(plan: Plan, state: Any, most: int = MAX_WEIGHTS) -> dict[str, float]:
    """The largest weights, by name, where the learner is linear in the features."""
    weights = from_layers(state, "weights", ())
    problem = plan.problem
    if len(weights) != problem.n_features:
        return {}
    names = problem.feature_names or tuple(f"feature_{i}" for i in range(problem.n_features))
    largest = sorted(range(len(weights)), key=lambda i: -abs(float(weights[i])))[:most]
    return {names[i]: float(weights[i]) for i in largest}


def ratio(value: float, of: float) -> float | None:
    return value / of if of else None


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _reports(plan: Plan, state: Any) -> dict[str, Any]:
    """Affirmativeness, swap probability and the like."""
    found: dict[str, Any] = {}
    for path in plan.learner.reports:
        value: Any = state
        for name in path.split("."):
            value = getattr(value, name, None)
        if value is not None and getattr(value, "ndim", 0) == 0:
            found[path.rsplit(".", 1)[-1]] = finite(float(value))
    if "swap" in found:
        found["swap_probability"] = found["swap"]
    return found
