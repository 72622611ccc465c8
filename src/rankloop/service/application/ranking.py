"""Ranking: requests become queries, queries become rankings from the newest published state, and the log keeps them."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import PCG64, Generator

from rankloop.adapter import INVALID_ID, MAX_ID_LENGTH, MAX_NUMBERS_AT_ONCE, Id, QueryRequest, are_valid_ids
from rankloop.core.errors import Conflict, Rejected
from rankloop.core.kernels import discounts, ranking_of
from rankloop.core.serialisation import decision_to_plain, to_plain
from rankloop.core.types import Floats, Ints, Rows
from rankloop.interleaving import interleave
from rankloop.service.application.jobs.history import Curve
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.domain.configuration import RankerConfig, named_model
from rankloop.service.domain.counters import SavedProjection, saved_projection
from rankloop.service.domain.experiment import ServedExperiment
from rankloop.service.domain.named_values import add_values, named_request, same_values
from rankloop.service.domain.projection import TEAM_DRAFT, PublishedState
from rankloop.service.domain.trainer import Trainer, evolved_session, fitted
from rankloop.service.errors import TooLarge
from rankloop.service.log.writer import entry_of
from rankloop.service.records import Ranked
from rankloop.service.requests import CreateBody, PackedRankBody, RankBody, RankResponse, check_tags

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

DISCOUNTS = discounts(1000)  # of every list that is not longer
MAX_NUMBERS = 16_000_000  # of the items of a ranking, given or not: 128 MB
MAX_NAMED_VALUES = 2_000_000  # the same by a schema, whose encoder looks at each
NUMBERS = {float, int}


class ServedRanker:
    """One ranker in service. All of it runs on the event loop, so a ranking and its state number belong together."""

    def __init__(self, entity: str, config: RankerConfig, start: bytes, catalogue: ItemCatalogue | None = None) -> None:
        self.entity = entity
        self.config = config
        self.catalogue = catalogue
        self.changed_after = 0  # the last event that its configuration follows from
        self.curve = Curve()
        first = Trainer(config, start)
        self.serving = first.session
        self.is_line = False  # whether it draws one ranking after the other, as `play` does: where it is learned too
        self.published = first.published()
        self._projection = SavedProjection()
        self._decoded = b""

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

    def publish(self, published: PublishedState, is_newer: bool = False) -> None:
        """Rank from this state from now on, if it is newer than the one before; `is_newer`: it was learned again."""
        before = self.published
        if not is_newer and published.seq <= before.seq and before.projection:
            return
        if published.schemas:
            known = max(self.config.encoders, default=0)
            newer = [schema for schema in published.schemas if schema.version > known]
            if newer:
                self.evolve(self.config.with_schemas(newer))
            published = published._replace(state=fitted(published.state, self.config))
        if published.state is not before.state or published.refused != before.refused:
            generator = self.serving.generator
            self.serving.restore(published.state, generator, published.learned, published.refused)
        self.published = published

    def recount(self, seq: int, projection: bytes) -> None:
        """Take newer counts of the state that is served, or of the one that is about to come."""
        if seq > self.published.seq:
            self.published = self.published._replace(projection=projection)

    def draw_line(self) -> None:
        """Draw from where the last ranking in the log left the ranker's own generator."""
        position, generator = self.serving.generator, self.projection.generator_state
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
        """Make a decision as an event, which counts once it is in the log.

        Args:
          request: What is asked.
          impression: Its name.
          compared: Whether it shows the prediction mixed with the base order; None leaves it to chance.
        """
        body = self.config.body
        if compared is None:
            lot = body.evaluation_share and draws_of(body.seed, impression, "lot").random()
            compared = bool(body.evaluation_share) and lot < body.evaluation_share
        if compared and self.config.base_column is None:
            raise Rejected("compared", "this ranker has no base to be compared with")
        if compared:
            return self._compare(request, impression)
        query, serving = request.query, self.serving
        decision = serving.rank(query, None if self.is_line else draws_of(body.seed, impression))
        generator = serving.generator["state"] if self.is_line else None  # to predict draws nothing
        predicted = serving.predict(query)
        trainable, propensity = request.shows_as_ranked(self.config.problem), float(decision.log_propensity)
        if body.shadow:
            order, propensity = request.shown_order(self._base_ranking(request)), 0.0
        else:
            order = request.shown_order(decision.ranking)
        plain = decision_to_plain(decision)
        ranked = self._event(request, impression, order)
        ranked.decision, ranked.trainable = plain, trainable
        ranked.log_propensity = propensity if trainable and np.isfinite(propensity) else None
        ranked.explored = self._explored(decision.ranking, predicted)
        if generator is not None:
            ranked.generator_state = f"{generator['state']:x}/{generator['inc']:x}"
        return ranked

    def take_in(self, request: QueryRequest, impression: str, order: Sequence[Id]) -> Ranked:
        """Log a page that others have shown, in their order; learned from as a shadow learns from today's order."""
        number = {str(id): i for i, id in enumerate(request.ids)}
        positions = [number.get(str(id), -1) for id in order]
        if request.pinned or request.candidates is not None or sorted(positions) != list(range(len(request.ids))):
            raise Rejected("order", "must name every item once, and nothing may be pinned or excluded")
        ranked = self.rank(request, impression, compared=False)
        ranked.order, ranked.ingested, ranked.explored, ranked.log_propensity = positions, True, 0.0, None
        return ranked

    def _base_ranking(self, request: QueryRequest) -> Ints:
        """Today's order."""
        features, column = request.query.features, self.config.base_column
        numbers = features.dense if type(features) is Rows else features
        return ranking_of(np.ascontiguousarray(numbers[:, column]))

    def _explored(self, ranking: Ints, predicted: Ints) -> float:
        """The share of the seen positions, by their DCG discount, at which another than the predicted item stands."""
        shown = self.config.problem.shown
        n_seen = len(ranking) if shown is None else min(shown, len(ranking))
        weights = DISCOUNTS[:n_seen] if n_seen <= len(DISCOUNTS) else discounts(n_seen)
        return float(weights[ranking[:n_seen] != predicted[:n_seen]].sum() / weights.sum())

    def _compare(self, request: QueryRequest, impression: str) -> Ranked:
        """Show prediction and base order as one list: it tells what the ranker knows, and nobody learns from it."""
        predicted, base = self.serving.predict(request.query), self._base_ranking(request)
        mixed = interleave(TEAM_DRAFT, predicted, base, draws_of(self.body.seed, impression, "mixture"))
        ranked = self._event(request, impression, request.shown_order(mixed.ranking))
        ranked.mixed, ranked.trainable = to_plain(mixed), False
        return ranked

    def _event(self, request: QueryRequest, impression: str, order: list[int]) -> Ranked:
        ranked = Ranked(
            impression=impression,
            ids=request.ids,
            features=request.features.tobytes(),
            order=order,
            query_id=request.query.id,
            context=request.query.context.tolist(),
            candidates=request.candidates,
            state_number=self.published.number,
            base_model=request.base_model,
        )
        if request.values is not None:
            add_values(ranked, request)
        return ranked


def draws_of(seed: int, impression: str, purpose: str = "") -> Generator:
    """A generator of its own for every impression: no two workers draw the same, and no draw has to be remembered."""
    key = blake2b(f"{seed} {impression} {purpose}".encode(), digest_size=16).digest()
    return Generator(PCG64(int.from_bytes(key, "big")))


class Ranking:
    """The rankings that visitors ask for, of rankers and of comparisons."""

    def __init__(self, node: "Node") -> None:
        self.node = node

    async def rank(
        self, name: str, body: RankBody, key: str | None = None, compared: bool | None = None
    ) -> RankResponse:
        """Return the order to show.

        Args:
          name: Of a ranker, or an alias of one.
          body: The request.
          key: A request with the same key gets the same answer.
          compared: Show the predicted order mixed with the base order, and teach nobody; None leaves it to chance.
        """
        directory = self.node.directory
        ranker = directory.rankers.get(name)
        if ranker is None:
            name, *_ = await directory.find_targets(name)
            ranker = await directory.find_ranker(name)
        request, impression = await self._request(ranker, body), _new_impression(key)
        shown = None if key is None else await self.shown_before(ranker.entity, impression)
        if shown is not None:
            return _answer(_same_request(shown, request))
        if body.order:
            ranked = ranker.take_in(request, impression, body.order)
        else:
            ranked = ranker.rank(request, impression, compared)
        ranked.user, ranked.session, ranked.tags = body.user, body.session, body.tags
        del body  # it is large, and this may wait for the disk together with many others
        return await self._log(ranker.entity, ranked, request, once=key is not None)

    async def rank_experiment(self, name: str, body: RankBody, key: str | None = None) -> RankResponse:
        """Return one list from both sides; a request with the same `key` gets the same answer."""
        comparison = await self.node.directory.find_experiment(name)
        request, impression = await self._request(comparison, body), _new_impression(key)
        shown = None if key is None else await self.shown_before(comparison.entity, impression)
        if shown is not None:
            return _answer(_same_request(shown, request))
        if body.order:
            raise Rejected("order", "a comparison shows its own list: give the pages of others to a ranker")
        ranked = comparison.rank(request, impression)
        ranked.user, ranked.session, ranked.tags = body.user, body.session, body.tags
        del body
        return await self._log(comparison.entity, ranked, request, once=key is not None)

    async def shown_before(self, entity: str, impression: str) -> Ranked | None:
        """Return what was shown under this name, from the log."""
        records = await asyncio.to_thread(self.node.store.records_of_impression, entity, impression)
        return next((record.event for record in records if isinstance(record.event, Ranked)), None)

    async def _log(self, entity: str, ranked: Ranked, request: QueryRequest, once: bool) -> RankResponse:
        written = await self.node.log.append(entry_of(entity, ranked, once=once))
        if written.verdict == "repeated":  # the same request, twice at the same moment
            ranked = _same_request(await self.shown_before(entity, ranked.impression) or ranked, request)
        return _answer(ranked)

    async def _request(self, runtime: ServedRanker | ServedExperiment, body: RankBody) -> QueryRequest:
        """What is asked; a field or a row that is not known here may be a moment old, and known to another worker."""
        config, catalogue, max_items = runtime.config, runtime.catalogue, self.node.settings.max_items
        try:
            if (
                len(body.items) + len(body.ids)
            ) * config.adapter.n_features > MAX_NUMBERS_AT_ONCE:  # others need not wait for it
                return await asyncio.to_thread(query_request, body, config, max_items, catalogue)
            return query_request(body, config, max_items, catalogue)
        except Rejected:
            if not self.node.store.shared or not config.encoders:
                raise
        if catalogue is not None:
            await asyncio.to_thread(catalogue.catch_up)
        sides = [side.ranker for side in runtime.sides] if isinstance(runtime, ServedExperiment) else []
        for entity in (runtime.entity, *(side.entity for side in sides if side is not None)):
            await self.node.directory.refresh(entity)
        return query_request(body, runtime.config, max_items, catalogue)


def query_request(
    body: RankBody, config: RankerConfig, max_items: int, catalogue: ItemCatalogue | None = None
) -> QueryRequest:
    """Make the query of a request, or raise `Rejected` with the field that is wrong."""
    n_items = len(body.items) + len(body.ids)
    if n_items > max_items:
        raise TooLarge(f"items: {n_items} items, the limit is {max_items}")
    n_values, limit = n_items * config.adapter.n_features, MAX_NAMED_VALUES if config.encoders else MAX_NUMBERS
    if n_values > limit:
        advice = "put what is seldom there into one field" if config.encoders else "give a schema"
        said = f"items: they have {n_values:,} values with those that are not given; at most {limit:,} are taken"
        raise TooLarge(f"{said}. Rank fewer, or {advice}")
    for field in ("query_id", "user", "session"):
        if len(getattr(body, field)) > MAX_ID_LENGTH:
            raise Rejected(field, f"longer than {MAX_ID_LENGTH} characters")
    if body.tags:
        check_tags(body.tags)
    base_model = config.base_model if body.base_model is None else named_model(body.base_model, config)
    packed = body if type(body) is PackedRankBody and body.features else None
    if config.encoders and packed is not None:
        raise Rejected("features", "this ranker has a schema; give values by name")
    if config.encoders:
        return named_request(body, config, catalogue)._replace(base_model=base_model)
    rows: list[Any] | Floats = [item.features for item in body.items]
    ids = [item.id for item in body.items]
    if packed is not None:
        ids, rows = packed.ids, packed.rows(config.adapter.n_features)
    if body.ids and packed is None:
        raise Rejected("ids", "items by id alone need a catalogue and a schema; give items with their features")
    check_numbers(ids, rows)
    if not are_valid_ids(ids):
        raise Rejected("items", INVALID_ID)
    try:
        request = config.adapter.query(ids, rows, body.context, body.query_id, body.pinned, body.excluded)
    except OverflowError:
        raise Rejected("items", "a number is beyond 1e308") from None
    if config.booster is not None:
        return config.with_booster_score(request)._replace(base_model=base_model)
    if config.base_weights is None:
        return request._replace(base_model=base_model) if base_model else request
    query = request.query
    return request._replace(query=query._replace(features=config.with_base_score(query.features)))


def check_numbers(ids: list[Id], rows: list[Any] | Floats) -> None:
    """Refuse what is no number, where features are numbers: the body of a request may hold any value."""
    if isinstance(rows, np.ndarray) or {list} == set(map(type, rows)):
        return
    for position, (id, row) in enumerate(zip(ids, rows)):
        if isinstance(row, dict) and not NUMBERS.issuperset(map(type, row.values())):
            name, value = next((name, value) for name, value in row.items() if type(value) not in NUMBERS)
            where = f"items[{position}].features.{name:.80}"
            raise Rejected(where, f"item {id!r:.80}: {name} must be a number, got {value!r:.60}")


def _new_impression(key: str | None) -> str:
    """A name for an impression that sorts by time; for a request with a key always the same one."""
    if key is not None:
        return f"k{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return f"{time.time_ns():016x}{secrets.token_hex(8)}"


def _same_request(before: Ranked, request: QueryRequest) -> Ranked:
    """Return what was shown before, if the same was asked; else raise `Conflict`."""
    query, pinned = request.query, request.pinned
    to_show = sorted(request.shown_order(np.arange(query.n_items)))
    given = (request.ids, request.features.tobytes(), query.id, query.context.tolist(), pinned, to_show)
    pins = before.order[: len(pinned)]
    if given != (before.ids, before.features, before.query_id, before.context, pins, sorted(before.order)):
        raise Conflict("this Idempotency-Key was used for another ranking")
    if before.base_model != request.base_model:
        raise Conflict("this Idempotency-Key was used for a base score of another model")
    if request.values is not None and not same_values(before, request.values):
        raise Conflict("this Idempotency-Key was used for another ranking")
    return before


def _answer(ranked: Ranked) -> RankResponse:
    ids: list[Id] = ranked.ids
    order = [ids[i] for i in ranked.order]
    return RankResponse(ranked.impression, order, ranked.state_number, ranked.log_propensity)
