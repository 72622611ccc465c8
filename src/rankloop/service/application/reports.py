"""Reports of rankers, experiments and catalogues, for `GET`, the page and the event stream."""

from hashlib import sha256
from typing import Any

import msgspec

from rankloop.service.application.node import Node
from rankloop.service.domain.counters import Counters
from rankloop.service.domain.health import finite, health_of, weights_of

OPTIONAL_DEFAULTS = {
    "schema": None,
    "catalogue": None,
    "model": None,
    "weight": 1.0,
    "booster": None,
    "kind": None,
}  # left out of a report


def ranker_report(node: Node, name: str) -> dict[str, Any]:
    """Return spec, state, counts and health of a ranker.

    Args:
      node: That serves it.
      name: Of the ranker.
    """
    runtime = node.directory.ranker(name)
    counters, published = runtime.projection.counters, runtime.published
    schema, window = runtime.config.schema, runtime.projection.window
    return {
        "name": name,
        "spec": _spec_of(runtime.config.body) | ({"window": window} if window is not None else {}),
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
        "comparison": _interleaving_result(counters),
        "weights": weights_of(runtime.config, published.state),
    }


def catalogue_report(node: Node, name: str) -> dict[str, Any]:
    """Return the number of rows, the event that changed them last, and the rankers that use them.

    Args:
      node: That serves it.
      name: Of the catalogue.
    """
    catalogue = node.directory.catalogues[name]
    users = [ranker for ranker, runtime in node.directory.rankers.items() if runtime.catalogue is catalogue]
    return {"name": name, "rows": len(catalogue), "version": catalogue.version, "rankers": sorted(users)}


def experiment_report(node: Node, name: str) -> dict[str, Any]:
    """Return wins, ties and losses of side a, and the p-value of their difference.

    Args:
      node: That serves it.
      name: Of the experiment.
    """
    runtime = node.directory.experiment(name)
    counters = runtime.projection.counters
    return {
        "name": name,
        "spec": _spec_of(runtime.body),
        "impressions": counters.impressions,
        "open": runtime.projection.n_open,
        **_interleaving_result(counters),
    }


def _interleaving_result(counters: Counters) -> dict[str, Any]:
    comparison = counters.comparison
    return {
        "wins": comparison.wins,
        "ties": comparison.ties,
        "losses": comparison.losses,
        "win_ratio": finite(comparison.win_ratio),
        "p_value": comparison.p_value,
    }


def _spec_of(body: msgspec.Struct) -> dict[str, Any]:
    """Return a body with its defaults written out, without rarely used options that have their default."""
    fields = msgspec.structs.asdict(body)
    return {
        name: _plain(value)
        for name, value in fields.items()
        if name not in OPTIONAL_DEFAULTS or value != OPTIONAL_DEFAULTS[name]
    }


def _plain(value: Any) -> Any:
    """Return a field of a body; size and digest of a file."""
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": sha256(value).hexdigest()}
    return _spec_of(value) if isinstance(value, msgspec.Struct) else value
