"""Experiments: two rankers, or a ranker and fixed weights, shown as one list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import NotFound
from rankloop.core.plain import to_plain
from rankloop.core.rankings import best_ranking
from rankloop.core.registry import build
from rankloop.core.types import Floats, Ints, Query
from rankloop.interleaving import interleave
from rankloop.service.errors import Rejected
from rankloop.service.log.events import Experiment, Ranked
from rankloop.service.log.projection import View
from rankloop.service.ranker.config import Plan, check_seed_and_window, check_weights, plan_of, with_base_score
from rankloop.service.ranker.query import Asked, shown_order
from rankloop.service.ranker.runtime import Live
from rankloop.service.requests import CreateBody, ExperimentBody, ProblemBody, SideBody


class Side(NamedTuple):
    """Who is compared."""

    live: Live | None
    weights: Floats | None


class LiveExperiment:
    """An experiment in service. It shows what both sides predict, and teaches neither."""

    def __init__(self, stream: str, event: Experiment, rankers: Mapping[str, Live]) -> None:
        self.stream = stream
        self.event = event
        build(event.body.method, "interleaving")
        given = (("a", event.body.a), ("b", event.body.b))
        lives = [_live(side, rankers, field) for field, side in given]
        self.plan = _shared_plan(lives, event.body.a)
        self.sides = [_side(side, live, self.plan, field) for (field, side), live in zip(given, lives)]
        self.view = View(self.plan, event)

    def rank(self, asked: Asked, impression: str) -> Ranked:
        if asked.pinned or asked.hidden:
            raise Rejected(
                "pinned", "a comparison shows its own list: pins and exclusions in a fixed set are not possible"
            )
        rows = asked.features if asked.asked is None else np.ascontiguousarray(asked.features[asked.asked])
        a, b = (_predicted(side, rows, asked.query) for side in self.sides)
        # Of each impression its own: a generator would throw the same coins again in every worker and after a restart.
        rng = np.random.default_rng([self.event.body.seed, *impression.encode()])
        mixed = interleave(self.event.body.method, a, b, rng)
        return Ranked(
            impression=impression,
            ids=asked.ids,
            features=asked.features.tobytes(),
            shown=shown_order(asked, mixed.ranking),
            query_id=asked.query.id,
            context=asked.query.context.tolist(),
            asked=asked.asked,
            mixed=to_plain(mixed),
            teaches=False,
        )


def check_experiment(body: ExperimentBody) -> None:
    """What a new experiment is not allowed; those that are in a log begin again, whatever is refused today."""
    check_seed_and_window(body.seed, body.window)


def _predicted(side: Side, rows: Floats, query: Query) -> Ints:
    if side.live is None:
        return best_ranking(rows, side.weights)  # type: ignore[arg-type]
    return side.live.serving.predict(query._replace(features=with_base_score(rows, side.live.plan)))


def _live(side: SideBody, rankers: Mapping[str, Live], field: str) -> Live | None:
    if (side.ranker is None) == (side.weights is None):
        raise Rejected(field, "give either the name of a ranker or weights")
    if side.ranker is None:
        return None
    if side.ranker not in rankers:
        raise NotFound(f"there is no ranker {side.ranker!r}")
    return rankers[side.ranker]


def _shared_plan(lives: list[Live | None], first: SideBody) -> Plan:
    plans = [live.plan for live in lives if live is not None]
    if not plans:
        weights = first.weights or []
        learner = {"kind": "fixed_weights", "weights": weights}
        return plan_of(CreateBody(learner=learner, problem=ProblemBody(n_features=len(weights))))
    for plan in plans[1:]:
        if (plan.given, plan.items, plan.problem.n_context) != (
            plans[0].given,
            plans[0].items,
            plans[0].problem.n_context,
        ):
            raise Rejected("b", "the two rankers do not rank the same kind of items")
    return plans[0]


def _side(side: SideBody, live: Live | None, plan: Plan, field: str) -> Side:
    weights = None if side.weights is None else check_weights(side.weights, plan.given, f"{field}.weights")
    return Side(live, weights)
