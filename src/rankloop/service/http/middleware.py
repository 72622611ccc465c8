"""The middleware around every call: who may, how often, how much; and the headers, metrics and log after it."""

import logging
import re
import time
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankloop.core.errors import RankloopError
from rankloop.service.errors import Forbidden, TooLarge, TooMany, Unauthorised
from rankloop.service.http.metrics import Metrics
from rankloop.service.http.problems import problem_of, response_of
from rankloop.service.settings import LOOPBACK, Settings

OPEN = re.compile(r"^/($|healthz$|readyz$|page/|search/page/|favicon\.ico$)")
RANKING = re.compile(r"^(/(rankers|experiments)/[^/]+/(rank|feedback)(:batch)?|/search(/(clicks|undo|forget-me))?)$")
READING = re.compile(r"^/search/(status|history|why|document)$")
SEARCH_PAGE = "/search"
STATE = re.compile(r"^/rankers/[^/]+/state$")
SECURITY = (
    (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
     b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)  # fmt: skip
CLOSE = (b"connection", b"close")
RUNNING = SimpleNamespace(stopping=False)
_NAME = re.compile(r"^/(rankers|experiments|catalogues|log)/[^/]+")
_KNOWN = re.compile(
    r"^/(|rankers|experiments|catalogues(/\{name\})?|events|log/\{name\}|healthz|readyz|metrics|docs|openapi\.json|demo/people"
    r"|search(/(clicks|undo|why|document|forget|forget-me|history|refresh|status|study\.\w+))?"
    r"|(rankers|experiments)/\{name\}(/(rank|feedback|rank:batch|feedback:batch|state|snapshots|history|rollback|freeze|resume"
    r"|clone|forget|schema|explain|weights))?)$"
)
_METHODS = ("GET", "HEAD", "PATCH", "POST", "PUT")
MAX_CLIENTS = MAX_SERIES = 10_000
GONE = 499  # the status, in logs and metrics, of a call whose sender left before it was whole
logger = logging.getLogger("rankloop.service")


class GatedApp(FastAPI):
    """Every call goes through the gate; those of page views are answered right behind it, all others by FastAPI."""

    gate: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.gate(scope, receive, send)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The answer of FastAPI."""
        await super().__call__(scope, receive, send)


class AccessMiddleware:
    """ASGI middleware: keys, rate, size, security headers, times and one line of log per refused or slow call."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, state: Any = RUNNING) -> None:
        self.app = app
        self.state = state  # of the application: while it is `stopping`, an answer is the last of its connection
        self.settings = settings
        self.metrics = metrics
        self._tokens: dict[str, tuple[float, float]] = {}
        self._series: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *SECURITY]
                if self.state.stopping:
                    message["headers"].append(CLOSE)
            await send(message)

        try:
            self._check(scope)
            await self.app(scope, receive, sending)
        except ClientDisconnect:
            status = GONE
        except Exception as error:
            if not isinstance(error, RankloopError):
                logger.error("unforeseen", exc_info=error)
            if status:
                raise  # half of an answer is out already: whoever reads it must not take it for the whole
            await response_of(problem_of(error))(scope, receive, sending)
        finally:
            self._note(scope, status or 500, time.perf_counter() - begun)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method, path = scope["method"], scope["path"]
        count, times = self._series.get((method, path, status)) or self._series_of(method, path, status)
        count.inc()
        times.observe(seconds)
        if status >= 400 or seconds > 1.0:
            logger.info("call", extra={"method": method, "path": path, "status": status, "seconds": seconds})

    def _series_of(self, method: str, path: str, status: int) -> tuple[Any, Any]:
        """Names, unknown paths and unknown methods are left out, so that the number of series stays small."""
        plain = _NAME.sub(lambda found: f"/{found[1]}/{{name}}", path)
        call = f"{method} {plain}" if method in _METHODS and _KNOWN.match(plain) else "other"
        metrics = self.metrics
        series = metrics.calls.labels(call, str(status), metrics.worker), metrics.seconds.labels(call, metrics.worker)
        if call != "other" and status < 400 and len(self._series) < MAX_SERIES:  # else anybody could fill it
            self._series[method, path, status] = series
        return series

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._check_host(headers)
        client = (scope.get("client") or ("",))[0]
        if self.settings.keys:
            key = _key(headers)
            role = self.settings.role_of(key)
            client = f"key {key}" if role else client
        self._check_rate(client)
        if self.settings.keys and not _is_open(scope):
            _check_role(role, scope)
        file = scope["method"] == "PUT" and STATE.match(scope["path"])
        max_bytes = self.settings.max_file if file else self.settings.max_body
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > max_bytes:
            raise TooLarge(f"the body is larger than the limit of {max_bytes} bytes")

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """Without keys, a web page elsewhere must not reach the service, under a name of its own or by a form."""
        if self.settings.keys:
            return
        host = headers.get(b"host", b"localhost").decode("latin-1")
        name = host.rsplit(":", 1)[0].strip("[]") if not host.endswith("]") else host.strip("[]")
        if name not in LOOPBACK:
            raise Forbidden(f"the host {name!r:.80} is not this machine; set RANKLOOP_KEYS to serve under a name")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin.partition("://")[2] != host:
            raise Forbidden(f"another page, of {origin!r:.80}, may not call this service")

    def _check_rate(self, client: Any) -> None:
        """A bucket for each key that was given out, and for each address: a made-up key brings no bucket of its own."""
        now, rate = time.monotonic(), self.settings.rate
        if len(self._tokens) > MAX_CLIENTS:
            self._tokens.clear()
        full = max(rate, 1.0)
        left, before = self._tokens.get(client, (full, now))
        left = min(full, left + (now - before) * rate)
        if left < 1:
            raise TooMany(f"more than {rate:g} requests per second")
        self._tokens[client] = (left - 1, now)


def _is_open(scope: Scope) -> bool:
    """The pages themselves are: they ask for a key."""
    if scope["path"] == SEARCH_PAGE:
        return scope["method"] in ("GET", "HEAD")
    return bool(OPEN.match(scope["path"]))


def _check_role(role: str | None, scope: Scope) -> None:
    if role is None:
        raise Unauthorised("send a key, as in Authorization: Bearer KEY")
    allowed = RANKING if scope["method"] == "POST" else READING
    if role != "admin" and not allowed.match(scope["path"]):
        raise Forbidden("this key may rank and give feedback; this call needs a key of the role admin")


def _key(headers: dict[bytes, bytes]) -> str:
    bearer = headers.get(b"authorization", b"").decode("latin-1")
    if bearer.lower().startswith("bearer "):
        return bearer[7:].strip()
    return headers.get(b"x-api-key", b"").decode("latin-1")
