"""Reports of rankers, experiments and catalogues, for `GET`, the page and the event stream."""

import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from rankloop.core.saved_session import loads
from rankloop.core.session import Session
from rankloop.core.statistics import share_interval, sign_p_value
from rankloop.service.application.served_ranker import ServedRanker
from rankloop.service.domain.ab_test import SplitCounts
from rankloop.service.domain.counters import Counters, OutcomeCounts, published_counts
from rankloop.service.domain.health import StateView, clicks_of, finite
from rankloop.service.domain.trainer import PublishedState

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

REPORTED_COUNTS = ("impressions", "closed", "with_feedback", "default_feedback", "not_learned", "evaluated")
OPTIONAL_DEFAULTS: dict[str, Any] = dict.fromkeys(("schema", "catalogue", "model", "booster", "kind"))
OPTIONAL_DEFAULTS |= {"weight": 1.0, "outcomes": {}, "guardrails": {}}  # are left out of a report
HISTORY_FIELDS = ("ctr", "ctr_recent", "ndcg", "explored_share", "swap_probability", "refused")
MAX_POINTS = 60  # of a history, read from snapshots
MAX_POINT_WEIGHTS = 12


class Reports:
    """The reports of a node by name."""

    def __init__(self, node: "Node") -> None:
        self.node = node

    def ranker(self, name: str) -> dict[str, Any]:
        """Return spec, state, counts and health of a ranker."""
        runtime = self.node.directory.ranker(name)
        counters, published = runtime.projection.counters, runtime.published
        schema, window = runtime.config.schema, runtime.projection.window
        outcomes = {}
        for outcome in runtime.config.outcomes:
            each = counters.outcomes.get(outcome, OutcomeCounts())
            mean = each.total / counters.closed if counters.closed else None
            outcomes[outcome] = {"total": each.total, "impressions": each.impressions, "per_impression": mean}
        return {
            "name": name,
            "spec": _spec_of(runtime.config.body) | ({"window": window} if window is not None else {}),
            **({"schema": schema.to_plain() | {"version": schema.version}} if schema is not None else {}),
            **({"rules": msgspec.to_builtins(runtime.config.rules)} if runtime.config.rules is not None else {}),
            "state": published.number,
            "frozen": runtime.projection.frozen,
            "reason": runtime.projection.reason,
            "counts": {
                **{name: getattr(counters, name) for name in REPORTED_COUNTS},
                "open": runtime.projection.n_open,
                "learned": published.learned,
                "rejected": published.rejected,
                "late": self.node.feedback.late.get(runtime.entity, 0),
                "unknown": self.node.feedback.unknown.get(runtime.entity, 0),
            },
            "health": runtime.view().health(counters, published.refused),
            "comparison": _interleaving_result(counters),
            **({"outcomes": outcomes} if outcomes else {}),
            "weights": runtime.view().weights(),
        }

    def history(self, name: str) -> list[dict[str, Any]]:
        """Return counts, health and weights of a ranker at its snapshots and now; it may be called on any thread."""
        runtime, store = self.node.directory.ranker(name), self.node.store
        snapshots = sorted(store.snapshots(runtime.entity), key=lambda row: row[2])
        points = []
        for number, _, at in snapshots[:: 1 + len(snapshots) // MAX_POINTS]:
            snapshot = store.snapshot(runtime.entity, number)
            if snapshot is not None:  # else it was thinned at this moment
                points.append(_point(at, runtime, loads(snapshot.session), snapshot.projection))
        return [*points, _point(time.time(), runtime, runtime.published, runtime.published.projection)]

    def catalogue(self, name: str) -> dict[str, Any]:
        """Return the number of rows, the event that changed them last, and the rankers that use them."""
        catalogue = self.node.directory.catalogues[name]
        users = [ranker for ranker, runtime in self.node.directory.rankers.items() if runtime.catalogue is catalogue]
        return {"name": name, "rows": len(catalogue), "version": catalogue.version, "rankers": sorted(users)}

    def experiment(self, name: str) -> dict[str, Any]:
        """Return the result of an experiment: wins and losses of variant a, or what the users of each variant bring."""
        runtime = self.node.directory.experiment(name)
        counters, body = runtime.projection.counters, runtime.body
        if body.method == "split":
            result = (counters.split or SplitCounts()).result(runtime.metrics, body.guardrails)
        else:
            outcomes, result = {}, _interleaving_result(counters)
            for outcome in body.outcomes:
                each = counters.outcomes.get(outcome, OutcomeCounts())
                p_value = sign_p_value(each.wins, each.losses)
                outcomes[outcome] = {"wins": each.wins, "losses": each.losses, "p_value": p_value}
            result["outcomes"] = outcomes
        counts = {"impressions": counters.impressions, "open": runtime.projection.n_open}
        return {"name": name, "spec": _spec_of(body), **counts, **result}


def _point(at: float, runtime: ServedRanker, learned: PublishedState | Session, projection: bytes) -> dict[str, Any]:
    """Return a part of the report of a ranker at one time."""
    view, counters = StateView(runtime.config, learned.state), published_counts(projection).counters
    health = view.health(counters, learned.refused)
    kept = {name: health[name] for name in HISTORY_FIELDS if name in health} | clicks_of(counters)
    counts = {name: getattr(counters, name) for name in ("impressions", "wins", "losses")}
    weights = view.weights(MAX_POINT_WEIGHTS)
    return {"at": at, "counts": counts | {"learned": learned.learned}, "health": kept, "weights": weights}


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
    spec = dict[str, Any]()
    for name, value in msgspec.structs.asdict(body).items():
        if name in OPTIONAL_DEFAULTS and value == OPTIONAL_DEFAULTS[name]:
            continue
        if isinstance(value, bytes):  # a file
            value = {"bytes": len(value), "sha256": sha256(value).hexdigest()}
        spec[name] = _spec_of(value) if isinstance(value, msgspec.Struct) else value
    return spec
