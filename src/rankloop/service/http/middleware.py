"""The middleware around every call: who may, how often, how much; and the headers, metrics and log after it."""

import logging
import re
import time
from random import getrandbits
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankloop.core.errors import RankloopError
from rankloop.service.errors import Forbidden, TooLarge, TooMany, Unauthorised
from rankloop.service.http.metrics import Metrics
from rankloop.service.http.problems import KINDS, problem_of, response_of
from rankloop.service.keys import Grant
from rankloop.service.settings import LOOPBACK, Settings

OPEN = re.compile(r"^/($|healthz$|readyz$|page/|search/page/|favicon\.ico$)")
RANKING = re.compile(r"^(/(rankers|experiments)/[^/]+/(rank|feedback)(:batch)?|/search(/(clicks|undo|forget-me))?)$")
READING = re.compile(r"^/search/(status|history|why|document)$")
SEARCH_PAGE = "/search"
NAMED = re.compile(r"^/(?:(?:rankers|experiments|catalogues|aliases)/([^/]+)|(search))(?:/|$)")
LOG = re.compile(r"^/log/([^/]+)$")
FILES = re.compile(r"^/rankers/[^/]+(/state)?$")  # a saved ranker, or one with the booster that is its base
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
_NAME = re.compile(r"^/(rankers|experiments|catalogues|log|users|aliases)/[^/]+")
_KNOWN = re.compile(
    r"^/(|rankers|experiments|catalogues(/\{name\})?|events|log/\{name\}|users/\{name\}|aliases(/\{name\})?|healthz|readyz|metrics|docs|openapi\.json|demo/people"
    r"|search(/(clicks|undo|why|document|forget|forget-me|history|refresh|status|study\.\w+))?"
    r"|(rankers|experiments)/\{name\}(/(rank|feedback|rank:batch|feedback:batch|state|snapshots|history|rollback|freeze|resume"
    r"|clone|forget|schema|explain|weights))?)$"
)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.:-]{1,128}")
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
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
        self._is_closed = settings.keyring.is_needed
        self._tokens: dict[str, tuple[float, float]] = {}
        self._series: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status, is_whole = time.perf_counter(), 0, False
        headers: dict[bytes, bytes] = dict(scope["headers"])
        scope["request_id"] = request_id(headers)

        async def sending(message: Message) -> None:
            nonlocal status, is_whole
            if message["type"] == "http.response.start":
                status = message["status"]
                named = (b"x-request-id", scope["request_id"].encode())
                message["headers"] = [*message.get("headers", ()), *SECURITY, named]
                if self.state.stopping:
                    message["headers"].append(CLOSE)
            else:
                is_whole = not message.get("more_body", False)
            await send(message)

        try:
            self._check(scope, headers)
            await self.app(scope, receive, sending)
        except ClientDisconnect:
            status = GONE
        except Exception as error:
            if not isinstance(error, RankloopError):
                logger.error("unforeseen", exc_info=error, extra={"request": scope["request_id"]})
            if status and not is_whole:
                raise  # half of an answer is out already: whoever reads it must not take it for the whole
            if not status:
                await response_of(problem_of(error))(scope, receive, sending)
        finally:
            self._note(scope, status or 500, time.perf_counter() - begun)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method, path = scope["method"], scope["path"]
        count, times = self._series.get((method, path, status)) or self._series_of(method, path, status)
        count.inc()
        times.observe(seconds)
        if status >= 400:
            reason = scope.get("refusal") or KINDS.get(status, "other")
            self.metrics.refused.labels(reason, self.metrics.worker).inc()
        if status >= 400 or seconds > 1.0:
            grant = scope.get("grant")
            who = {"request": scope["request_id"]} | ({"key": grant.id} if grant else {})
            logger.info("call", extra={"method": method, "path": path, "status": status, "seconds": seconds} | who)

    def _series_of(self, method: str, path: str, status: int) -> tuple[Any, Any]:
        call = call_of(method, path)
        metrics = self.metrics
        series = metrics.calls.labels(call, str(status), metrics.worker), metrics.seconds.labels(call, metrics.worker)
        if call != "other" and status < 400 and len(self._series) < MAX_SERIES:  # else anybody could fill it
            self._series[method, path, status] = series
        return series

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Whether a call may go on; `grant` and, where it may not, `refusal` are noted in its scope."""
        if not self._is_closed:
            self._check_host(scope, headers)
        client = (scope.get("client") or ("",))[0]
        key = _key(headers) if self._is_closed else ""
        grant = scope["grant"] = self.settings.keyring.grant_of(key) if key else None
        self._check_rates(scope, client, grant)
        if self._is_closed and not _is_open(scope):
            _check_grant(grant, bool(key), scope)
        file = scope["method"] == "PUT" and FILES.match(scope["path"])
        max_bytes = self.settings.max_file if file else self.settings.max_body
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > max_bytes:
            raise TooLarge(f"the body is larger than the limit of {max_bytes} bytes")

    def _check_host(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Without keys, a web page elsewhere must not reach the service, under a name of its own or by a form."""
        host = headers.get(b"host", b"localhost").decode("latin-1")
        name = host.rsplit(":", 1)[0].strip("[]") if not host.endswith("]") else host.strip("[]")
        if name not in LOOPBACK:
            scope["refusal"] = "host"
            raise Forbidden(f"the host {name!r:.80} is not this machine; set RANKLOOP_KEYS to serve under a name")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin.partition("://")[2] != host:
            scope["refusal"] = "origin"
            raise Forbidden(f"another page, of {origin!r:.80}, may not call this service")

    def _check_rates(self, scope: Scope, client: str, grant: Grant | None) -> None:
        """A bucket for each key that was given out, and for each address: a made-up key brings no bucket of its own.

        Where a key has a rate of its own, all who use it share that, and each of their addresses has the usual one.
        """
        if grant is None:
            self._check_rate(scope, client, self.settings.rate)
        else:
            if grant.rate is not None:
                self._check_rate(scope, f"key {grant.id} {client}", self.settings.rate)
            shared = grant.rate / self.settings.sharers if grant.rate else self.settings.rate
            self._check_rate(scope, f"key {grant.id}", shared)

    def _check_rate(self, scope: Scope, client: str, rate: float) -> None:
        now = time.monotonic()
        if len(self._tokens) > MAX_CLIENTS:
            self._tokens.clear()
        full = max(rate, 1.0)
        left, before = self._tokens.get(client, (full, now))
        left = min(full, left + (now - before) * rate)
        if left < 1:
            scope["refusal"] = "key-rate" if client.startswith("key ") else "rate"
            raise TooMany(f"more than {rate:g} requests per second")
        self._tokens[client] = (left - 1, now)


def call_of(method: str, path: str) -> str:
    """Names, unknown paths and unknown methods are left out, so that the number of series stays small."""
    plain = _NAME.sub(lambda found: f"/{found[1]}/{{name}}", path)
    return f"{method} {plain}" if method in _METHODS and _KNOWN.match(plain) else "other"


def name_in(path: str, query: bytes = b"") -> str | None:
    """Of which ranker, experiment or catalogue a path is; None where it names none."""
    log = LOG.match(path)
    if log:
        return log[1] if b"format" in query else log[1].rpartition(".")[0]
    found = NAMED.match(path)
    return next(filter(None, found.groups()), None) if found else None


def _is_open(scope: Scope) -> bool:
    """The pages themselves are: they ask for a key."""
    if scope["path"] == SEARCH_PAGE:
        return scope["method"] in ("GET", "HEAD")
    return bool(OPEN.match(scope["path"]))


def _check_grant(grant: Grant | None, has_key: bool, scope: Scope) -> None:
    if grant is None:
        scope["refusal"] = "unknown-key" if has_key else "no-key"
        raise Unauthorised("send a key, as in Authorization: Bearer KEY")
    allowed = RANKING if scope["method"] == "POST" else READING
    if grant.role != "admin" and not allowed.match(scope["path"]):
        scope["refusal"] = "role"
        raise Forbidden("this key may rank and give feedback; this call needs a key of the role admin")
    if grant.rankers:
        check_reach(scope, name_in(scope["path"], scope.get("query_string", b"")) or "")


def check_reach(scope: Scope, *names: str | None) -> None:
    """Refuse names of rankers, experiments and catalogues that the key of a call is not for; None: there is no name."""
    grant: Grant | None = scope.get("grant")
    if grant is not None and not all(grant.reaches(name) for name in names if name is not None):
        scope["refusal"] = "ranker"
        raise Forbidden(f"this key is for names like {', '.join(grant.rankers)}")


def _key(headers: dict[bytes, bytes]) -> str:
    bearer = headers.get(b"authorization", b"").decode("latin-1")
    if bearer.lower().startswith("bearer "):
        return bearer[7:].strip()
    return headers.get(b"x-api-key", b"").decode("latin-1")


def request_id(headers: dict[bytes, bytes]) -> str:
    """What the caller calls its request, where that is safe to repeat; else 16 random digits."""
    given = headers.get(b"x-request-id", b"")
    return given.decode("ascii") if given and _REQUEST_ID.fullmatch(given) else f"{getrandbits(64):016x}"
