"""The calls that come with every page view: rank and feedback, one or many, of rankers and comparisons."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rankloop.core.errors import RankloopError
from rankloop.service.application.node import Node
from rankloop.service.errors import TooLarge
from rankloop.service.http.codec import JSON, MSGPACK, content, decoder, json, with_feature_name
from rankloop.service.http.metrics import Metrics
from rankloop.service.http.openapi import takes
from rankloop.service.http.problems import FORESEEN, KINDS, problem_of, response_of
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

MAX_AT_ONCE = 500_000  # bytes of a body that are read in one step
_rank_body, _feedback_body, _packed_body = (
    decoder(RankBody),
    decoder(FeedbackBody),
    decoder(PackedRankBody, packed=True),
)
_rank_batch, _feedback_batch = decoder(RankBatch), decoder(FeedbackBatch)
Call = Callable[[str, Request], Awaitable[Response]]
Calls = Mapping[tuple[str, str], Call]  # by the first and the last part of the path


class Outline(RankBody):
    """A request to rank whose items are still to be read."""

    items: list[msgspec.Raw] = []  # type: ignore[assignment]  # noqa: RUF012


_outline, _item = decoder(Outline), decoder(Item)


class RankingCalls:
    """ASGI: answers the calls of page views itself, as FastAPI would but sooner; hands on all others."""

    def __init__(self, app: ASGIApp, calls: Calls) -> None:
        self.app = app
        self.calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts: list[str] = scope["path"].split("/") if scope["type"] == "http" and scope["method"] == "POST" else []
        call = self.calls.get((parts[1], parts[3])) if len(parts) == 4 and parts[2] else None
        if call is None:
            await self.app(scope, receive, send)
            return
        try:
            answer = await call(parts[2], Request(scope, receive))
        except FORESEEN as error:
            answer = response_of(problem_of(error))
        await answer(scope, receive, send)


def add_ranking(app: FastAPI) -> Calls:
    """POST rank and feedback, one or many: FastAPI describes them, `RankingCalls` answers them."""
    max_body = app.state.settings.max_body

    def service() -> Node:
        return app.state.service  # type: ignore[no-any-return]

    @app.post("/rankers/{name}/rank", openapi_extra=takes(RankBody, RankAnswer, PackedRankBody), tags=["use"])
    async def rank(name: str, request: Request) -> Response:
        """The order to show. The header Idempotency-Key makes a repeated request give the same impression."""
        key = request.headers.get("idempotency-key") or None
        return json(
            await service().ranking.rank(
                name, await _asked(request, max_body, service().directory.rankers.get(name)), key
            )
        )

    @app.post("/rankers/{name}/feedback", openapi_extra=takes(FeedbackBody, FeedbackAnswer), tags=["use"])
    async def feedback(name: str, request: Request) -> Response:
        """What came back: clicks, relevances, preferred or reward; `final` closes the impression."""
        return json(await service().feedback.take(name, _feedback_body(await content(request, max_body))))

    @app.post("/rankers/{name}/rank:batch", openapi_extra=takes(RankBatch), tags=["use"])
    async def rank_batch(name: str, request: Request) -> Response:
        """Many rankings; each answer or problem stands where its request stood."""
        requests = _rank_batch(await content(request, max_body)).requests
        return json({"results": await _each(requests, lambda body: service().ranking.rank(name, body), app)})

    @app.post("/rankers/{name}/feedback:batch", openapi_extra=takes(FeedbackBatch), tags=["use"])
    async def feedback_batch(name: str, request: Request) -> Response:
        """Feedback for many impressions; each answer or problem stands where its feedback stood."""
        given = _feedback_batch(await content(request, max_body)).feedback
        return json({"results": await _each(given, lambda body: service().feedback.take(name, body), app)})

    @app.post(
        "/experiments/{name}/rank", openapi_extra=takes(RankBody, RankAnswer, PackedRankBody), tags=["experiments"]
    )
    async def experiment_rank(name: str, request: Request) -> Response:
        """One list from both sides of the experiment. Idempotency-Key as for rankers."""
        key, runtime = request.headers.get("idempotency-key") or None, service().directory.comparisons.get(name)
        return json(await service().ranking.rank_comparison(name, await _asked(request, max_body, runtime), key))

    @app.post("/experiments/{name}/feedback", openapi_extra=takes(FeedbackBody, FeedbackAnswer), tags=["experiments"])
    async def experiment_feedback(name: str, request: Request) -> Response:
        """The clicks on a list of the experiment."""
        return json(await service().feedback.take_comparison(name, _feedback_body(await content(request, max_body))))

    return {
        ("rankers", "rank"): rank,
        ("rankers", "feedback"): feedback,
        ("rankers", "rank:batch"): rank_batch,
        ("rankers", "feedback:batch"): feedback_batch,
        ("experiments", "rank"): experiment_rank,
        ("experiments", "feedback"): experiment_feedback,
    }


async def _asked(request: Request, max_body: int, runtime: Any) -> RankBody:
    """The body of a request to rank; a number that is none is named as the ranker names it."""
    packed = request.headers.get("content-type", JSON).lower().startswith(MSGPACK)
    given = await content(request, max_body, MSGPACK if packed else JSON)
    try:
        if packed:
            return _packed_body(given)
        return _rank_body(given) if len(given) <= MAX_AT_ONCE else await asyncio.to_thread(_in_steps, given)
    except msgspec.ValidationError as error:
        names = runtime.config.adapter.feature_names if runtime is not None else ()
        raise msgspec.ValidationError(with_feature_name(str(error), given, names)) from None


def _in_steps(given: bytes) -> RankBody:
    """The same as in one step, which would hold up all other threads until it is done."""
    try:
        outline = _outline(given)
        items = [_item(raw) for raw in outline.items]
    except msgspec.ValidationError:
        return _rank_body(given)  # says where
    return RankBody(items, *(getattr(outline, field) for field in RankBody.__struct_fields__[1:]))


async def _each(given: list[Any], call: Callable[[Any], Awaitable[Any]], app: FastAPI) -> list[Any]:
    max_batch = app.state.settings.max_batch
    if len(given) > max_batch:
        raise TooLarge(f"{len(given)} requests in a batch, the limit is {max_batch}")
    results = await asyncio.gather(*(call(body) for body in given), return_exceptions=True)
    return [_answer(result, app.state.metrics) for result in results]


def _answer(result: Any, metrics: Metrics) -> Any:
    """What a batch says of one of its requests; one that is refused is counted, though the call as a whole is not."""
    if isinstance(result, RankloopError):
        document = problem_of(result)
        metrics.refused.labels(KINDS.get(document["status"], "other"), metrics.worker).inc()
        return document
    if isinstance(result, BaseException):
        raise result
    return result
