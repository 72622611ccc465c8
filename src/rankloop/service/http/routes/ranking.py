"""The endpoints that come with every page view: rank and feedback, one or many, of rankers and comparisons."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from rankloop.core.errors import RankloopError
from rankloop.service.errors import TooLarge
from rankloop.service.http.endpoints import MAX_LOOP_BYTES, Endpoints, decode
from rankloop.service.http.invalid_body import InvalidBody, invalid_body
from rankloop.service.http.metrics import Metrics
from rankloop.service.http.openapi import MSGPACK
from rankloop.service.http.problems import KINDS, problem_of
from rankloop.service.requests import (
    FeedbackAnswer,
    FeedbackBatch,
    FeedbackBody,
    Item,
    PackedRankBody,
    RankAnswer,
    RankBatch,
    RankBody,
)

Headers = Mapping[bytes, bytes]
_decode_ranking = msgspec.json.Decoder(RankBody).decode
_decode_feedback = msgspec.json.Decoder(FeedbackBody).decode


class Outline(RankBody):
    """A request to rank whose items are still to be decoded."""

    items: list[msgspec.Raw] = []  # type: ignore[assignment]  # noqa: RUF012


def add_ranking(endpoints: Endpoints) -> None:
    """Add POST rank and feedback, one or many; they are answered without FastAPI."""
    direct = partial(endpoints.add, role="rank", is_direct=True)
    ranking = partial(direct, body=RankBody, packed=PackedRankBody, answer=RankAnswer)
    feedback = partial(direct, body=FeedbackBody, answer=FeedbackAnswer)

    @ranking("POST /rankers/{name}/rank", tag="use")
    async def rank(name: str, content: bytes, headers: Headers) -> RankAnswer:
        """The order to show. The header Idempotency-Key makes a repeated request give the same impression."""
        node = endpoints.node
        body = await _rank_body(content, headers, node.directory.rankers.get(name))
        return await node.ranking.rank(name, body, _key_of(headers))

    @feedback("POST /rankers/{name}/feedback", tag="use")
    async def give_feedback(name: str, content: bytes, headers: Headers) -> FeedbackAnswer:
        """What came back: clicks, relevances, preferred or reward; `final` closes the impression."""
        return await endpoints.node.feedback.take(name, _feedback_body(content))

    @direct("POST /rankers/{name}/rank:batch", tag="use", body=RankBatch)
    async def rank_batch(name: str, content: bytes, headers: Headers) -> dict[str, Any]:
        """Many rankings; each answer or problem stands where its request stood."""
        requests = decode(content, RankBatch).requests
        return await _each(requests, lambda body: endpoints.node.ranking.rank(name, body), endpoints)

    @direct("POST /rankers/{name}/feedback:batch", tag="use", body=FeedbackBatch)
    async def feedback_batch(name: str, content: bytes, headers: Headers) -> dict[str, Any]:
        """Feedback for many impressions; each answer or problem stands where its feedback stood."""
        bodies = decode(content, FeedbackBatch).feedback
        return await _each(bodies, lambda body: endpoints.node.feedback.take(name, body), endpoints)

    @ranking("POST /experiments/{name}/rank", tag="experiments")
    async def experiment_rank(name: str, content: bytes, headers: Headers) -> RankAnswer:
        """One list from both sides of the experiment. Idempotency-Key as for rankers."""
        node = endpoints.node
        body = await _rank_body(content, headers, node.directory.comparisons.get(name))
        return await node.ranking.rank_comparison(
            name, body, headers.get(b"idempotency-key", b"").decode("latin-1") or None
        )

    @feedback("POST /experiments/{name}/feedback", tag="experiments")
    async def experiment_feedback(name: str, content: bytes, headers: Headers) -> FeedbackAnswer:
        """The clicks on a list of the experiment."""
        return await endpoints.node.feedback.take_comparison(name, _feedback_body(content))


def _key_of(headers: Headers) -> str | None:
    return headers.get(b"idempotency-key", b"").decode("latin-1") or None


def _feedback_body(content: bytes) -> FeedbackBody:
    try:
        return _decode_feedback(content)
    except msgspec.DecodeError as error:
        raise invalid_body(error, content, FeedbackBody) from None


async def _rank_body(content: bytes, headers: Headers, runtime: Any) -> RankBody:
    """Decode a request to rank; a feature in a list that is no number is named as the ranker names it."""
    is_packed = headers.get(b"content-type", b"").lower().startswith(MSGPACK.encode())
    try:
        if is_packed:
            return decode(content, PackedRankBody, packed=True)
        if len(content) > MAX_LOOP_BYTES:
            return await asyncio.to_thread(_decode_in_steps, content)
        try:
            return _decode_ranking(content)
        except msgspec.DecodeError as error:
            raise invalid_body(error, content, RankBody) from None
    except InvalidBody as error:
        names = runtime.config.adapter.feature_names if runtime is not None else ()
        match error.path:
            case (*_, "features", int(column)) if column < len(names):
                raise InvalidBody(error.path, f"the feature {names[column]!r:.80}: {error.reason}") from None
            case (*_, "features", str(name)):
                raise InvalidBody(error.path, f"the feature {name!r:.80}: {error.reason}") from None
        raise


def _decode_in_steps(content: bytes) -> RankBody:
    """Decode a large body item by item: in one step it would hold up all other threads until it is done."""
    try:
        outline = decode(content, Outline)
        items: Any = [decode(raw, Item) for raw in outline.items]
    except InvalidBody:
        return decode(content, RankBody)  # says where
    outline.items = items
    return outline


async def _each(bodies: list[Any], call: Callable[[Any], Awaitable[Any]], endpoints: Endpoints) -> dict[str, Any]:
    """Answer every request of a batch; one that is refused is a problem document at its place."""
    max_batch = endpoints.settings.max_batch
    if len(bodies) > max_batch:
        raise TooLarge(f"{len(bodies)} requests in a batch, the limit is {max_batch}")
    results = await asyncio.gather(*(call(body) for body in bodies), return_exceptions=True)
    return {"results": [_answer(result, endpoints.app.state.metrics) for result in results]}


def _answer(result: Any, metrics: Metrics) -> Any:
    """Return what a batch says of one of its requests; one that is refused is counted, though the batch is not."""
    if isinstance(result, RankloopError):
        document = problem_of(result)
        metrics.refused.labels(KINDS.get(document["status"], "other"), metrics.worker).inc()
        return document
    if isinstance(result, BaseException):
        raise result
    return result
