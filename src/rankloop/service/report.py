"""What `GET /rankers/{name}` says; the page and the event stream say the same."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rankloop.service.experiments import LiveExperiment
from rankloop.service.live import Live
from rankloop.service.service import Service
from rankloop.service.tally import Tally

MOST_WEIGHTS = 100


def ranker_report(service: Service, name: str) -> dict[str, Any]:
    """Spec, state, counts and health of a ranker."""
    live = service.ranker(name)
    tally, published = live.view.tally, live.published
    return {
        "name": name,
        "spec": whole(live.plan.body),
        "state": published.number,
        "frozen": live.view.frozen,
        "reason": live.view.reason,
        "counts": {
            "impressions": tally.impressions,
            "open": len(live.view.open),
            "closed": tally.closed,
            "with_feedback": tally.with_feedback,
            "defaulted": tally.defaulted,
            "unlearned": tally.unlearned,
            "evaluated": tally.evaluated,
            "learned": published.learned,
            "unfit": published.unfit,
            "late": service.hearing.late.get(live.stream, 0),
            "unknown": service.hearing.unknown.get(live.stream, 0),
        },
        "health": {
            "refused": published.refused,
            "exploration_cost": ratio(tally.explored, tally.explorable),
            "ctr": ratio(tally.clicked, tally.counted),
            "ctr_recent": tally.fast if tally.counted else None,
            "ctr_by_position": _by_position(tally),
            "ndcg": ratio(tally.ndcg, tally.graded),
            "drift": tally.drift(),
            **_reports(live),
        },
        "comparison": comparison_report(tally),
        "weights": weights_of(live),
    }


def experiment_report(live: LiveExperiment, name: str) -> dict[str, Any]:
    """Wins, ties and losses of side a, and whether they can be chance."""
    tally = live.view.tally
    return {
        "name": name,
        "spec": whole(live.event.body),
        "impressions": tally.impressions,
        "open": len(live.view.open),
        **comparison_report(tally),
    }


def comparison_report(tally: Tally) -> dict[str, Any]:
    comparison = tally.comparison
    return {
        "wins": comparison.wins,
        "ties": comparison.ties,
        "losses": comparison.losses,
        "win_ratio": finite(comparison.win_ratio),
        "p_value": comparison.p_value,
    }


def weights_of(live: Live) -> dict[str, float]:
    """The largest weights, by name, where the learner is linear in the features."""
    state = live.published.state
    while not hasattr(state, "weights") and hasattr(state, "inner"):
        state = state.inner
    weights = getattr(state, "weights", ())
    problem = live.plan.problem
    if len(weights) != problem.n_features:
        return {}
    names = problem.feature_names or tuple(f"feature_{i}" for i in range(problem.n_features))
    largest = sorted(range(len(weights)), key=lambda i: -abs(float(weights[i])))[:MOST_WEIGHTS]
    return {names[i]: float(weights[i]) for i in largest}


def whole(body: msgspec.Struct) -> dict[str, Any]:
    """A body with its defaults written out."""
    fields = msgspec.structs.asdict(body)
    return {name: whole(value) if isinstance(value, msgspec.Struct) else value for name, value in fields.items()}


def ratio(value: float, of: float) -> float | None:
    return value / of if of else None


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _by_position(tally: Tally) -> list[float]:
    return [clicked / shown for clicked, shown in zip(tally.clicked_at, tally.shown_at) if shown]


def _reports(live: Live) -> dict[str, Any]:
    """What the learner itself finds worth watching: affirmativeness, swap probability and the like."""
    found: dict[str, Any] = {}
    for path in live.plan.learner.reports:
        value: Any = live.published.state
        for name in path.split("."):
            value = getattr(value, name, None)
        if value is not None and getattr(value, "ndim", 0) == 0:
            found[path.rsplit(".", 1)[-1]] = finite(float(value))
    if "swap" in found:
        found["swap_probability"] = found["swap"]
    return found
