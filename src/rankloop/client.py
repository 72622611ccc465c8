"""A client of the service: typed, sync and async; what may be repeated safely is repeated when the network fails.

with Client("http://127.0.0.1:8080") as client:
    client.create("shop", learner="3pr", problem={"feature_names": ["price", "rating"]})
    shown = client.rank("shop", {"a": {"price": 3}, "b": {"rating": 4.5}})
    client.feedback("shop", shown, clicks=["b"], final=True)
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from rankloop.core.errors import RankloopError

Id = str | int
Features = Sequence[float] | Mapping[str, float]
Items = Mapping[Id, Features] | Sequence[Mapping[str, Any]]
AGAIN = (429, 502, 503, 504, 507)
TRIES, PAUSE = 5, 0.1


class Refused(RankloopError):
    """The service said no; `problem` is its document (RFC 9457)."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{problem.get('status')} {problem.get('title')}: {problem.get('detail')}")
        self.problem = problem
        self.status = int(problem.get("status", 0))


@dataclass(frozen=True)
class Shown:
    """A ranking to show, best first."""

    impression: str
    ranking: list[Id]
    state: int
    log_propensity: float | None


@dataclass(frozen=True)
class Taken:
    """What became of feedback: taken, closed or repeated."""

    impression: str
    verdict: str
    state: int


@dataclass(frozen=True)
class Request:
    """A call that may be sent again: the same body, the same idempotency key."""

    method: str
    path: str
    body: Any = None
    key: str | None = None

    def arguments(self) -> dict[str, Any]:
        headers = {"Idempotency-Key": self.key} if self.key else {}
        sent = {"content": self.body} if isinstance(self.body, bytes) else {"json": self.body}
        if isinstance(self.body, bytes):
            headers["Content-Type"] = "application/octet-stream"
        return {"method": self.method, "url": self.path, "headers": headers, **sent}


def rank_request(name: str, items: Items, query_id: str, context: Sequence[float], more: Mapping[str, Any]) -> Request:
    """Ranking draws, so a repeated request carries a key by which the service knows it again."""
    listed = [{"id": id, "features": row} for id, row in items.items()] if isinstance(items, Mapping) else list(items)
    body = {"items": listed, "query_id": query_id, "context": list(context), **more}
    return Request("POST", f"/rankers/{name}/rank", body, secrets.token_hex(16))


def feedback_request(name: str, shown: Shown | str, final: bool, given: Mapping[str, Any]) -> Request:
    """The service recognises the same feedback by itself."""
    impression = shown if isinstance(shown, str) else shown.impression
    revealed = {kind: value for kind, value in given.items() if value is not None}
    return Request("POST", f"/rankers/{name}/feedback", {"impression": impression, "final": final, **revealed})


def create_request(name: str, learner: Any, problem: Mapping[str, Any], more: Mapping[str, Any]) -> Request:
    return Request("PUT", f"/rankers/{name}", {"learner": learner, "problem": dict(problem), **more})


def upload_request(name: str, path: str | os.PathLike[str]) -> Request:
    return Request("PUT", f"/rankers/{name}/state", Path(path).read_bytes())


def pauses() -> Iterator[float]:
    """Longer each time."""
    yield from (PAUSE * 2**attempt for attempt in range(TRIES - 1))


def answer_of(response: httpx.Response) -> Any:
    if response.is_success:
        return response.json()
    try:
        problem = response.json()
    except ValueError:
        problem = {"status": response.status_code, "title": "error", "detail": response.text[:200]}
    raise Refused(problem)


def headers_of(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


class Client:
    """Waits for each answer."""

    def __init__(self, address: str = "http://127.0.0.1:8080", *, key: str = "", timeout: float = 10.0) -> None:
        self._http = httpx.Client(base_url=address, headers=headers_of(key), timeout=timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def create(self, name: str, *, learner: Any, problem: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Create a ranker, or see that it is there already."""
        return dict(self.send(create_request(name, learner, problem, more)))

    def upload(self, name: str, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Create a ranker that goes on from a saved file; one that is there already is refused (409)."""
        return dict(self.send(upload_request(name, path)))

    def rank(
        self, name: str, items: Items = (), *, query_id: str = "", context: Sequence[float] = (), **more: Any
    ) -> Shown:
        """The order to show."""
        return Shown(**self.send(rank_request(name, items, query_id, context, more)))

    def feedback(self, name: str, shown: Shown | str, *, final: bool = False, **given: Any) -> Taken:
        """What came back: clicks, relevances, preferred or reward."""
        return Taken(**self.send(feedback_request(name, shown, final, given)))

    def ranker(self, name: str) -> dict[str, Any]:
        """Spec, state number, counts and health."""
        return dict(self.send(Request("GET", f"/rankers/{name}")))

    def send(self, request: Request) -> Any:
        """The answer to a call; sent again while the service cannot be reached or is busy."""
        for pause in pauses():
            try:
                response = self._http.request(**request.arguments())
                if response.status_code not in AGAIN:
                    return answer_of(response)
            except httpx.TransportError:
                pass
            time.sleep(pause)
        return answer_of(self._http.request(**request.arguments()))


class AsyncClient:
    """The same, to be awaited."""

    def __init__(self, address: str = "http://127.0.0.1:8080", *, key: str = "", timeout: float = 10.0) -> None:
        self._http = httpx.AsyncClient(base_url=address, headers=headers_of(key), timeout=timeout)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def create(self, name: str, *, learner: Any, problem: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Create a ranker, or see that it is there already."""
        return dict(await self.send(create_request(name, learner, problem, more)))

    async def upload(self, name: str, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Create a ranker that goes on from a saved file; one that is there already is refused (409)."""
        return dict(await self.send(upload_request(name, path)))

    async def rank(
        self, name: str, items: Items = (), *, query_id: str = "", context: Sequence[float] = (), **more: Any
    ) -> Shown:
        """The order to show."""
        return Shown(**await self.send(rank_request(name, items, query_id, context, more)))

    async def feedback(self, name: str, shown: Shown | str, *, final: bool = False, **given: Any) -> Taken:
        """What came back: clicks, relevances, preferred or reward."""
        return Taken(**await self.send(feedback_request(name, shown, final, given)))

    async def ranker(self, name: str) -> dict[str, Any]:
        """Spec, state number, counts and health."""
        return dict(await self.send(Request("GET", f"/rankers/{name}")))

    async def send(self, request: Request) -> Any:
        """The answer to a call; sent again while the service cannot be reached or is busy."""
        for pause in pauses():
            try:
                response = await self._http.request(**request.arguments())
                if response.status_code not in AGAIN:
                    return answer_of(response)
            except httpx.TransportError:
                pass
            await asyncio.sleep(pause)
        return answer_of(await self._http.request(**request.arguments()))
