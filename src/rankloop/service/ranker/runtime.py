"""A ranker in service: rankings from the newest published state. It holds nothing of what others log."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator

from rankloop.adapter import Id, QueryRequest
from rankloop.core.errors import Rejected
from rankloop.core.kernels import discounts, ranking_of
from rankloop.core.plain import decision_to_plain, to_plain
from rankloop.core.types import Ints, Rows
from rankloop.interleaving import interleave
from rankloop.service.jobs.history import Curve
from rankloop.service.log.catalogue import Catalogue
from rankloop.service.log.events import Ranked
from rankloop.service.log.projection import TEAM_DRAFT, SavedProjection, new_projection, saved_projection
from rankloop.service.log.stores.base import Store
from rankloop.service.log.values import packed
from rankloop.service.ranker.config import RankerConfig
from rankloop.service.ranker.trainer import PublishedState, Trainer, evolved_session, fitted
from rankloop.service.requests import CreateBody

DISCOUNTS = discounts(1000)  # of every list that is not longer


def draws_of(seed: int, impression: str, purpose: str = "") -> Generator:
    """A generator of its own for every impression: no two workers draw the same, and no draw has to be remembered."""
    key = blake2b(f"{seed} {impression} {purpose}".encode(), digest_size=16).digest()
    return Generator(PCG64(int.from_bytes(key, "big")))


class RankerRuntime:
    """One ranker. All of it runs on the event loop, so a ranking and its state number belong together."""

    def __init__(
        self,
        entity: str,
        config: RankerConfig,
        start: bytes,
        store: Store,
        catalogue: Catalogue | None = None,
    ) -> None:
        self.entity = entity
        self.config = config
        self.store = store
        self.catalogue = catalogue
        self.changed_after = 0  # the last event that its configuration follows from
        self.curve = Curve()
        first = Trainer(config, start)
        self.serving = first.session
        self.is_line = False  # whether it draws one ranking after the other, as `play` does: where it is learned too
        self.published = first.published()
        self._projection = new_projection()
        self._decoded = b""
        self.publish(self.published)

    @property
    def name(self) -> str:
        return self.entity.partition("/")[2]

    @property
    def body(self) -> CreateBody:
        """What it was created with."""
        return self.config.body

    @property
    def projection(self) -> SavedProjection:
        """Counts and flags as they were published last."""
        content = self.published.projection
        if content and content is not self._decoded:
            self._decoded, self._projection = content, saved_projection(content)
        return self._projection

    def publish(self, published: PublishedState) -> None:
        """Rank from this state from now on."""
        known = max(self.config.encoders, default=0)
        newer = [schema for schema in published.schemas if schema.version > known]
        if newer:
            self.evolve(self.config.with_schemas(newer))
        generator = self.serving.generator
        published = published._replace(state=fitted(published.state, self.config))
        self.serving.restore(published.state, generator, published.learned, published.refused)
        self.published = published

    def draw_line(self, generator: str) -> None:
        """Draw from where the last ranking in the log left the ranker's own generator."""
        position = self.serving.generator
        if generator:
            state, inc = (int(part, 16) for part in generator.split("/"))
            position |= {"state": {"state": state, "inc": inc}, "has_uint32": 0, "uinteger": 0}
        published = self.published
        self.serving.restore(published.state, position, published.learned, published.refused)
        self.is_line = True

    def evolve(self, config: RankerConfig) -> None:
        """Rank by the next version of the schema."""
        self.config, self.serving = config, evolved_session(self.serving, config)
        self.published = self.published._replace(state=self.serving.state)

    def rank(self, request: QueryRequest, impression: str, compared: bool | None = None) -> Ranked:
        """A decision as an event; it counts once it is in the log. `compared` with the base order, or None by lot."""
        body = self.body
        if compared is None:
            lot = body.evaluation_share and draws_of(body.seed, impression, "lot").random()
            compared = bool(body.evaluation_share) and lot < body.evaluation_share
        if compared and self.config.base_column is None:
            raise Rejected("compared", "this ranker has no base to be compared with")
        if compared:
            return self._compare(request, impression)
        decision = self.serving.rank(request.query, None if self.is_line else draws_of(body.seed, impression))
        order, trainable = decision.ranking, request.shows_as_ranked(self.config.problem)
        propensity = float(decision.log_propensity)
        if body.shadow:
            order, propensity = self._base_ranking(request), 0.0
        return self._event(
            request,
            impression,
            order,
            decision=decision_to_plain(decision),
            trainable=trainable,
            log_propensity=propensity if trainable and np.isfinite(propensity) else None,
            explored=self._explored(decision.ranking, self.serving.predict(request.query)),
            generator=self._position() if self.is_line else "",
        )

    def take_in(self, request: QueryRequest, impression: str, order: Sequence[Id]) -> Ranked:
        """A page that others have shown, in their order; learned from as a shadow learns from today's order."""
        number = {str(id): i for i, id in enumerate(request.ids)}
        found = [number.get(str(id), -1) for id in order]
        if request.pinned or request.candidates is not None or sorted(found) != list(range(len(request.ids))):
            raise Rejected("order", "must name every item once, and nothing may be pinned or excluded")
        ranked = self.rank(request, impression, compared=False)
        ranked.order, ranked.elsewhere, ranked.explored, ranked.log_propensity = found, True, 0.0, None
        return ranked

    def _position(self) -> str:
        generator = self.serving.generator["state"]
        return f"{generator['state']:x}/{generator['inc']:x}"

    def _base_ranking(self, request: QueryRequest) -> Ints:
        """Today's order."""
        features, column = request.query.features, self.config.base_column
        numbers = features.dense if type(features) is Rows else features
        return ranking_of(np.ascontiguousarray(numbers[:, column]))

    def _explored(self, ranking: Ints, predicted: Ints) -> float:
        """The share of the seen positions, by their DCG discount, at which another than the predicted item stands."""
        shown = self.config.problem.shown
        seen = len(ranking) if shown is None else min(shown, len(ranking))
        weights = DISCOUNTS[:seen] if seen <= len(DISCOUNTS) else discounts(seen)
        return float(weights[ranking[:seen] != predicted[:seen]].sum() / weights.sum())

    def _compare(self, request: QueryRequest, impression: str) -> Ranked:
        """Prediction and base order as one list: it shows what the ranker knows, and nobody learns from it."""
        predicted, base = self.serving.predict(request.query), self._base_ranking(request)
        mixed = interleave(TEAM_DRAFT, predicted, base, draws_of(self.body.seed, impression, "mixture"))
        return self._event(request, impression, mixed.ranking, mixed=to_plain(mixed), trainable=False)

    def _event(self, request: QueryRequest, impression: str, ranking: Ints, **more: Any) -> Ranked:
        if request.values is not None:
            more |= values_of(request)
        return Ranked(
            impression=impression,
            ids=request.ids,
            features=request.features.tobytes(),
            order=request.shown_order(ranking),
            query_id=request.query.id,
            context=request.query.context.tolist(),
            candidates=request.candidates,
            state_number=self.published.number,
            base_model=request.base_model,
            **more,
        )


def values_of(request: QueryRequest) -> dict[str, Any]:
    """What an event says of a request by names."""
    values = request.values
    if values is None:
        return {}
    kept = packed(values.rows, values.context)
    return {"values": kept, "at": values.at, "schema": values.schema, "catalogue": request.catalogue}
