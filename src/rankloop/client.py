"""A client of the service: typed, sync and async; what may be repeated safely is repeated when the network fails.

with Client("http://127.0.0.1:8080") as client:
    client.create("shop", learner="3pr", problem={"feature_names": ["price", "rating"]})
    shown = client.rank("shop", {"a": {"price": 3}, "b": {"rating": 4.5}})
    client.feedback("shop", shown, clicks=["b"], final=True)
"""

# mypy: disable-error-code="no-any-return"
# `send` returns what its `read` makes of an answer, or an awaitable of it.

import asyncio
import json
import os
import secrets
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import numpy as np

from rankloop.adapter import Id, plain_ids
from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.files import atomic_write
from rankloop.core.types import Decision
from rankloop.features.explanation import Contribution, Explanation
from rankloop.features.schema import Schema
from rankloop.impression import Impression, plain_value

__all__ = ["AsyncClient", "Client", "FeedbackReceipt", "Impression", "Refused", "Unreachable"]

ADDRESS = "http://127.0.0.1:8080"
PATIENCE = 30.0  # seconds: a restart of the service takes less
Table = TypeVar("Table")  # what the two clients return: values, or what gives them when awaited
Shown = TypeVar("Shown")
Receipt = TypeVar("Receipt")
Explained = TypeVar("Explained")
Nothing = TypeVar("Nothing")
Row = Mapping[str, Any]  # values by name
Features = Sequence[float] | Row
Context = Sequence[float] | Row  # numbers, or columns by name
Items = Mapping[Id, Features] | Sequence[Mapping[str, Any]]
JSON, MSGPACK = "json", "msgpack"
AGAIN = (429, 502, 503, 504, 507)
LOST = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0  # seconds before a call is sent again


class Refused(RankloopError):
    """The service said no, or something else answered in its place; `problem` is its document (RFC 9457)."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('title')}: {_field_of(problem)}{problem.get('detail')}")
        self.problem = problem
        self.status = status


def _field_of(problem: Mapping[str, Any]) -> str:
    """The field that is wrong, where the document names one; it may come from anybody."""
    errors = problem.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    return f"{first['field']}: " if isinstance(first, dict) and first.get("field") else ""


class Unreachable(RankloopError):
    """No answer came while the client was patient; whether the last call arrived is not known."""


@dataclass(frozen=True)
class FeedbackReceipt:
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
    query: Mapping[str, str] | None = None
    media: str = "application/octet-stream"  # of a body that is bytes

    def arguments(self) -> dict[str, Any]:
        headers, content = {"Idempotency-Key": self.key} if self.key else {}, self.body
        if isinstance(content, bytes):
            headers["Content-Type"] = self.media
        elif content is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(content, ensure_ascii=False, allow_nan=False, default=plain_value).encode()
        call = {"method": self.method, "url": self.path, "params": self.query}
        return call | {"headers": headers, "content": content}


def rank_request(
    path: str, items: Items, query_id: str, context: Context, more: Mapping[str, Any], wire: str = JSON
) -> Request:
    """Ranking draws, so a repeated request carries a key by which the service knows it again."""
    asker = dict(context) if isinstance(context, Mapping) else list(context)
    body, request = (
        {"query_id": query_id, "context": asker, **more},
        Request("POST", f"{path}/rank", key=secrets.token_hex(16)),
    )
    packed = packed_items(items) if wire == MSGPACK else None
    if packed is not None:
        content = msgspec.msgpack.encode(packed | body, enc_hook=plain_value)
        return replace(request, body=content, media="application/msgpack")
    listed = [{"id": id, "features": row} for id, row in items.items()] if isinstance(items, Mapping) else list(items)
    return replace(request, body={"items": listed} | body)


def packed_items(items: Items) -> dict[str, Any] | None:
    """Ids, and their features as the bytes of one array; None where features are not lists of as many numbers each."""
    if not isinstance(items, Mapping) or any(isinstance(row, Mapping | str) for row in items.values()):
        return None
    try:
        rows = np.array(list(items.values()))
    except ValueError:
        return None
    if rows.ndim != 2 or not rows.size or rows.dtype.kind not in "iuf":
        return None
    dtype = "float32" if rows.dtype == np.float32 else "float64"
    content = rows.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"ids": plain_ids(items), "features": content, "dtype": dtype}


def feedback_request(path: str, shown: Impression | str, final: bool, given: Mapping[str, Any]) -> Request:
    """The service recognises the same feedback by itself."""
    impression = shown if isinstance(shown, str) else shown.impression
    revealed = {kind: value for kind, value in given.items() if value is not None}
    return Request("POST", f"{path}/feedback", {"impression": impression, "final": final, **revealed})


def create_request(
    name: str, learner: Any, problem: Mapping[str, Any], schema: Schema | Row | None, more: Mapping[str, Any]
) -> Request:
    plain = schema.to_plain() if isinstance(schema, Schema) else schema
    problem = dict(problem) | ({} if plain is None else {"schema": dict(plain)})
    if isinstance(more.get("base"), Mapping) and more["base"].get("booster") is not None:
        booster = more["base"]["booster"]
        content = booster if isinstance(booster, bytes) else Path(booster).read_bytes()
        more = {**more, "base": {**more["base"], "booster": b64encode(content).decode()}}
    return Request("PUT", f"/rankers/{name}", {"learner": learner, "problem": problem, **more})


def path_of(name: str, experiment: bool) -> str:
    return f"/experiments/{name}" if experiment else f"/rankers/{name}"


def pauses(patience: float) -> Iterator[float]:
    """Longer each time, until `patience` seconds have passed."""
    end, pause = time.monotonic() + patience, FIRST_PAUSE
    while (left := end - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(2 * pause, MAX_PAUSE)


def answer_of(response: httpx.Response) -> dict[str, Any]:
    """The answer of the service; whatever else may stand at the address is `Refused` as well."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if response.is_success and isinstance(document, dict):
        return document
    if response.is_success or not isinstance(document, dict) or "title" not in document:
        raise foreign(response.status_code, response.text)
    raise Refused(response.status_code, document)


def impression_of(response: httpx.Response) -> Impression:
    """What the service showed, as `Ranker.rank` returns it."""
    names = ("impression", "ranking", "state", "log_propensity")
    impression, ids, state, log_propensity = _parts(answer_of(response), names)
    decision: Decision[Any] = Decision(np.arange(len(ids)), np.nan if log_propensity is None else log_propensity, ())
    return Impression(items=ids, decision=decision, impression=impression, state=state)


def file_of(response: httpx.Response) -> bytes:
    """The content of a file, or what the service said instead."""
    if not response.is_success:
        answer_of(response)
    return response.content


def explanation_of(response: httpx.Response) -> Explanation:
    """What `Ranker.explain` returns."""
    id, score, parts = _parts(answer_of(response), ("id", "score", "contributions"))
    found = [Contribution._make(_parts(part, Contribution._fields)) for part in parts]
    found = [part._replace(shares_column_with=tuple(part.shares_column_with)) for part in found]
    return Explanation(id, score, found)


def receipt_of(response: httpx.Response) -> FeedbackReceipt:
    """What the service made of feedback."""
    impression, verdict, state = _parts(answer_of(response), ("impression", "verdict", "state"))
    return FeedbackReceipt(impression, verdict, state)


def _parts(answer: Mapping[str, Any], names: tuple[str, ...]) -> list[Any]:
    """What this client knows of an answer; a later service may say more."""
    if not all(name in answer for name in names):
        raise foreign(200, str(answer))
    return [answer[name] for name in names]


def foreign(status: int, text: str) -> Refused:
    return Refused(status, {"status": status, "title": "not an answer of rankloop", "detail": text[:200]})


def done(response: httpx.Response) -> None:
    """Raise `Refused` unless the call was done."""
    answer_of(response)


class _Calls(Generic[Table, Shown, Receipt, Explained, Nothing]):
    """The calls of the service, for a client that waits and for one that is awaited."""

    _connections: type[httpx.Client | httpx.AsyncClient]

    def __init__(
        self,
        address: str = ADDRESS,
        *,
        key: str = "",
        timeout: float = 10.0,
        patience: float = PATIENCE,
        wire: str = JSON,
    ) -> None:
        if not address.startswith(("http://", "https://")):
            raise InvalidInput(f"an address begins with http:// or https://, got {address!r}")
        if not 0 <= patience < float("inf"):
            raise InvalidInput(f"patience must be a number of seconds, 0 or more, got {patience}")
        if wire not in (JSON, MSGPACK):
            raise InvalidInput(f"wire is {JSON!r} or {MSGPACK!r}, got {wire!r:.60}")
        self._address, self._patience, self._wire = address, patience, wire
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http: Any = self._connections(base_url=address, headers=headers, timeout=timeout)

    def send(self, request: Request, read: Callable[[httpx.Response], Any] = answer_of) -> Any:
        """Send a call, again while the service cannot be reached or is busy, and return what `read` makes of it."""
        raise NotImplementedError

    def _unreachable(self) -> Unreachable:
        return Unreachable(f"no answer from {self._address} in {self._patience:g} s; feedback may be sent again later")

    def create(
        self,
        name: str,
        *,
        learner: Any,
        problem: Mapping[str, Any] = {},
        schema: Schema | Row | None = None,
        **more: Any,
    ) -> Table:
        """Create a ranker, or see that it is there already; a `schema` says of what kinds its fields are.

        `base={"booster": path}` sends the file of a booster, which is then the base.
        """
        return self.send(create_request(name, learner, problem, schema, more))

    def upload(self, name: str, path: str | os.PathLike[str]) -> Table:
        """Create a ranker that goes on from a saved file, or see that it did; another of that name is refused (409)."""
        return self.send(Request("PUT", f"/rankers/{name}/state", Path(path).read_bytes()))

    def download(self, name: str, path: str | os.PathLike[str]) -> Nothing:
        """Write the model to a file that `rankloop.load` opens and `upload` takes."""
        request = Request("GET", f"/rankers/{name}/state")
        return self.send(request, lambda response: atomic_write(Path(path), file_of(response)))

    def evolve(
        self,
        name: str,
        *,
        features: Row | None = None,
        context: Row | None = None,
        crosses: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> Table:
        """Add fields and crosses to the schema of a live ranker, or remove some; the same again changes nothing."""
        change = {"features": features, "context": context, "crosses": list(crosses), "remove": list(remove)}
        body = {part: value for part, value in change.items() if value}
        return self.send(Request("PATCH", f"/rankers/{name}/schema", body))

    def explain(self, name: str, shown: Impression | str, id: Id) -> Explained:
        """What each value of a shown item adds to its score now, by name, the largest first."""
        impression = shown if isinstance(shown, str) else shown.impression
        request = Request("GET", f"/rankers/{name}/explain", query={"impression": impression, "id": str(id)})
        return self.send(request, explanation_of)

    def weights(self, name: str) -> Table:
        """The largest weights by name; with a schema of the names in recent impressions."""
        return self.send(Request("GET", f"/rankers/{name}/weights"))

    def put_catalogue(self, name: str, rows: Mapping[Any, Row | None]) -> Table:
        """Rows by id, so that `rank(name, ids=[…])` is enough; None takes one away, all others stay."""
        listed = {str(id): None if row is None else dict(row) for id, row in rows.items()}
        return self.send(Request("PUT", f"/catalogues/{name}", {"rows": listed}))

    def catalogue(self, name: str) -> Table:
        """How many rows it has, since which event, and who uses it."""
        return self.send(Request("GET", f"/catalogues/{name}"))

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
        request = rank_request(path_of(name, experiment), items, query_id, context, more, self._wire)
        return self.send(request, impression_of)

    def feedback(
        self, name: str, shown: Impression | str, *, final: bool = False, experiment: bool = False, **given: Any
    ) -> Receipt:
        """What came back: clicks, relevances, preferred or reward."""
        return self.send(feedback_request(path_of(name, experiment), shown, final, given), receipt_of)

    def ranker(self, name: str) -> Table:
        """Spec, state number, counts and health."""
        return self.send(Request("GET", path_of(name, False)))

    def delete(self, name: str, *, experiment: bool = False) -> Nothing:
        """Delete a ranker, or an experiment, with all that there is of it; its name may be used again."""
        return self.send(Request("DELETE", path_of(name, experiment)), done)

    def set_window(self, name: str, window: float) -> Table:
        """Another window of feedback, in seconds, also for what is open."""
        return self.send(Request("PATCH", path_of(name, False), {"window": window}))

    def set_alias(self, name: str, ranker: str | None) -> Nothing:
        """Let a name lead to a ranker; None takes the alias away."""
        if ranker is None:
            return self.send(Request("DELETE", f"/aliases/{name}"), done)
        return self.send(Request("PUT", f"/aliases/{name}", {"ranker": ranker}), done)

    def erase_user(self, user: str, *, relearn: bool = False) -> Table:
        """Erase a person's events everywhere; what they taught stays as weights, or with `relearn` goes too."""
        query = {"relearn": "true"} if relearn else None
        return self.send(Request("DELETE", f"/users/{quote(user, safe='')}", query=query))

    def create_experiment(self, name: str, *, a: Mapping[str, Any], b: Mapping[str, Any], **more: Any) -> Table:
        """Compare two sides, each `{"ranker": name}` or `{"weights": [...]}`; the same again changes nothing."""
        return self.send(Request("PUT", path_of(name, True), {"a": dict(a), "b": dict(b), **more}))

    def experiment(self, name: str) -> Table:
        """Wins, ties and losses of side a, their ratio wins / losses, and the p-value of the sign test."""
        return self.send(Request("GET", path_of(name, True)))


class Client(_Calls[dict[str, Any], Impression, FeedbackReceipt, Explanation, None]):
    """Waits for each answer; a call that gets none is sent again for `patience` seconds, then `Unreachable`.

    With `wire="msgpack"` the features of items that are lists of numbers, or rows of an array, are sent as bytes.
    """

    _connections = httpx.Client

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def send(self, request: Request, read: Callable[[httpx.Response], Any] = answer_of) -> Any:
        """The answer to a call; sent again while the service cannot be reached or is busy."""
        for pause in pauses(self._patience):
            try:
                response = self._http.request(**request.arguments())
                if response.status_code not in AGAIN:
                    return read(response)
            except LOST:
                pass
            time.sleep(pause)
        try:
            return read(self._http.request(**request.arguments()))
        except LOST as error:
            raise self._unreachable() from error


class AsyncClient(
    _Calls[
        Awaitable[dict[str, Any]],
        Awaitable[Impression],
        Awaitable[FeedbackReceipt],
        Awaitable[Explanation],
        Awaitable[None],
    ]
):
    """The same, to be awaited."""

    _connections = httpx.AsyncClient

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, request: Request, read: Callable[[httpx.Response], Any] = answer_of) -> Any:
        """The answer to a call; sent again while the service cannot be reached or is busy."""
        for pause in pauses(self._patience):
            try:
                response = await self._http.request(**request.arguments())
                if response.status_code not in AGAIN:
                    return read(response)
            except LOST:
                pass
            await asyncio.sleep(pause)
        try:
            return read(await self._http.request(**request.arguments()))
        except LOST as error:
            raise self._unreachable() from error
