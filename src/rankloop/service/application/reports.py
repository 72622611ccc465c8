"""What `GET /rankers/{name}` and `GET /experiments/{name}` say; the page and the event stream say the same."""

from hashlib import sha256
from typing import Any

import msgspec

from rankloop.service.application.node import Node
from rankloop.service.domain.counters import Counters
from rankloop.service.domain.health import finite, health_of, weights_of

OPTIONAL = {"schema": None, "catalogue": None, "model": None, "weight": 1.0, "booster": None}  # with their defaults


def ranker_report(node: Node, name: str) -> dict[str, Any]:
    """Spec, state, counts and health of a ranker."""
    runtime = node.directory.ranker(name)
    counters, published = runtime.projection.counters, runtime.published
    schema, window = runtime.config.schema, runtime.projection.window
    return {
        "name": name,
        "spec": whole(runtime.config.body) | ({"window": window} if window is not None else {}),
        **({"schema": schema.to_plain() | {"version": schema.version}} if schema is not None else {}),
        "state": published.number,
        "frozen": runtime.projection.frozen,
        "reason": runtime.projection.reason,
        "counts": {
            "impressions": counters.impressions,
            "open": runtime.projection.n_open,
            "closed": counters.closed,
            "with_feedback": counters.with_feedback,
            "default_feedback": counters.default_feedback,
            "not_learned": counters.not_learned,
            "evaluated": counters.evaluated,
            "learned": published.learned,
            "rejected": published.rejected,
            "late": node.feedback.late.get(runtime.entity, 0),
            "unknown": node.feedback.unknown.get(runtime.entity, 0),
        },
        "health": health_of(counters, runtime.config, published.state, published.refused),
        "comparison": _standing(counters),
        "weights": weights_of(runtime.config, published.state),
    }


def catalogue_report(node: Node, name: str) -> dict[str, Any]:
    """How many rows there are, the event that changed them last, and the rankers that use them."""
    catalogue = node.directory.catalogues[name]
    users = [ranker for ranker, runtime in node.directory.rankers.items() if runtime.catalogue is catalogue]
    return {"name": name, "rows": len(catalogue), "version": catalogue.version, "rankers": sorted(users)}


def experiment_report(node: Node, name: str) -> dict[str, Any]:
    """Wins, ties and losses of side a, and whether they can be chance."""
    runtime = node.directory.experiment(name)
    counters = runtime.projection.counters
    return {
        "name": name,
        "spec": whole(runtime.body),
        "impressions": counters.impressions,
        "open": runtime.projection.n_open,
        **_standing(counters),
    }


def _standing(counters: Counters) -> dict[str, Any]:
    comparison = counters.comparison
    return {
        "wins": comparison.wins,
        "ties": comparison.ties,
        "losses": comparison.losses,
        "win_ratio": finite(comparison.win_ratio),
        "p_value": comparison.p_value,
    }


def whole(body: msgspec.Struct) -> dict[str, Any]:
    """A body with its defaults written out, without the options of some rankers where they are not used."""
    fields = msgspec.structs.asdict(body)
    known = {name: value for name, value in fields.items() if name not in OPTIONAL or value != OPTIONAL[name]}
    return {name: _told(value) for name, value in known.items()}


def _told(value: Any) -> Any:
    """A part of a body; of a file, which one it is."""
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": sha256(value).hexdigest()}
    return whole(value) if isinstance(value, msgspec.Struct) else value
