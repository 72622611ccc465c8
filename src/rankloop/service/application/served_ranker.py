"""A served ranker: requests are ranked and their live propensity is logged; a newly learned state is swapped in."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import PCG64, Generator

from rankloop.adapter import INVALID_ID, MAX_NUMBERS_AT_ONCE, Id, QueryRequest, are_valid_ids
from rankloop.core.errors import Conflict, Rejected
from rankloop.core.kernels import discounts
from rankloop.core.plain_values import decision_to_plain, to_plain
from rankloop.core.types import Ints
from rankloop.interleaving import interleave
from rankloop.service.domain.base_score import BASE_SCORE
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.counters import LOST_TO_BASE, SavedProjection, published_counts
from rankloop.service.domain.experiment import ServedExperiment
from rankloop.service.domain.health import StateView
from rankloop.service.domain.named_values import logged_values, packed_values
from rankloop.service.domain.projection import TEAM_DRAFT
from rankloop.service.domain.trainer import PublishedState, Trainer
from rankloop.service.errors import TooLarge
from rankloop.service.log.writer import entry_of
from rankloop.service.records import Ranked, Values
from rankloop.service.request_bodies import CreateBody, Item, RankBody, RankResponse

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

DCG_DISCOUNTS = discounts(1000)  # of lists up to this length
MAX_FEATURE_VALUES = 16_000_000  # of the items of a ranking: 128 MB
MAX_NAMED_VALUES = 2_000_000  # with a schema, whose encoder reads each
NUMBERS_PER_CHARACTER = 10  # that take as long to read as one character beyond ASCII
NUMBER_TYPES = {float, int}


class ServedRanker:
    """A ranker that is served. It is used on the event loop only, so a ranking and its state number belong together."""

    def __init__(self, entity: str, config: RankerConfig, start: bytes, catalogue: ItemCatalogue | None = None) -> None:
        self.entity = entity
        self.config = config
        self.catalogue = catalogue
        self.changed_after = 0  # the last event that is in its configuration
        first = Trainer(config, start)
        self.serving = first.session
        self.draws_in_sequence = False  # from one generator, as `play` does: only in the process that learns it
        self.published = first.published()

    @property
    def name(self) -> str:
        """The name of the ranker."""
        return self.entity.partition("/")[2]

    @property
    def body(self) -> CreateBody:
        """The settings that it was created with."""
        return self.config.body

    @property
    def projection(self) -> SavedProjection:
        """Counts and flags as they were published last."""
        return published_counts(self.published.projection)

    def view(self) -> StateView:
        """Return the state that is served, to look at it."""
        return StateView(self.config, self.published.state)

    def swap_in(self, published: PublishedState, replaces_any: bool = False) -> None:
        """Rank from another state from now on if it is newer; `replaces_any` after a change of the log."""
        current = self.published
        if not replaces_any and published.seq <= current.seq and current.projection:
            return
        if published.schemas:
            version = max(self.config.encoders, default=0)
            newer = [schema for schema in published.schemas if schema.version > version]
            if newer:
                self.change_config(self.config.with_schemas(newer))
            published = published._replace(state=self.config.fitted(published.state))
        if published.state is not current.state or published.refused != current.refused:
            self.serving.restore(published.state, None, published.learned, published.refused)
        self.published = published

    def draw_in_sequence(self, is_learned_here: bool) -> None:
        """Draw rankings from one generator, from the last one in the log on; elsewhere each has a generator."""
        self.draws_in_sequence = is_learned_here
        if not is_learned_here:
            return
        position, generator = self.serving.generator, self.projection.generator_state
        if generator:
            state, inc = (int(part, 16) for part in generator.split("/"))
            position |= {"state": {"state": state, "inc": inc}, "has_uint32": 0, "uinteger": 0}
        published = self.published
        self.serving.restore(published.state, position, published.learned, published.refused)

    def change_config(self, config: RankerConfig) -> None:
        """Rank by a configuration with a newer schema."""
        self.config, self.serving = config, config.evolved_session(self.serving)
        self.published = self.published._replace(state=self.serving.state)

    def rank(self, request: QueryRequest, impression: str, compared: bool | None = None) -> Ranked:
        """Rank a query; the returned event takes effect once it is in the log.

        A compared ranking is the predicted order interleaved with the base order; None draws whether it is one.
        """
        body, base = self.config.body, self.config.body.base
        # It has lost to a base that none of its states equals: the base order is shown.
        falls_back = body.guard and base is not None and not base.weight and self.projection.reason == LOST_TO_BASE
        if compared is None:
            share = 0.0 if falls_back else body.evaluation_share
            compared = bool(share) and _generator_of(body.seed, impression, "lot").random() < share
        if compared and base is None:
            raise Rejected("compared", "this ranker has no base to compare with")
        if compared:
            return self._compare(request, impression)
        query, serving = request.query, self.serving
        decision = serving.rank(query, None if self.draws_in_sequence else _generator_of(body.seed, impression))
        generator = serving.generator["state"] if self.draws_in_sequence else None  # `predict` draws nothing
        predicted = serving.predict(query)
        trainable = request.shows_as_ranked(self.config.problem) and not falls_back
        log_propensity = float(decision.log_propensity)
        if body.shadow or falls_back:
            order, log_propensity = request.shown_order(self.config.base.order(request)), 0.0
        else:
            order = request.shown_order(decision.ranking)
        plain = decision_to_plain(decision)
        ranked = self._event(request, impression, order)
        ranked.decision, ranked.trainable = plain, trainable
        if self.config.rules is not None:
            ranked.order, ranked.rules, ranked.reordered = self.config.ruled_order(request, order)
            if ranked.reordered and log_propensity != 0.0:  # several rankings of the policy may lead to this order
                log_propensity = np.nan
        ranked.log_propensity = log_propensity if trainable and np.isfinite(log_propensity) else None
        ranked.explored = self._explored(decision.ranking, predicted)
        if generator is not None:
            ranked.generator_state = f"{generator['state']:x}/{generator['inc']:x}"
        return ranked

    def ingest_page(self, request: QueryRequest, impression: str, order: Sequence[Id]) -> Ranked:
        """Make the event of a page that another system has shown; it is learned from like a shadow ranking."""
        number = {str(id): i for i, id in enumerate(request.ids)}
        positions = [number.get(str(id), -1) for id in order]
        if request.pinned or request.candidates is not None or sorted(positions) != list(range(len(request.ids))):
            raise Rejected("order", "must contain every item once, without pinned or excluded items")
        ranked = self.rank(request, impression, compared=False)
        ranked.order, ranked.ingested, ranked.explored, ranked.log_propensity = positions, True, 0.0, None
        ranked.rules, ranked.reordered = {}, False
        return ranked

    def _explored(self, ranking: Ints, predicted: Ints) -> float:
        """Return the share of shown positions, by DCG discount, with another item than predicted."""
        shown = self.config.problem.shown
        n_seen = len(ranking) if shown is None else min(shown, len(ranking))
        weights = DCG_DISCOUNTS[:n_seen] if n_seen <= len(DCG_DISCOUNTS) else discounts(n_seen)
        return float(weights[ranking[:n_seen] != predicted[:n_seen]].sum() / weights.sum())

    def _compare(self, request: QueryRequest, impression: str) -> Ranked:
        """Interleave the predicted order with the base order; the ranking is for evaluation only."""
        predicted, base = self.serving.predict(request.query), self.config.base.order(request)
        mixed = interleave(TEAM_DRAFT, predicted, base, _generator_of(self.body.seed, impression, "mixture"))
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
            rules=dict(request.rules),
        )
        if request.values is not None:
            ranked.values, ranked.at = packed_values(request.values), request.values.at
            ranked.schema = request.values.schema
        return ranked


def _n_characters(body: RankBody) -> int:
    """Return the number of characters in texts that are not ASCII, whose normal form takes longest."""
    rows = [body.context, *(item.features for item in body.items)]
    values = (value for row in rows if isinstance(row, dict) for value in row.values() if type(value) is str)
    return sum(len(value) for value in values if not value.isascii())


def _generator_of(seed: int, impression: str, purpose: str = "") -> Generator:
    """Return the random generator of an impression, so that no process needs to know the draws of others."""
    key = blake2b(f"{seed} {impression} {purpose}".encode(), digest_size=16).digest()
    return Generator(PCG64(int.from_bytes(key, "big")))


class Ranking:
    """Rankings of rankers and of experiments."""

    def __init__(self, node: "Node") -> None:
        self.node = node

    async def rank(
        self, name: str, body: RankBody, key: str | None = None, compared: bool | None = None, experiment: bool = False
    ) -> RankResponse:
        """Return the order to show, by a ranker, an alias or an experiment of this name.

        A request with the same key gets the same response. A compared list is the predicted order interleaved with the
        base order, and not learned from; None draws whether it is one.
        """
        directory = self.node.directory
        runtime: ServedRanker | ServedExperiment | None = directory.rankers.get(name)
        if experiment:
            runtime = await directory.find_experiment(name)
        elif runtime is None:
            name, *_ = await directory.find_targets(name)
            runtime = await directory.find_ranker(name)
        request = await self._request(runtime, body)
        impression = f"{time.time_ns():016x}{secrets.token_hex(8)}"  # a name that sorts by time
        if key is not None:
            impression = f"k{hashlib.sha256(key.encode()).hexdigest()[:32]}"
            logged = await self.logged_ranking(runtime.entity, impression)
            if logged is not None:
                return _response(_same_request(logged, request))
        if isinstance(runtime, ServedExperiment):
            if body.order:
                raise Rejected("order", "an experiment shows its own list: send pages of other systems to a ranker")
            ranked = runtime.rank(request, impression, body.user)
        elif body.order:
            ranked = runtime.ingest_page(request, impression, body.order)
        else:
            ranked = runtime.rank(request, impression, compared)
        ranked.user, ranked.session, ranked.tags = body.user, body.session, body.tags
        del body  # it is large, and this may wait for the disk together with many others
        written = await self.node.log.append(entry_of(runtime.entity, ranked, once=key is not None))
        if written.verdict == "repeated":  # two requests with one key at the same moment
            ranked = _same_request(await self.logged_ranking(runtime.entity, impression) or ranked, request)
        return _response(ranked)

    async def logged_ranking(self, entity: str, impression: str) -> Ranked | None:
        """Return the ranking of an impression from the log."""
        records = await asyncio.to_thread(self.node.store.records_of_impression, entity, impression)
        return next((record.event for record in records if isinstance(record.event, Ranked)), None)

    async def _request(self, runtime: ServedRanker | ServedExperiment, body: RankBody) -> QueryRequest:
        """Return the query of a request; fields and rows that are unknown here may be new in another process."""
        config, catalogue, max_items = runtime.config, runtime.catalogue, self.node.settings.max_items
        try:
            n_values = (len(body.items) + len(body.ids)) * config.adapter.n_features
            n_values += NUMBERS_PER_CHARACTER * _n_characters(body) if config.encoders else 0
            if n_values > MAX_NUMBERS_AT_ONCE:  # it would block the event loop
                return await asyncio.to_thread(query_request, body, config, max_items, catalogue)
            return query_request(body, config, max_items, catalogue)
        except Rejected:
            if not self.node.store.shared or not config.encoders:
                raise
        if catalogue is not None:
            await asyncio.to_thread(catalogue.catch_up)
        rankers = runtime.compared if isinstance(runtime, ServedExperiment) else []
        for each in (runtime, *rankers):
            await self.node.directory.refresh(each.entity)
        return query_request(body, runtime.config, max_items, catalogue)


def query_request(
    body: RankBody, config: RankerConfig, max_items: int, catalogue: ItemCatalogue | None = None
) -> QueryRequest:
    """Return the query of a request.

    Args:
      body: The request.
      config: Of the ranker.
      max_items: The limit of the service.
      catalogue: For values of items that the request does not give.

    Raises:
      Rejected: If a field is wrong.
      TooLarge: If there are too many items or values.
    """
    n_items = len(body.items) + len(body.ids)
    if n_items > max_items:
        raise TooLarge(f"items: {n_items} items, the limit is {max_items}")
    n_values, limit = n_items * config.adapter.n_features, MAX_NAMED_VALUES if config.encoders else MAX_FEATURE_VALUES
    if n_values > limit:
        advice = "combine rare fields into one" if config.encoders else "use a schema"
        problem = f"items: {n_values:,} values, missing ones included; the limit is {limit:,}"
        raise TooLarge(f"{problem}. Rank fewer items, or {advice}")
    base_model = config.base.model if body.base_model is None else config.base.model_named(body.base_model)
    if config.encoders:
        return _named_request(body, config, catalogue)._replace(base_model=base_model)
    if body.ids:
        raise Rejected("ids", "items without features need a catalogue and a schema; give items with their features")
    ids, rows = [item.id for item in body.items], [item.features for item in body.items]
    if {list} != set(map(type, rows)):
        _check_numbers(body.items)
    if not are_valid_ids(ids):
        raise Rejected("items", INVALID_ID)
    try:
        if config.rules is None:
            request = config.adapter.query(ids, rows, body.context, body.query_id, body.pinned, body.excluded)
        else:
            request = config.ruled_query(ids, rows, body)
    except OverflowError:
        raise Rejected("items", "a number is beyond 1e308") from None
    if config.base.computed_score:
        request = config.base.with_score(request)
    return request._replace(base_model=base_model) if base_model else request


def _named_request(body: RankBody, config: RankerConfig, catalogue: ItemCatalogue | None) -> QueryRequest:
    """Return the query of a request to a ranker with a schema."""
    ids = [*(item.id for item in body.items), *body.ids]
    if not are_valid_ids(ids):
        raise Rejected("items", INVALID_ID)
    rows: list[Values] = []
    for item in body.items:  # one without features has an empty list
        if item.features and not isinstance(item.features, Mapping):
            raise Rejected("items", f"item {item.id!r:.80} has a list of numbers; with a schema give values by name")
        rows.append(item.features or {})  # type: ignore[arg-type]
    rows += [{}] * len(body.ids)
    if body.ids and catalogue is None:
        raise Rejected("ids", "items by id alone need a catalogue in the ranker's problem; give items with features")
    if not ids and catalogue is not None:
        ids, rows = list(config.adapter.items), [{}] * len(config.adapter.items)
    if config.base.computed_score == BASE_SCORE and any(BASE_SCORE in row for row in rows):
        raise Rejected("items", f"{BASE_SCORE!r} is computed by the ranker's base: leave it out")
    if catalogue is not None:
        rows = catalogue.completed(ids, rows, frozenset(config.adapter.feature_names))
    rows = config.base.with_values(rows, body.query_id)
    request = config.ruled_query(ids, rows, body, time.time())
    return request._replace(has_catalogue=catalogue is not None)


def _check_numbers(items: list[Item]) -> None:
    """Raise `Rejected` if a feature is no number, for a ranker without a schema."""
    for position, item in enumerate(items):
        row = item.features
        if isinstance(row, dict) and not NUMBER_TYPES.issuperset(map(type, row.values())):
            name, value = next((name, value) for name, value in row.items() if type(value) not in NUMBER_TYPES)
            where = f"items[{position}].features.{name:.80}"
            raise Rejected(where, f"item {item.id!r:.80}: {name} must be a number, got {value!r:.60}")


def _same_request(logged: Ranked, request: QueryRequest) -> Ranked:
    """Return a logged ranking if it is of the same request; else raise `Conflict`."""
    query, pinned, values = request.query, request.pinned, request.values
    to_show = sorted(request.shown_order(np.arange(query.n_items)))
    content = (request.ids, request.features.tobytes(), query.id, query.context.tolist())
    is_same = content == (logged.ids, logged.features, logged.query_id, logged.context)
    if not logged.rules and not request.rules:  # rules may have changed since
        is_same = is_same and (pinned, to_show) == (logged.order[: len(pinned)], sorted(logged.order))
    if is_same and logged.base_model != request.base_model:
        raise Conflict("this Idempotency-Key was used for a base score of another model")
    is_same = is_same and bool(logged.values) == (values is not None)
    if is_same and values is not None:  # rows of a catalogue may have changed since
        same = logged_values(logged)
        is_same = same.context == values.context and (request.has_catalogue or same.rows == values.rows)
    if not is_same:
        raise Conflict("this Idempotency-Key was used for another ranking")
    return logged


def _response(ranked: Ranked) -> RankResponse:
    order = [ranked.ids[i] for i in ranked.order]
    return RankResponse(ranked.impression, order, ranked.state_number, ranked.log_propensity)
