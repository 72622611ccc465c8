"""A client of the service: typed, sync and async; what may be repeated safely is repeated when the network fails.

with Client("http://127.0.0.1:8080") as client:
    client.create("shop", learner="3pr", problem={"feature_names": ["price", "rating"]})
    shown = client.rank("shop", {"a": {"price": 3}, "b": {"rating": 4.5}})
    client.feedback("shop", shown, clicks=["b"], final=True)
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any

import httpx

from rankloop.client_calls import (
    AGAIN,
    LOST,
    Context,
    Items,
    Refused,
    Request,
    Shown,
    Taken,
    Unreachable,
    answer_of,
    create_request,
    experiment_request,
    feedback_request,
    pauses,
    place_of,
    rank_request,
    settings_of,
    shown_of,
    taken_of,
    unreachable,
    upload_request,
)

__all__ = ["AsyncClient", "Client", "Refused", "Shown", "Taken", "Unreachable"]
ADDRESS = "http://127.0.0.1:8080"
PATIENCE = 30.0  # seconds: a restart of the service takes less


class Client:
    """Waits for each answer; a call that gets none is sent again for `patience` seconds, then `Unreachable`."""

    def __init__(
        self, address: str = ADDRESS, *, key: str = "", timeout: float = 10.0, patience: float = PATIENCE
    ) -> None:
        self._http = httpx.Client(**settings_of(address, key, timeout, patience))
        self._address, self._patience = address, patience

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
        """Create a ranker that goes on from a saved file, or see that it did; another of that name is refused (409)."""
        return dict(self.send(upload_request(name, path)))

    def rank(
        self,
        name: str,
        items: Items = (),
        *,
        query_id: str = "",
        context: Context = (),
        experiment: bool = False,
        **more: Any,
    ) -> Shown:
        """The order to show; with `experiment`, the mixed list of the experiment of that name."""
        return shown_of(self.send(rank_request(place_of(name, experiment), items, query_id, context, more)))

    def feedback(
        self, name: str, shown: Shown | str, *, final: bool = False, experiment: bool = False, **given: Any
    ) -> Taken:
        """What came back: clicks, relevances, preferred or reward."""
        return taken_of(self.send(feedback_request(place_of(name, experiment), shown, final, given)))

    def ranker(self, name: str) -> dict[str, Any]:
        """Spec, state number, counts and health."""
        return dict(self.send(Request("GET", place_of(name, False))))

    def create_experiment(
        self, name: str, *, a: Mapping[str, Any], b: Mapping[str, Any], **more: Any
    ) -> dict[str, Any]:
        """Compare two sides, each `{"ranker": name}` or `{"weights": [...]}`; the same again changes nothing."""
        return dict(self.send(experiment_request(name, a, b, more)))

    def experiment(self, name: str) -> dict[str, Any]:
        """Wins, ties and losses of side a, their ratio wins / losses, and the p-value of the sign test."""
        return dict(self.send(Request("GET", place_of(name, True))))

    def send(self, request: Request) -> Any:
        """The answer to a call; sent again while the service cannot be reached or is busy."""
        for pause in pauses(self._patience):
            try:
                response = self._http.request(**request.arguments())
                if response.status_code not in AGAIN:
                    return answer_of(response)
            except LOST:
                pass
            time.sleep(pause)
        try:
            return answer_of(self._http.request(**request.arguments()))
        except LOST as error:
            raise unreachable(self._address, self._patience) from error


class AsyncClient:
    """The same, to be awaited."""

    def __init__(
        self, address: str = ADDRESS, *, key: str = "", timeout: float = 10.0, patience: float = PATIENCE
    ) -> None:
        self._http = httpx.AsyncClient(**settings_of(address, key, timeout, patience))
        self._address, self._patience = address, patience

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
        """Create a ranker that goes on from a saved file, or see that it did; another of that name is refused (409)."""
        return dict(await self.send(upload_request(name, path)))

    async def rank(
        self,
        name: str,
        items: Items = (),
        *,
        query_id: str = "",
        context: Context = (),
        experiment: bool = False,
        **more: Any,
    ) -> Shown:
        """The order to show; with `experiment`, the mixed list of the experiment of that name."""
        return shown_of(await self.send(rank_request(place_of(name, experiment), items, query_id, context, more)))

    async def feedback(
        self, name: str, shown: Shown | str, *, final: bool = False, experiment: bool = False, **given: Any
    ) -> Taken:
        """What came back: clicks, relevances, preferred or reward."""
        return taken_of(await self.send(feedback_request(place_of(name, experiment), shown, final, given)))

    async def ranker(self, name: str) -> dict[str, Any]:
        """Spec, state number, counts and health."""
        return dict(await self.send(Request("GET", place_of(name, False))))

    async def create_experiment(
        self, name: str, *, a: Mapping[str, Any], b: Mapping[str, Any], **more: Any
    ) -> dict[str, Any]:
        """Compare two sides, each `{"ranker": name}` or `{"weights": [...]}`; the same again changes nothing."""
        return dict(await self.send(experiment_request(name, a, b, more)))

    async def experiment(self, name: str) -> dict[str, Any]:
        """Wins, ties and losses of side a, their ratio wins / losses, and the p-value of the sign test."""
        return dict(await self.send(Request("GET", place_of(name, True))))

    async def send(self, request: Request) -> Any:
        """The answer to a call; sent again while the service cannot be reached or is busy."""
        for pause in pauses(self._patience):
            try:
                response = await self._http.request(**request.arguments())
                if response.status_code not in AGAIN:
                    return answer_of(response)
            except LOST:
                pass
            await asyncio.sleep(pause)
        try:
            return answer_of(await self._http.request(**request.arguments()))
        except LOST as error:
            raise unreachable(self._address, self._patience) from error
