"""The service: rankers and comparisons over one log. What comes with every page view is here, the rest beside it."""

import asyncio
import hashlib
import secrets
import time
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from rankloop.adapter import INVALID_ID, MAX_ID_LENGTH, MAX_STEP, Id, QueryRequest, are_valid_ids
from rankloop.core.errors import Conflict, NotFound, Rejected
from rankloop.core.types import Floats
from rankloop.service.directory import Runtime
from rankloop.service.errors import Late, TooLarge
from rankloop.service.log.catalogue import Catalogue
from rankloop.service.log.events import FeedbackReceived, Ranked
from rankloop.service.log.writer import settled_entry
from rankloop.service.operations import Operations
from rankloop.service.ranker.comparison import ComparisonRuntime
from rankloop.service.ranker.config import RankerConfig, named_model
from rankloop.service.ranker.feedback import check_complete, fingerprint, merged, received_feedback
from rankloop.service.ranker.impressions import Impression
from rankloop.service.ranker.named_requests import named_request, same_values
from rankloop.service.ranker.runtime import RankerRuntime
from rankloop.service.requests import (
    FeedbackAnswer,
    FeedbackBody,
    PackedRankBody,
    RankAnswer,
    RankBody,
    check_tags,
)

MAX_NAME_LENGTH = 64
MAX_NUMBERS = 16_000_000  # of the items of a ranking, given or not: 128 MB
MAX_NAMED_VALUES = 2_000_000  # the same by a schema, whose encoder looks at each
NUMBERS = {float, int}


class About(NamedTuple):
    """What the log says of a request beside what was ranked."""

    user: str
    session: str
    tags: dict[str, str]
    order: list[Id]  # of a page that others have shown


class Service(Operations):
    """Everything behind the HTTP calls; what visitors ask for is here."""

    async def rank(self, name: str, body: RankBody, key: str | None = None, compared: bool | None = None) -> RankAnswer:
        """The order to show; a request with the same `key` gets the same answer.

        `compared` shows the predicted order mixed with the base order, and teaches nobody; None leaves it to chance.
        """
        if name not in self.rankers:
            name, *_ = await self.find_targets(name)
        runtime = await self.find_ranker(name)
        request, about = await self._request(runtime, body), About(body.user, body.session, body.tags, body.order)
        del body  # it is large, and this may wait for the disk together with many others
        return await self._rank(runtime, request, about, key, compared)

    async def rank_comparison(self, name: str, body: RankBody, key: str | None = None) -> RankAnswer:
        """One list from both sides; a request with the same `key` gets the same answer."""
        runtime = await self.find_comparison(name)
        request, about = await self._request(runtime, body), About(body.user, body.session, body.tags, body.order)
        del body
        return await self._rank(runtime, request, about, key)

    async def feedback(self, name: str, body: FeedbackBody) -> FeedbackAnswer:
        """What came back for a ranking."""
        if name not in self.rankers:
            return await self._feedback_of_alias(name, body)
        runtime = self.rankers[name]
        verdict: Any = await self._receive(runtime, body)
        return FeedbackAnswer(body.impression, verdict, runtime.published.number)

    async def _feedback_of_alias(self, name: str, body: FeedbackBody) -> FeedbackAnswer:
        """Of what the ranker has shown to which the name leads, or one of those to which it led before."""
        *before, oldest = await self.find_targets(name)
        for target in before:
            with suppress(NotFound):
                return await self.feedback((await self.find_ranker(target)).name, body)
        return await self.feedback((await self.find_ranker(oldest)).name, body)

    async def feedback_comparison(self, name: str, body: FeedbackBody) -> FeedbackAnswer:
        """The clicks on such a list."""
        verdict: Any = await self._receive(await self.find_comparison(name), body)
        return FeedbackAnswer(body.impression, verdict, 0)

    async def _rank(
        self, runtime: Runtime, request: QueryRequest, about: About, key: str | None, compared: bool | None = None
    ) -> RankAnswer:
        impression = _new_impression(key)
        if key is not None:
            before = await self._ranked_before(runtime, impression)
            if before is not None:
                return _answer(_same_request(before, request))
        if isinstance(runtime, RankerRuntime) and about.order:
            ranked = runtime.take_in(request, impression, about.order)
        elif isinstance(runtime, RankerRuntime):
            ranked = runtime.rank(request, impression, compared)
        elif about.order:
            raise Rejected("order", "a comparison shows its own list: give the pages of others to a ranker")
        else:
            ranked = runtime.rank(request, impression)
        ranked.user, ranked.session, ranked.tags = about[:3]
        written = await self.append(runtime.entity, ranked, once=key is not None)
        if written.verdict == "repeated":  # the same request, twice at the same moment
            ranked = _same_request(await self._ranked_before(runtime, impression) or ranked, request)
        return _answer(ranked)

    async def _request(self, runtime: Runtime, body: RankBody) -> QueryRequest:
        """What is asked; a field or a row that is not known here may be a moment old, and known to another worker."""
        asked = body, runtime.config, self.settings.max_items, runtime.catalogue
        try:
            if _is_large(body, runtime.config):
                return await asyncio.to_thread(query_request, *asked)
            return query_request(*asked)
        except Rejected:
            if not self.store.shared or not runtime.config.encoders:
                raise
        await self._find_again(runtime)
        return query_request(body, runtime.config, self.settings.max_items, runtime.catalogue)

    async def _find_again(self, runtime: Runtime) -> None:
        if runtime.catalogue is not None:
            await asyncio.to_thread(runtime.catalogue.catch_up)
        await self.find(runtime.entity)
        for side in runtime.sides if isinstance(runtime, ComparisonRuntime) else ():
            if side.runtime is not None:
                await self.find(side.runtime.entity)

    async def _receive(self, runtime: Runtime, body: FeedbackBody) -> str:
        """The verdict, decided when it is written; once what is learned from it is served, if that happens here."""
        entity, config = runtime.entity, runtime.config
        try:
            written = await self._append(
                settled_entry(entity, body.impression[:MAX_NAME_LENGTH], lambda known: _settled(known, body, config))
            )
        except Late:
            self.late[entity] = self.late.get(entity, 0) + 1
            raise
        except NotFound:
            self.unknown[entity] = self.unknown.get(entity, 0) + 1
            raise
        if written.verdict == "closed":
            await self.served(entity, written.seq)
        return written.verdict


def _settled(known: Impression | None, body: FeedbackBody, config: RankerConfig) -> FeedbackReceived | str:
    """What becomes of feedback, by all that the log has of its impression."""
    name = body.impression[:MAX_NAME_LENGTH]
    if known is None:
        raise NotFound(f"there is no impression {name!r}")
    feedback = received_feedback(body, known.ranked, config)
    if fingerprint(feedback) in known.received:
        return "repeated"
    if known.closed:
        raise Late(f"the window of the impression {name!r} has closed; nothing was learned from this")
    check_complete(merged(known.feedback, feedback), known.ranked, config.problem)
    return feedback


def query_request(
    body: RankBody, config: RankerConfig, max_items: int, catalogue: Catalogue | None = None
) -> QueryRequest:
    """What a request asks of the learner, or `Rejected` with the field that is wrong."""
    if len(body.items) + len(body.ids) > max_items:
        raise TooLarge(f"items: {len(body.items) + len(body.ids)} items, the limit is {max_items}")
    values = (len(body.items) + len(body.ids)) * config.adapter.n_features
    if values > (MAX_NAMED_VALUES if config.encoders else MAX_NUMBERS):
        raise TooLarge(_too_many(values, config))
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
    if not are_valid_ids(ids):
        raise Rejected("items", INVALID_ID)
    if body.ids and packed is None:
        raise Rejected("ids", "items by id alone need a catalogue and a schema; give items with their features")
    check_numbers(ids, rows)
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


def _too_many(values: int, config: RankerConfig) -> str:
    what = f"items: they have {values:,} values with those that are not given"
    if config.encoders:
        return f"{what}; at most {MAX_NAMED_VALUES:,} are taken. Rank fewer, or put what is seldom there into one field"
    return f"{what}; at most {MAX_NUMBERS:,} are taken. Rank fewer, or give a schema"


def _is_large(body: RankBody, config: RankerConfig) -> bool:
    """Whether there is so much of it that others should not wait until it is an array."""
    return (len(body.items) + len(body.ids)) * config.adapter.n_features > MAX_STEP


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
    """What was shown before, if the same was asked; else `Conflict`."""
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


def _answer(ranked: Ranked) -> RankAnswer:
    ids: list[Id] = ranked.ids
    order = [ids[i] for i in ranked.order]
    return RankAnswer(ranked.impression, order, ranked.state_number, ranked.log_propensity)
