"""Reports of rankers, experiments and catalogues, for `GET`, the page and the event stream."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from rankloop.core.statistics import share_interval, sign_p_value
from rankloop.service.application.node import Node
from rankloop.service.domain.counters import Counters, OutcomeCounts
from rankloop.service.domain.health import finite, health_of, weights_of
from rankloop.service.domain.split import SplitCounts, split_result

OPTIONAL_DEFAULTS: dict[str, Any] = {
    "schema": None,
    "catalogue": None,
    "model": None,
    "weight": 1.0,
    "booster": None,
    "kind": None,
    "outcomes": {},
    "guardrails": {},
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
        **({"rules": msgspec.to_builtins(runtime.config.rules)} if runtime.config.rules is not None else {}),
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
        **({"outcomes": _outcome_counts(counters, runtime.config.outcomes)} if runtime.config.outcomes else {}),
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
    """Return the result of an experiment: wins and losses of variant a, or what the users of each variant bring.

    Args:
      node: That serves it.
      name: Of the experiment.
    """
    runtime = node.directory.experiment(name)
    counters, body = runtime.projection.counters, runtime.body
    if body.method == "split":
        result = split_result(counters.split or SplitCounts(), runtime.metrics, body.guardrails)
    else:
        compared = {outcome: counters.outcomes.get(outcome, OutcomeCounts()) for outcome in body.outcomes}
        result = _interleaving_result(counters)
        result["outcomes"] = {
            outcome: {"wins": each.wins, "losses": each.losses, "p_value": sign_p_value(each.wins, each.losses)}
            for outcome, each in compared.items()
        }
    return {
        "name": name,
        "spec": _spec_of(body),
        "impressions": counters.impressions,
        "open": runtime.projection.n_open,
        **result,
    }


def _outcome_counts(counters: Counters, names: Iterable[str]) -> dict[str, Any]:
    """Return what closed impressions brought, by outcome."""
    counts = {name: counters.outcomes.get(name, OutcomeCounts()) for name in names}
    return {
        name: {
            "total": each.total,
            "impressions": each.impressions,
            "per_impression": each.total / counters.closed if counters.closed else None,
        }
        for name, each in counts.items()
    }


def _interleaving_result(counters: Counters) -> dict[str, Any]:
    comparison = counters.comparison
    return {
        "wins": comparison.wins,
        "ties": comparison.ties,
        "losses": comparison.losses,
        "win_ratio": finite(comparison.win_ratio),
        "win_share": list(share_interval(comparison.wins, comparison.losses)),
        "p_value": comparison.p_value_at_any_time,
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
