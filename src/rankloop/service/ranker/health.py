"""Is a ranker well? Numbers out of its counts and its state."""

import math
from typing import Any

from rankloop.core.learner import from_layers
from rankloop.service.log.projection import Counters
from rankloop.service.ranker.config import RankerConfig

MAX_WEIGHTS = 100


def health_of(counters: Counters, config: RankerConfig, state: Any, refused: int) -> dict[str, Any]:
    """Clicks, grades, exploration, drift, and what the learner itself finds worth watching."""
    return {
        "refused": refused,
        "exploration_cost": ratio(counters.explored, counters.explorable),
        "ctr": ratio(counters.clicked, counters.counted),
        "ctr_recent": counters.fast if counters.counted else None,
        "ctr_by_position": [clicked / shown for clicked, shown in zip(counters.clicked_at, counters.shown_at) if shown],
        "ndcg": ratio(counters.ndcg, counters.graded),
        "drift": counters.drift(),
        **_reports(config, state),
    }


def clicks_of(counters: Counters) -> dict[str, float | None]:
    """Where people click: how often on the first item, and at which position on average."""
    first = ratio(counters.clicked_at[0], counters.shown_at[0])
    return {"ctr_first": first, "click_position": counters.click_position()}


def weights_of(config: RankerConfig, state: Any, most: int = MAX_WEIGHTS) -> dict[str, float]:
    """The largest weights, by name, where the learner is linear in the features."""
    weights = from_layers(state, "weights", ())
    problem = config.problem
    if len(weights) != problem.n_features:
        return {}
    names = problem.feature_names or tuple(f"feature_{i}" for i in range(problem.n_features))
    largest = sorted(range(len(weights)), key=lambda i: -abs(float(weights[i])))[:most]
    return {names[i]: float(weights[i]) for i in largest}


def ratio(value: float, of: float) -> float | None:
    return value / of if of else None


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _reports(config: RankerConfig, state: Any) -> dict[str, Any]:
    """Affirmativeness, swap probability and the like."""
    found: dict[str, Any] = {}
    for path in config.learner.reports:
        value: Any = state
        for name in path.split("."):
            value = getattr(value, name, None)
        if value is not None and getattr(value, "ndim", 0) == 0:
            found[path.rsplit(".", 1)[-1]] = finite(float(value))
    if "swap" in found:
        found["swap_probability"] = found["swap"]
    return found
