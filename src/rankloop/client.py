"""A client of the service, sync and async. Calls are repeated while the network fails or the service is busy.

with Client("http://127.0.0.1:8080") as client:
    client.create("shop", learner="newton_pairs", problem={"feature_names": ["price", "rating"]})
    shown = client.rank("shop", {"a": {"price": 3}, "b": {"rating": 4.5}})
    client.feedback("shop", shown, clicks=["b"], final=True)
"""

# mypy: disable-error-code="no-any-return"
# `send` returns the result of its `read`, or an awaitable of it.

import asyncio
import json
import os
import secrets
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import numpy as np

from rankloop.adapter import Id
from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.files import atomic_write
from rankloop.core.types import Decision
from rankloop.features.explanation import Contribution, Explanation
from rankloop.features.schema import Schema
from rankloop.impression import Impression, plain_value
from rankloop.rules import Rules

__all__ = ["AsyncClient", "Client", "FeedbackReceipt", "Impression", "Refused", "Unreachable"]

DEFAULT_ADDRESS = "http://127.0.0.1:8080"
RETRY_SECONDS = 30.0  # a restart of the service takes less
Table = TypeVar("Table")  # the return types of the two clients: values, or awaitables of them
Shown = TypeVar("Shown")
Receipt = TypeVar("Receipt")
Explained = TypeVar("Explained")
Nothing = TypeVar("Nothing")
Row = Mapping[str, Any]  # values by name
Numbers = Sequence[float] | Row  # in order, or by name
Items = Mapping[Id, Numbers] | Sequence[Mapping[str, Any]]
RETRIED_STATUSES = (429, 502, 503, 504, 507)
RETRIED_ERRORS = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0  # seconds before a call is sent again


class Refused(RankloopError):
    """The service refused a call with this HTTP status and problem document, or another program responded for it."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        errors = problem.get("errors")  # any program may have sent them, so nothing is assumed
        first = errors[0] if isinstance(errors, list) and errors else None
        field = f"{first['field']}: " if isinstance(first, dict) and first.get("field") else ""
        super().__init__(f"{status} {problem.get('title')}: {field}{problem.get('detail')}")
        self.problem = problem  # RFC 9457
        self.status = status


class Unreachable(RankloopError):
    """No response came in time; the last call may or may not have arrived."""


class FeedbackReceipt(NamedTuple):
    """The verdict on feedback: accepted, closed or repeated."""

    impression: str
    verdict: str
    state: int


class Request(NamedTuple):
    """A call that may be sent again, with the same body and the same idempotency key."""

    method: str
    path: str
    body: Any = None
    key: str | None = None
    query: Mapping[str, str] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for httpx."""
        headers, content = {"Idempotency-Key": self.key} if self.key else {}, self.body
        if isinstance(content, bytes):
            headers["Content-Type"] = "application/octet-stream"
        elif content is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(content, ensure_ascii=False, allow_nan=False, default=plain_value).encode()
        call = {"method": self.method, "url": self.path, "params": self.query}
        return call | {"headers": headers, "content": content}


def _path_of(name: str, experiment: bool = False) -> str:
    return f"/experiments/{name}" if experiment else f"/rankers/{name}"


def _pauses(patience: float) -> Iterator[float]:
    """Yield pauses in seconds, each longer than the last, until `patience` seconds have passed."""
    end, pause = time.monotonic() + patience, FIRST_PAUSE
    while (left := end - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(2 * pause, MAX_PAUSE)


def _answer_of(response: httpx.Response) -> dict[str, Any]:
    """Return the response of the service; raise `Refused` if it refused the call, or if another program responded."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if response.is_success and isinstance(document, dict):
        return document
    if response.is_success or not isinstance(document, dict) or "title" not in document:
        raise _foreign(response.status_code, response.text)
    raise Refused(response.status_code, document)


def _impression_of(response: httpx.Response) -> Impression:
    """Return the impression of a response, as `Ranker.rank` returns it."""
    names = "impression", "ranking", "state", "log_propensity"
    impression, ids, state, log_propensity = _parts(_answer_of(response), names)
    decision: Decision[Any] = Decision(np.arange(len(ids)), np.nan if log_propensity is None else log_propensity, ())
    return Impression(items=ids, decision=decision, impression=impression, state=state)


def _file_of(response: httpx.Response) -> bytes:
    if not response.is_success:
        _answer_of(response)
    return response.content


def _explanation_of(response: httpx.Response) -> Explanation:
    """Return the explanation of a response, as `Ranker.explain` returns it."""
    answer = _answer_of(response)
    id, score, parts = _parts(answer, ("id", "score", "contributions"))
    contributions = [Contribution._make(_parts(part, Contribution._fields)) for part in parts]
    contributions = [part._replace(shares_column_with=tuple(part.shares_column_with)) for part in contributions]
    return Explanation(id, score, contributions, tuple(answer.get("rules", ())))


def _receipt_of(response: httpx.Response) -> FeedbackReceipt:
    return FeedbackReceipt._make(_parts(_answer_of(response), FeedbackReceipt._fields))


def _parts(answer: Mapping[str, Any], names: tuple[str, ...]) -> list[Any]:
    """Return these fields of a response; other fields, of a later version, are ignored."""
    if not all(name in answer for name in names):
        raise _foreign(200, str(answer))
    return [answer[name] for name in names]


def _foreign(status: int, text: str) -> Refused:
    """Return the error for a response that is not from rankloop."""
    return Refused(status, {"status": status, "title": "not a response of rankloop", "detail": text[:200]})


def _done(response: httpx.Response) -> None:
    """Raise `Refused` unless the call succeeded."""
    _answer_of(response)


class _Calls(Generic[Table, Shown, Receipt, Explained, Nothing]):
    """The calls of the service, for the sync and the async client."""

    _connections: type[httpx.Client | httpx.AsyncClient]
    send: Callable[..., Any]  # sends a request; its second argument makes the result of the response

    def __init__(
        self, address: str = DEFAULT_ADDRESS, *, key: str = "", timeout: float = 10.0, patience: float = RETRY_SECONDS
    ) -> None:
        if not address.startswith(("http://", "https://")):
            raise InvalidInput(f"address must begin with http:// or https://, got {address!r}")
        if not 0 <= patience < float("inf"):
            raise InvalidInput(f"patience must be a number of seconds, 0 or more, got {patience}")
        self._address, self._patience = address, patience
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http: Any = self._connections(base_url=address, headers=headers, timeout=timeout)

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
        """Create a ranker; repeating the call changes nothing.

        Args:
          name: Its name.
          learner: The kind of its learner, or a spec.
          problem: Its problem, as in `{"feature_names": [...]}`.
          schema: The kinds of its fields, if features are not plain numbers.
          **more: Further fields, such as `window`; `base={"booster": path}` sends the file of a booster.
        """
        plain, base = schema.to_plain() if isinstance(schema, Schema) else schema, more.get("base")
        fields = {} if plain is None else {"schema": dict(plain)}
        if isinstance(base, Mapping) and base.get("booster") is not None:
            booster = base["booster"]
            content = booster if isinstance(booster, bytes) else Path(booster).read_bytes()
            more["base"] = {**base, "booster": b64encode(content).decode()}
        return self.send(Request("PUT", _path_of(name), {"learner": learner, "problem": {**problem, **fields}, **more}))

    def upload(self, name: str, path: str | os.PathLike[str], **settings: Any) -> Table:
        """Create a ranker from a saved file; another ranker of that name is refused (409).

        `settings` are fields of `create` that do not follow from the file, such as `base` and `guard`.
        """
        query = {setting: json.dumps(value, default=plain_value) for setting, value in settings.items()}
        return self.send(Request("PUT", f"/rankers/{name}/state", Path(path).read_bytes(), query=query or None))

    def download(self, name: str, path: str | os.PathLike[str]) -> Nothing:
        """Write the model of a ranker to a file for `rankloop.load` and `upload`."""
        request = Request("GET", f"/rankers/{name}/state")
        return self.send(request, lambda response: atomic_write(Path(path), _file_of(response)))

    def evolve(
        self,
        name: str,
        *,
        features: Row | None = None,
        context: Row | None = None,
        crosses: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> Table:
        """Add fields by kind and crosses, as in `segment*brand`, to the schema of a ranker, or remove some."""
        change = {"features": features, "context": context, "crosses": list(crosses), "remove": list(remove)}
        body = {part: value for part, value in change.items() if value}
        return self.send(Request("PATCH", f"/rankers/{name}/schema", body))

    def explain(self, name: str, shown: Impression | str, id: Id) -> Explained:
        """Return the contribution of each value of an item to its score now, the largest first.

        `shown` is the impression that showed the item, or its name.
        """
        impression = shown if isinstance(shown, str) else shown.impression
        request = Request("GET", f"/rankers/{name}/explain", query={"impression": impression, "id": str(id)})
        return self.send(request, _explanation_of)

    def weights(self, name: str) -> Table:
        """Return the largest weights by name; with a schema, of the names in recent impressions."""
        return self.send(Request("GET", f"/rankers/{name}/weights"))

    def put_catalogue(self, name: str, rows: Mapping[Any, Row | None]) -> Table:
        """Put rows by id into a catalogue, so that `rank(name, ids=[…])` is enough; None deletes a row."""
        listed = {str(id): None if row is None else dict(row) for id, row in rows.items()}
        return self.send(Request("PUT", f"/catalogues/{name}", {"rows": listed}))

    def catalogue(self, name: str) -> Table:
        """Return the number of rows, the event of the last change, and the rankers that use the catalogue."""
        return self.send(Request("GET", f"/catalogues/{name}"))

    def rank(
        self,
        name: str,
        items: Items = (),
        *,
        query_id: str = "",
        context: Numbers = (),
        experiment: bool = False,
        key: str = "",
        **more: Any,
    ) -> Shown:
        """Return the order to show.

        Args:
          name: The ranker or experiment.
          items: Features by item id, or a list of `{"id": ..., "features": ...}`.
          query_id: The query.
          context: Numbers, or values by column name.
          experiment: True to rank by the experiment of that name.
          key: A call with the key of an earlier one gets the same impression; a new key unless given.
          **more: Further fields, such as `user`, `pinned` and `ids`.
        """
        columns = dict(context) if isinstance(context, Mapping) else list(context)
        if isinstance(items, Mapping):
            items = [{"id": id, "features": row} for id, row in items.items()]
        body = {"items": list(items), "query_id": query_id, "context": columns, **more}
        path = f"{_path_of(name, experiment)}/rank"
        return self.send(Request("POST", path, body, key or secrets.token_hex(16)), _impression_of)

    def feedback(
        self, name: str, shown: Impression | str, *, final: bool = False, experiment: bool = False, **feedback: Any
    ) -> Receipt:
        """Give feedback on an impression.

        Args:
          name: The ranker or experiment.
          shown: The impression, or its name.
          final: True to close the impression.
          experiment: True for the experiment of that name.
          **feedback: One of clicks, relevances, preferred and reward; with it or alone `outcomes`, the totals so far,
            as in `{"purchase": {"b": 1}}`.
        """
        impression = shown if isinstance(shown, str) else shown.impression
        revealed = {kind: value for kind, value in feedback.items() if value is not None}
        body = {"impression": impression, "final": final, **revealed}
        return self.send(Request("POST", f"{_path_of(name, experiment)}/feedback", body), _receipt_of)

    def ranker(self, name: str) -> Table:
        """Return the spec, state number, counts and health of a ranker."""
        return self.send(Request("GET", _path_of(name)))

    def delete(self, name: str, *, experiment: bool = False) -> Nothing:
        """Delete a ranker or an experiment with its events; its name may be used again."""
        return self.send(Request("DELETE", _path_of(name, experiment)), _done)

    def set_window(self, name: str, window: float) -> Table:
        """Change the feedback window of a ranker, in seconds, also for open impressions."""
        return self.send(Request("PATCH", _path_of(name), {"window": window}))

    def set_alias(self, name: str, ranker: str | None) -> Nothing:
        """Point an alias to a ranker; None deletes the alias."""
        if ranker is None:
            return self.send(Request("DELETE", f"/aliases/{name}"), _done)
        return self.send(Request("PUT", f"/aliases/{name}", {"ranker": ranker}), _done)

    def set_rules(self, name: str, rules: Rules) -> Table:
        """Replace the rules of a ranker, which are applied to the learned order; `Rules()` for none."""
        return self.send(Request("PUT", f"/rankers/{name}/rules", msgspec.to_builtins(rules)))

    def states(self, name: str) -> Table:
        """Return the states of a ranker that a rollback can restore, the initial one first."""
        return self.send(Request("GET", f"/rankers/{name}/snapshots"))

    def rollback(self, name: str, state: int | None = None, *, preview: bool = False) -> Table:
        """Roll a ranker back to a state, by its number, or one step.

        A preview returns how many recent lists would get another order, and changes nothing. A call that is repeated
        because no response came may go two steps back.
        """
        body = {"preview": preview} if state is None else {"state": state, "preview": preview}
        return self.send(Request("POST", f"/rankers/{name}/rollback", body))

    def find_user(self, user: str) -> Table:
        """Return everything that is stored of a user, in all rankers and experiments."""
        return self.send(Request("GET", f"/users/{quote(user, safe='')}"))

    def erase_user(self, user: str, *, relearn: bool = False) -> Table:
        """Erase a user's events in all rankers and experiments; return the proof: what was removed where.

        With `relearn` all are retrained without them; otherwise the weights learned from them stay.
        """
        query = {"relearn": "true"} if relearn else None
        return self.send(Request("DELETE", f"/users/{quote(user, safe='')}", query=query))

    def create_experiment(self, name: str, *, a: Mapping[str, Any], b: Mapping[str, Any], **more: Any) -> Table:
        """Create an experiment; repeating the call changes nothing.

        Args:
          name: Its name.
          a: One variant: `{"ranker": name}`, `{"weights": [...]}` or `{"kind": "given_order"}`; in an A/B test the new.
          b: The other variant.
          **more: Further fields, such as `method="split"` for an A/B test, `guardrails` and `window`.
        """
        return self.send(Request("PUT", _path_of(name, True), {"a": dict(a), "b": dict(b), **more}))

    def experiment(self, name: str) -> Table:
        """Return wins and losses of a, or the means per user of an A/B test, with p-values valid at any time."""
        return self.send(Request("GET", _path_of(name, True)))


class Client(_Calls[dict[str, Any], Impression, FeedbackReceipt, Explanation, None]):
    """A client whose calls return when the response has come.

    Args:
      address: The URL of the service.
      key: An API key.
      timeout: Seconds to wait for one response.
      patience: Seconds in which a call without a response is repeated; then it raises `Unreachable`.
    """

    _connections = httpx.Client

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def send(self, request: Request, read: Callable[[httpx.Response], Any] = _answer_of) -> Any:
        """Send a call, repeatedly while the service cannot be reached or is busy."""
        pauses = _pauses(self._patience)
        while True:
            pause = next(pauses, None)
            try:
                response = self._http.request(**request.arguments())
                if pause is None or response.status_code not in RETRIED_STATUSES:
                    return read(response)
            except RETRIED_ERRORS as error:
                if pause is None:
                    raise self._unreachable() from error
            time.sleep(pause or 0.0)


class AsyncClient(
    _Calls[
        Awaitable[dict[str, Any]],
        Awaitable[Impression],
        Awaitable[FeedbackReceipt],
        Awaitable[Explanation],
        Awaitable[None],
    ]
):
    """A client whose calls are awaited; its arguments are those of `Client`."""

    _connections = httpx.AsyncClient

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def send(self, request: Request, read: Callable[[httpx.Response], Any] = _answer_of) -> Any:
        """Send a call, repeatedly while the service cannot be reached or is busy."""
        pauses = _pauses(self._patience)
        while True:
            pause = next(pauses, None)
            try:
                response = await self._http.request(**request.arguments())
                if pause is None or response.status_code not in RETRIED_STATUSES:
                    return read(response)
            except RETRIED_ERRORS as error:
                if pause is None:
                    raise self._unreachable() from error
            await asyncio.sleep(pause or 0.0)
