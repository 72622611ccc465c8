"""What `GET /rankers/{name}` says; the page and the event stream say the same."""

from __future__ import annotations

from typing import Any

import msgspec

from rankloop.service.log.counters import Tally
from rankloop.service.ranker.comparison import LiveExperiment
from rankloop.service.ranker.health import finite, health_of, weights_of
from rankloop.service.service import Service


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
        "health": health_of(tally, live.plan, published.state, published.refused),
        "comparison": comparison_report(tally),
        "weights": weights_of(live.plan, published.state),
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


def whole(body: msgspec.Struct) -> dict[str, Any]:
    """A body with its defaults written out."""
    fields = msgspec.structs.asdict(body)
    return {name: whole(value) if isinstance(value, msgspec.Struct) else value for name, value in fields.items()}
