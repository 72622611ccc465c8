"""Experiments: the predictions of two rankers, fixed weights or the order of the request, in one list or by user."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import numpy as np

from rankloop.adapter import NO_CONTEXT, QueryRequest
from rankloop.core.errors import NotFound, Rejected
from rankloop.core.learner import best_ranking, from_layers
from rankloop.core.plain_values import to_plain
from rankloop.core.registry import build, spec_of
from rankloop.core.session import Session
from rankloop.core.types import Floats, Ints, Query
from rankloop.features.schema import Schema, sorted_cross
from rankloop.interleaving import interleave
from rankloop.outcomes import declared_outcomes
from rankloop.service.domain.ab_test import CLICKS, VARIANTS, variant_of
from rankloop.service.domain.base_score import checked_weights
from rankloop.service.domain.catalogue import ItemCatalogue, with_fields
from rankloop.service.domain.configuration import RankerConfig, config_of
from rankloop.service.domain.counters import SavedProjection, published_counts
from rankloop.service.domain.named_values import packed_values
from rankloop.service.domain.trainer import PublishedState
from rankloop.service.records import Ranked
from rankloop.service.request_bodies import CreateBody, ExperimentBody, ProblemBody, VariantBody


class ComparedRanker(Protocol):
    """A served ranker, as an experiment uses it."""

    entity: str
    config: RankerConfig
    catalogue: ItemCatalogue | None
    serving: Session


class ServedExperiment:
    """A served experiment. It shows the predictions of both variants in one list; neither variant learns from it."""

    def __init__(self, entity: str, body: ExperimentBody, rankers: Mapping[str, ComparedRanker]) -> None:
        self.entity = entity
        self.body = body
        build(body.interleaving, "interleaving")
        fields = {"a": body.a, "b": body.b}
        self._rankers = [_ranker_of(variant, rankers, field) for field, variant in fields.items()]
        self.compared = [ranker for ranker in self._rankers if ranker is not None]
        self._configs = [ranker.config for ranker in self.compared]
        self._config = _shared_config(self._configs, body)
        self.metrics = [CLICKS, *self._config.outcomes]
        for name in body.guardrails:
            if body.method != "split" or name not in self.metrics:
                raise Rejected("guardrails", f"{name!r:.60}: name clicks or an outcome, in an A/B test (split)")
        self._weights: list[Floats | None] = []
        for field, variant in fields.items():
            if variant.weights is not None and self._config.encoders:
                raise Rejected(f"{field}.weights", "fixed weights are not possible with a schema: name another ranker")
            self._weights.append(checked_weights(variant.weights, self._config.adapter.n_features, f"{field}.weights"))
        self.catalogue = self.compared[0].catalogue if self.compared else None
        self.changed_after = 0
        self.published = PublishedState()

    @property
    def projection(self) -> SavedProjection:
        """Counts and flags as they were published last."""
        return published_counts(self.published.projection)

    def swap_in(self, published: PublishedState, replaces_any: bool = False) -> None:
        """Take over newer counts."""
        if replaces_any or published.seq > self.published.seq or not self.published.projection:
            self.published = published

    @property
    def config(self) -> RankerConfig:
        """The configuration that both variants share; it follows changes of their schemas."""
        current = [ranker.config for ranker in self.compared]
        if any(new is not old for new, old in zip(current, self._configs)):
            self._configs, self._config = current, _shared_config(current, self.body)
        return self._config

    def rank(self, request: QueryRequest, impression: str, user: str = "") -> Ranked:
        """Return the event of an interleaved list, or of the list of one variant."""
        if request.pinned or request.hidden:
            raise Rejected("pinned", "an experiment shows its own list: pinned and excluded items are not possible")
        mixed, variant = None, ""
        if self.body.method == "split":
            variant = variant_of(self.entity, self.body.seed, user or impression)
            ranking = self._predicted(VARIANTS.index(variant), request)
        else:
            a, b = (self._predicted(number, request) for number in range(len(VARIANTS)))
            rng = np.random.default_rng([self.body.seed, *impression.encode()])  # one generator per impression
            mixed = interleave(self.body.interleaving, a, b, rng)
            ranking = mixed.ranking
        ranked = Ranked(
            impression=impression,
            ids=request.ids,
            features=request.features.tobytes(),
            order=request.shown_order(ranking),
            query_id=request.query.id,
            context=request.query.context.tolist(),
            candidates=request.candidates,
            mixed=None if mixed is None else to_plain(mixed),
            variant=variant,
            trainable=False,
            base_model=request.base_model,
        )
        if request.values is not None:
            ranked.values, ranked.at = packed_values(request.values), request.values.at
            ranked.schema = request.values.schema
        return ranked

    def _predicted(self, number: int, request: QueryRequest) -> Ints:
        """Return the order of a variant: that of a ranker, of fixed weights, or of the request."""
        candidates = range(len(request.ids)) if request.candidates is None else request.candidates
        ranker, weights = self._rankers[number], self._weights[number]
        if weights is not None:
            return best_ranking(request.query.features, weights)
        if ranker is None:
            return np.arange(len(candidates))
        config = ranker.config
        if request.values is None:
            return ranker.serving.predict(config.base.with_score(request).query)
        rows = config.base.with_values(request.values.rows, request.query.id)
        encoder = config.encoders[max(config.encoders)]
        features, context = encoder.schema.features.keys(), encoder.schema.context.keys()
        encoded = encoder.rows(
            [request.ids[i] for i in candidates],
            [with_fields(rows[i], features) for i in candidates],
            with_fields(request.values.context, context),
            request.values.at,
        )
        return ranker.serving.predict(Query(request.query.id, encoded, NO_CONTEXT))


def _ranker_of(variant: VariantBody, rankers: Mapping[str, ComparedRanker], field: str) -> ComparedRanker | None:
    """Return the ranker of a variant; None for weights and for the order of the request."""
    if [variant.ranker, variant.weights, variant.kind].count(None) != 2:
        reason = 'give the name of a ranker, weights, or {"kind": "given_order"} for the order of the request'
        raise Rejected(field, reason)
    if variant.ranker is None:
        return None
    if variant.ranker not in rankers:
        raise NotFound(f"there is no ranker {variant.ranker!r}")
    ranker = rankers[variant.ranker]
    return None if from_layers(ranker.config.learner, "ignores_features", False) else ranker


def _shared_config(configs: list[RankerConfig], body: ExperimentBody) -> RankerConfig:
    """Return the configuration by which requests and feedback of an experiment are read."""
    outcomes = declared_outcomes(msgspec.to_builtins(body.outcomes))
    if not configs:
        weights = body.a.weights or body.b.weights or []
        if not weights:
            raise Rejected("a", "the order of the request cannot be compared with itself: name a ranker as a or b")
        learner = {"kind": "fixed_weights", "weights": weights}
        created = CreateBody(learner=learner, problem=ProblemBody(n_features=len(weights)))
        return config_of(created)._replace(outcomes=outcomes)
    first = configs[0]
    for config in configs[1:]:
        if _kind_of_items(config) != _kind_of_items(first):
            reason = "the two rankers do not have the same kind of items"
            raise Rejected("b", f"{reason}: features, fixed items and context must be equal")
    shared = first._replace(base=first.base._replace(booster=None, computed_score=""), rules=None, outcomes=outcomes)
    schemas = [config.schema for config in configs if config.schema is not None]
    if not schemas:
        return shared
    kinds: dict[str, Any] = {}
    for schema in schemas:
        for part in ("features", "context"):
            for name, kind in getattr(schema, part).items():
                if kinds.setdefault(name, (part, spec_of(kind))) != (part, spec_of(kind)):
                    raise Rejected("b", f"the field {name!r} has different kinds in the schemas of the two rankers")
    # A request may have the fields of either variant, and each variant gets its own.
    joint = Schema(
        features={name: kind for schema in schemas for name, kind in schema.features.items()},
        context={name: kind for schema in schemas for name, kind in schema.context.items()},
        crosses=tuple({sorted_cross(cross): cross for schema in schemas for cross in schema.crosses}.values()),
        bits=schemas[0].bits,
    )
    return shared._replace(encoders={}).with_schemas([joint])


def _kind_of_items(config: RankerConfig) -> tuple[Any, ...]:
    if config.encoders:
        return "schema", config.adapter.items, config.body.problem.catalogue
    return config.adapter.n_features, config.adapter.items, config.adapter.n_context
