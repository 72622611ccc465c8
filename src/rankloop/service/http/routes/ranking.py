"""The calls that come with every page view: rank and feedback, one or many, of rankers and comparisons."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rankloop.core.errors import RankloopError
from rankloop.service.errors import TooLarge
from rankloop.service.http.codec import content, decoder, json
from rankloop.service.http.openapi import takes
from rankloop.service.http.problems import FORESEEN, problem_of, response_of
from rankloop.service.requests import FeedbackAnswer, FeedbackBatch, FeedbackBody, RankAnswer, RankBatch, RankBody
from rankloop.service.service import Service

_rank_body, _feedback_body = decoder(RankBody), decoder(FeedbackBody)
_rank_batch, _feedback_batch = decoder(RankBatch), decoder(FeedbackBatch)
Call = Callable[[str, Request], Awaitable[Response]]
Calls = Mapping[tuple[str, str], Call]  # by the first and the last part of the path


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

    def service() -> Service:
        return app.state.service  # type: ignore[no-any-return]

    @app.post("/rankers/{name}/rank", openapi_extra=takes(RankBody, RankAnswer), tags=["use"])
    async def rank(name: str, request: Request) -> Response:
        """The order to show. The header Idempotency-Key makes a repeated request give the same impression."""
        body = _rank_body(await content(request, max_body))
        return json(await service().rank(name, body, request.headers.get("idempotency-key") or None))

    @app.post("/rankers/{name}/feedback", openapi_extra=takes(FeedbackBody, FeedbackAnswer), tags=["use"])
    async def feedback(name: str, request: Request) -> Response:
        """What came back: clicks, relevances, preferred or reward; `final` closes the impression."""
        return json(await service().feedback(name, _feedback_body(await content(request, max_body))))

    @app.post("/rankers/{name}/rank:batch", openapi_extra=takes(RankBatch), tags=["use"])
    async def rank_batch(name: str, request: Request) -> Response:
        """Many rankings; each answer or problem stands where its request stood."""
        requests = _rank_batch(await content(request, max_body)).requests
        return json({"results": await _each(requests, lambda body: service().rank(name, body), app)})

    @app.post("/rankers/{name}/feedback:batch", openapi_extra=takes(FeedbackBatch), tags=["use"])
    async def feedback_batch(name: str, request: Request) -> Response:
        """Feedback for many impressions; each answer or problem stands where its feedback stood."""
        given = _feedback_batch(await content(request, max_body)).feedback
        return json({"results": await _each(given, lambda body: service().feedback(name, body), app)})

    @app.post("/experiments/{name}/rank", openapi_extra=takes(RankBody, RankAnswer), tags=["experiments"])
    async def experiment_rank(name: str, request: Request) -> Response:
        """One list from both sides of the experiment. Idempotency-Key as for rankers."""
        body = _rank_body(await content(request, max_body))
        return json(await service().rank_comparison(name, body, request.headers.get("idempotency-key") or None))

    @app.post("/experiments/{name}/feedback", openapi_extra=takes(FeedbackBody, FeedbackAnswer), tags=["experiments"])
    async def experiment_feedback(name: str, request: Request) -> Response:
        """The clicks on a list of the experiment."""
        return json(await service().feedback_comparison(name, _feedback_body(await content(request, max_body))))

    return {
        ("rankers", "rank"): rank,
        ("rankers", "feedback"): feedback,
        ("rankers", "rank:batch"): rank_batch,
        ("rankers", "feedback:batch"): feedback_batch,
        ("experiments", "rank"): experiment_rank,
        ("experiments", "feedback"): experiment_feedback,
    }


async def _each(given: list[Any], call: Callable[[Any], Awaitable[Any]], app: FastAPI) -> list[Any]:
    max_batch = app.state.settings.max_batch
    if len(given) > max_batch:
        raise TooLarge(f"{len(given)} requests in a batch, the limit is {max_batch}")
    results = await asyncio.gather(*(call(body) for body in given), return_exceptions=True)
    return [_answer(result) for result in results]


def _answer(result: Any) -> Any:
    if isinstance(result, RankloopError):
        return problem_of(result)
    if isinstance(result, BaseException):
        raise result
    return result
