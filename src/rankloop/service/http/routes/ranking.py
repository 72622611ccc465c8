"""The endpoints of every page view: rank and feedback, single or in batches, for rankers and experiments."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from rankloop.core.errors import RankloopError
from rankloop.service import request_bodies as bodies
from rankloop.service.errors import TooLarge
from rankloop.service.http.endpoints import Endpoints, decode
from rankloop.service.http.keys_and_limits import key_of
from rankloop.service.http.problems import PROBLEM_KINDS, InvalidBody, problem_of
from rankloop.service.request_bodies import FeedbackBody, FeedbackResponse, RankBody, RankResponse

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

Headers = Mapping[bytes, bytes]
_decode_ranking = msgspec.json.Decoder(RankBody).decode
_decode_feedback = msgspec.json.Decoder(FeedbackBody).decode


def add_ranking(endpoints: Endpoints) -> None:
    """Add the endpoints of rank and feedback; the middleware answers them without FastAPI."""
    direct = partial(endpoints.add, role="rank", is_direct=True)
    _add_single_calls(endpoints, "/rankers", "use", experiment=False)
    _add_single_calls(endpoints, "/experiments", "experiments", experiment=True)

    @direct("POST /rankers/{name}/rank:batch", tag="use", body=bodies.RankBatch)
    async def rank_batch(name: str, content: bytes, headers: Headers) -> dict[str, Any]:
        """Return many rankings; each result or problem is at the position of its request."""
        requests = decode(content, bodies.RankBatch).requests
        return await _each(requests, lambda body: endpoints.node.ranking.rank(name, body), endpoints)

    @direct("POST /rankers/{name}/feedback:batch", tag="use", body=bodies.FeedbackBatch)
    async def feedback_batch(name: str, content: bytes, headers: Headers) -> dict[str, Any]:
        """Give feedback on many impressions; each result or problem is at the position of its feedback."""
        feedback = decode(content, bodies.FeedbackBatch).feedback
        return await _each(feedback, lambda body: endpoints.node.feedback.receive(name, body), endpoints)


def _add_single_calls(endpoints: Endpoints, path: str, tag: str, experiment: bool) -> None:
    """Add rank and feedback; each returns the awaitable of the node, which saves a coroutine per call."""
    add = partial(endpoints.add, tag=tag, role="rank", is_direct=True)
    state = endpoints.app.state  # it has the node once the application runs

    @add(f"POST {path}/{{name}}/rank", body=RankBody, answer=RankResponse)
    def rank(name: str, content: bytes, headers: Headers) -> Awaitable[RankResponse]:
        """Return the order to show. A repeated request with the same Idempotency-Key gets the same impression."""
        return _rank(state.node, name, content, headers, experiment)

    @add(f"POST {path}/{{name}}/feedback", role="feedback", body=FeedbackBody, answer=FeedbackResponse)
    def give_feedback(name: str, content: bytes, headers: Headers) -> Awaitable[FeedbackResponse]:
        """Give feedback on an impression: clicks, relevances, preferred or reward; `final` closes the impression.

        Outcomes, such as purchases, come with it or alone, until their own windows end.
        """
        node: Node = state.node
        try:
            return node.feedback.receive(name, _decode_feedback(content), experiment)
        except msgspec.DecodeError as error:
            raise InvalidBody.of(error, content, FeedbackBody) from None


def _rank(node: "Node", name: str, content: bytes, headers: Headers, experiment: bool) -> Awaitable[RankResponse]:
    """Decode a request to rank, and rank."""
    runtime = (node.directory.experiments if experiment else node.directory.rankers).get(name)
    rank = partial(node.ranking.rank, experiment=True) if experiment else node.ranking.rank
    key = headers.get(b"idempotency-key", b"").decode("latin-1") or None
    if key:  # callers with other API keys who choose the same one, or guess it, get impressions of their own
        key = f"{key_of(headers)}\n{key}"
    try:
        return rank(name, _decode_ranking(content), key)
    except msgspec.DecodeError as error:
        raise _with_feature_name(InvalidBody.of(error, content, RankBody), runtime) from None


def _with_feature_name(error: Exception, runtime: Any) -> Exception:
    """Return the error with the name of the feature whose value is not a number."""
    if not isinstance(error, InvalidBody):
        return error
    names = runtime.config.adapter.feature_names if runtime is not None else ()
    match error.path:
        case (*_, "features", int(column)) if column < len(names):
            return InvalidBody(error.path, f"the feature {names[column]!r:.80}: {error.reason}")
        case (*_, "features", str(name)):
            return InvalidBody(error.path, f"the feature {name!r:.80}: {error.reason}")
    return error


async def _each(batch: list[Any], call: Callable[[Any], Awaitable[Any]], endpoints: Endpoints) -> dict[str, Any]:
    """Return the results of a batch; a refused request gives a problem document, and is counted in the metrics."""
    max_batch, metrics = endpoints.settings.max_batch, endpoints.app.state.metrics
    if len(batch) > max_batch:
        raise TooLarge(f"the batch has {len(batch)} requests, the limit is {max_batch}: send several batches")
    results = await asyncio.gather(*(call(body) for body in batch), return_exceptions=True)
    for position, result in enumerate(results):
        if isinstance(result, RankloopError):
            document = results[position] = problem_of(result)
            metrics.refused.labels(PROBLEM_KINDS.get(document.status, "other"), metrics.worker).inc()
        elif isinstance(result, BaseException):
            raise result
    return {"results": results}
