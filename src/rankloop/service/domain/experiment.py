"""Comparisons: two rankers, or a ranker and fixed weights, shown as one list."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from rankloop.adapter import NO_CONTEXT, QueryRequest
from rankloop.core.errors import NotFound, Rejected
from rankloop.core.learner import best_ranking
from rankloop.core.registry import build, spec_of
from rankloop.core.serialisation import to_plain
from rankloop.core.session import Session
from rankloop.core.types import Floats, Ints, Query, Rows
from rankloop.features.encoder import Encoder, check_context_names, check_item_names
from rankloop.interleaving import interleave
from rankloop.service.domain.base_score import check_weights
from rankloop.service.domain.catalogue import ItemCatalogue, merged_rows
from rankloop.service.domain.configuration import RankerConfig, config_of
from rankloop.service.domain.counters import SavedProjection, saved_projection
from rankloop.service.domain.named_values import add_values
from rankloop.service.domain.projection import PublishedState
from rankloop.service.records import Ranked
from rankloop.service.requests import CreateBody, ExperimentBody, ProblemBody, SideBody


class ComparedRanker(Protocol):
    """A ranker in service, as a side of a comparison sees it."""

    entity: str
    config: RankerConfig
    catalogue: ItemCatalogue | None
    serving: Session


class Side(NamedTuple):
    """Who is compared."""

    ranker: ComparedRanker | None
    weights: Floats | None


class JointEncoder:
    """The schemas of both sides: a request may bring the fields of either, and each side is told those that it has."""

    version = 1

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        self.encoders = encoders
        self.features = {name: kind for encoder in encoders for name, kind in encoder.schema.features.items()}
        self.context = {name: kind for encoder in encoders for name, kind in encoder.schema.context.items()}

    @property
    def n_fields(self) -> int:
        return len(self.features)

    def rows(self, ids: Sequence[Any], rows: Sequence[Any], context: Mapping[str, Any], at: float = 0.0) -> Rows:
        """Those of the first side, once both have read them."""
        check_context_names(context, self.context)
        for id, row in zip(ids, rows):
            check_item_names(id, row, self.features)
        first, *_ = [own_rows(encoder, ids, rows, context, at) for encoder in self.encoders]
        return first


def own_rows(encoder: Encoder, ids: Sequence[Any], rows: Sequence[Any], context: Mapping[str, Any], at: float) -> Rows:
    """The rows of one side, made of the fields that it has."""
    own = encoder.schema
    known = merged_rows(rows, [{}] * len(rows), own.features.keys())
    return encoder.rows(ids, known, {name: context[name] for name in context if name in own.context}, at)


class ServedExperiment:
    """A comparison in service. It shows what both sides predict, and neither learns from it."""

    def __init__(self, entity: str, body: ExperimentBody, rankers: Mapping[str, ComparedRanker]) -> None:
        self.entity = entity
        self.body = body
        build(body.method, "interleaving")
        given = (("a", body.a), ("b", body.b))
        self._runtimes = [_runtime(side, rankers, field) for field, side in given]
        self._configs = self._current()
        self._config = _shared_config(self._configs, body.a)
        self.catalogue = next((runtime.catalogue for runtime in self._runtimes if runtime is not None), None)
        self.sides = [_side(side, runtime, self.config, field) for (field, side), runtime in zip(given, self._runtimes)]
        self.changed_after = 0
        self.published = PublishedState()
        self.projection = SavedProjection()

    def publish(self, published: PublishedState, is_newer: bool = False) -> None:
        """Show what was counted up to now; counts that are older change nothing, unless they were learned again."""
        if is_newer or published.seq > self.published.seq or not self.published.projection:
            self.published, self.projection = published, saved_projection(published.projection)

    def recount(self, seq: int, projection: bytes) -> None:
        """Take newer counts."""
        self.publish(self.published._replace(seq=seq, projection=projection))

    @property
    def config(self) -> RankerConfig:
        """What both sides rank; the schema of either may evolve meanwhile."""
        current = self._current()
        if any(now is not before for now, before in zip(current, self._configs)):
            self._configs, self._config = current, _shared_config(current, self.body.a)
        return self._config

    def _current(self) -> list[RankerConfig]:
        return [runtime.config for runtime in self._runtimes if runtime is not None]

    def rank(self, request: QueryRequest, impression: str) -> Ranked:
        if request.pinned or request.hidden:
            raise Rejected(
                "pinned", "a comparison shows its own list: pins and exclusions in a fixed set are not possible"
            )
        a, b = (self._predicted(side, request) for side in self.sides)
        rng = np.random.default_rng([self.body.seed, *impression.encode()])  # of each impression its own
        mixed = interleave(self.body.method, a, b, rng)
        ranked = Ranked(
            impression=impression,
            ids=request.ids,
            features=request.features.tobytes(),
            order=request.shown_order(mixed.ranking),
            query_id=request.query.id,
            context=request.query.context.tolist(),
            candidates=request.candidates,
            mixed=to_plain(mixed),
            trainable=False,
            base_model=request.base_model,
        )
        add_values(ranked, request)
        return ranked

    def _predicted(self, side: Side, request: QueryRequest) -> Ints:
        if request.values is not None and side.ranker is not None:
            return side.ranker.serving.predict(self._encoded(side.ranker, request))
        rows, candidates = request.features, request.candidates
        rows = rows if candidates is None else np.ascontiguousarray(rows[candidates])
        if side.ranker is not None and side.ranker.config.booster is not None:
            query = side.ranker.config.with_booster_score(request).query
            return side.ranker.serving.predict(query)
        return _predicted(side, rows, request.query)

    def _encoded(self, runtime: ComparedRanker, request: QueryRequest) -> Query:
        """The query as one side sees it."""
        given, context, at, _ = request.values  # type: ignore[misc]
        ids, encoder = request.ids, runtime.config.encoders[max(runtime.config.encoders)]
        if self.catalogue is not None:
            found = self.catalogue.rows(ids, request.catalogue)
            given = merged_rows(found, given, encoder.schema.features.keys())
        given = runtime.config.with_booster_values(given, request.query.id)
        if request.candidates is not None:
            ids, given = [ids[i] for i in request.candidates], [given[i] for i in request.candidates]
        return Query(request.query.id, own_rows(encoder, ids, given, context, at), NO_CONTEXT)


def _predicted(side: Side, rows: Floats, query: Query) -> Ints:
    if side.ranker is None:
        return best_ranking(rows, side.weights)  # type: ignore[arg-type]
    return side.ranker.serving.predict(query._replace(features=side.ranker.config.with_base_score(rows)))


def _runtime(side: SideBody, rankers: Mapping[str, ComparedRanker], field: str) -> ComparedRanker | None:
    if (side.ranker is None) == (side.weights is None):
        raise Rejected(field, "give either the name of a ranker or weights")
    if side.ranker is None:
        return None
    if side.ranker not in rankers:
        raise NotFound(f"there is no ranker {side.ranker!r}")
    return rankers[side.ranker]


def _shared_config(configs: list[RankerConfig], first: SideBody) -> RankerConfig:
    if not configs:
        weights = first.weights or []
        learner = {"kind": "fixed_weights", "weights": weights}
        return config_of(CreateBody(learner=learner, problem=ProblemBody(n_features=len(weights))))
    for config in configs[1:]:
        if _kind_of_items(config) != _kind_of_items(configs[0]):
            raise Rejected("b", "the two rankers do not rank the same kind of items")
    if not configs[0].encoders:
        return configs[0]._replace(booster=None)
    _check_kinds(configs)
    joint: Any = JointEncoder([config.encoders[max(config.encoders)] for config in configs])
    names = tuple(joint.features)
    adapter = configs[0].adapter._replace(feature_names=names, n_features=len(names), encoder=joint)
    return configs[0]._replace(adapter=adapter, encoders={joint.version: joint}, booster=None)


def _check_kinds(configs: list[RankerConfig]) -> None:
    """One field means the same on both sides."""
    known: dict[str, Any] = {}
    for config in configs:
        schema: Any = config.schema
        for part in ("features", "context"):
            for name, kind in getattr(schema, part).items():
                if known.setdefault(name, (part, spec_of(kind))) != (part, spec_of(kind)):
                    raise Rejected("b", f"the field {name!r} is of another kind there than in the other's schema")


def _kind_of_items(config: RankerConfig) -> tuple[Any, ...]:
    if config.encoders:
        return "schema", config.adapter.items, config.body.problem.catalogue
    return config.adapter.n_features, config.adapter.items, config.adapter.n_context


def _side(side: SideBody, ranker: ComparedRanker | None, config: RankerConfig, field: str) -> Side:
    if side.weights is not None and config.encoders:
        raise Rejected(f"{field}.weights", "with a schema there is no list of numbers to weigh: name another ranker")
    weights = (
        None if side.weights is None else check_weights(side.weights, config.adapter.n_features, f"{field}.weights")
    )
    return Side(ranker, weights)
