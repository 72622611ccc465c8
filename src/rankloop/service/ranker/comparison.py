"""Comparisons: two rankers, or a ranker and fixed weights, shown as one list."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.adapter import QueryRequest
from rankloop.core.errors import NotFound, Rejected
from rankloop.core.learner import best_ranking
from rankloop.core.plain import to_plain
from rankloop.core.registry import build
from rankloop.core.types import Floats, Ints, Query
from rankloop.interleaving import interleave
from rankloop.service.log.events import Ranked
from rankloop.service.log.projection import Projection
from rankloop.service.ranker.config import RankerConfig, check_seed_and_window, check_weights, config_of
from rankloop.service.ranker.runtime import RankerRuntime
from rankloop.service.requests import CreateBody, ExperimentBody, ProblemBody, SideBody


class Side(NamedTuple):
    """Who is compared."""

    runtime: RankerRuntime | None
    weights: Floats | None


class ComparisonRuntime:
    """A comparison in service. It shows what both sides predict, and neither learns from it."""

    def __init__(self, entity: str, body: ExperimentBody, rankers: Mapping[str, RankerRuntime]) -> None:
        self.entity = entity
        self.body = body
        build(body.method, "interleaving")
        given = (("a", body.a), ("b", body.b))
        runtimes = [_runtime(side, rankers, field) for field, side in given]
        self.config = _shared_config(runtimes, body.a)
        self.sides = [_side(side, runtime, self.config, field) for (field, side), runtime in zip(given, runtimes)]
        self.projection = Projection(self.config, body.method)

    def rank(self, request: QueryRequest, impression: str) -> Ranked:
        if request.pinned or request.hidden:
            raise Rejected(
                "pinned", "a comparison shows its own list: pins and exclusions in a fixed set are not possible"
            )
        rows, candidates = request.features, request.candidates
        rows = rows if candidates is None else np.ascontiguousarray(rows[candidates])
        a, b = (_predicted(side, rows, request.query) for side in self.sides)
        # Of each impression its own: a generator would throw the same coins again in every worker and after a restart.
        rng = np.random.default_rng([self.body.seed, *impression.encode()])
        mixed = interleave(self.body.method, a, b, rng)
        return Ranked(
            impression=impression,
            ids=request.ids,
            features=request.features.tobytes(),
            order=request.shown_order(mixed.ranking),
            query_id=request.query.id,
            context=request.query.context.tolist(),
            candidates=candidates,
            mixed=to_plain(mixed),
            trainable=False,
        )


def check_comparison(body: ExperimentBody) -> None:
    """What a new comparison is not allowed; those that are in a log begin again, whatever is refused today."""
    check_seed_and_window(body.seed, body.window)


def _predicted(side: Side, rows: Floats, query: Query) -> Ints:
    if side.runtime is None:
        return best_ranking(rows, side.weights)  # type: ignore[arg-type]
    return side.runtime.serving.predict(query._replace(features=side.runtime.config.with_base_score(rows)))


def _runtime(side: SideBody, rankers: Mapping[str, RankerRuntime], field: str) -> RankerRuntime | None:
    if (side.ranker is None) == (side.weights is None):
        raise Rejected(field, "give either the name of a ranker or weights")
    if side.ranker is None:
        return None
    if side.ranker not in rankers:
        raise NotFound(f"there is no ranker {side.ranker!r}")
    return rankers[side.ranker]


def _shared_config(runtimes: list[RankerRuntime | None], first: SideBody) -> RankerConfig:
    configs = [runtime.config for runtime in runtimes if runtime is not None]
    if not configs:
        weights = first.weights or []
        learner = {"kind": "fixed_weights", "weights": weights}
        return config_of(CreateBody(learner=learner, problem=ProblemBody(n_features=len(weights))))
    for config in configs[1:]:
        if _kind_of_items(config) != _kind_of_items(configs[0]):
            raise Rejected("b", "the two rankers do not rank the same kind of items")
    return configs[0]


def _kind_of_items(config: RankerConfig) -> tuple[Any, ...]:
    return config.adapter.n_features, config.adapter.items, config.adapter.n_context


def _side(side: SideBody, runtime: RankerRuntime | None, config: RankerConfig, field: str) -> Side:
    weights = (
        None if side.weights is None else check_weights(side.weights, config.adapter.n_features, f"{field}.weights")
    )
    return Side(runtime, weights)
