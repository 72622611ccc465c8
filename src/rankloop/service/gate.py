"""The gate before every call: who may, how often, how much; and the headers after it."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankloop.core.errors import RankloopError
from rankloop.service.errors import Forbidden, TooLarge, TooMany, Unauthorised
from rankloop.service.metrics import Metrics
from rankloop.service.problems import problem_of, response_of
from rankloop.service.settings import LOOPBACK, Settings

OPEN = re.compile(r"^/($|healthz$|readyz$|page/|favicon\.ico$)")
RANKING = re.compile(r"^/(rankers|experiments)/[^/]+/(rank|feedback)(:batch)?$")
SECURITY = (
    (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
     b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)  # fmt: skip
MOST_CLIENTS = 10_000
logger = logging.getLogger("rankloop.service")


class Gate:
    """ASGI middleware: keys, rate, size, security headers, times and one line of log per refused or slow call."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self.app = app
        self.settings = settings
        self.metrics = metrics
        self._tokens: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *SECURITY]
            await send(message)

        try:
            self._check(scope)
        except RankloopError as error:
            await response_of(problem_of(error))(scope, receive, sending)
        else:
            await self.app(scope, receive, sending)
        seconds = time.perf_counter() - begun
        self.metrics.called(scope["method"], scope["path"], status, seconds)
        if status >= 400 or seconds > 1.0:
            logger.info(
                "call", extra={"method": scope["method"], "path": scope["path"], "status": status, "seconds": seconds}
            )

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._check_host(headers)
        key = _key(headers)
        self._check_rate(key or (scope.get("client") or ("",))[0])
        if not OPEN.match(scope["path"]):
            self._check_key(key, scope)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.settings.max_body:
            raise TooLarge(f"the body is larger than the limit of {self.settings.max_body} bytes")

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

    def _check_key(self, key: str, scope: Scope) -> None:
        if not self.settings.keys:
            return
        role = self.settings.role_of(key)
        if role is None:
            raise Unauthorised("send a key, as in Authorization: Bearer KEY")
        if role != "admin" and not (scope["method"] == "POST" and RANKING.match(scope["path"])):
            raise Forbidden("this key may rank and give feedback; this call needs a key of the role admin")

    def _check_rate(self, client: Any) -> None:
        now, rate = time.monotonic(), self.settings.rate
        if len(self._tokens) > MOST_CLIENTS:
            self._tokens.clear()
        left, before = self._tokens.get(client, (rate, now))
        left = min(rate, left + (now - before) * rate)
        if left < 1:
            raise TooMany(f"more than {rate:g} requests per second")
        self._tokens[client] = (left - 1, now)


def _key(headers: dict[bytes, bytes]) -> str:
    bearer = headers.get(b"authorization", b"").decode("latin-1")
    if bearer.lower().startswith("bearer "):
        return bearer[7:].strip()
    return headers.get(b"x-api-key", b"").decode("latin-1")
