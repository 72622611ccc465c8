"""The middleware around every call: keys, rate limits and size limits before it; headers, metrics and log after it."""

import logging
import re
import time
from collections.abc import Mapping
from hashlib import sha256
from random import getrandbits
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankloop.service.api_keys import KEY_ROLES, Grant
from rankloop.service.errors import Forbidden, TooLarge, TooMany, Unauthorised, WrongMedia
from rankloop.service.http.connections import send_at_once
from rankloop.service.http.metrics import Metrics
from rankloop.service.http.problems import EXPECTED_ERRORS, PROBLEM_KINDS, problem_of, response_of
from rankloop.service.settings import LOOPBACK_HOSTS

if TYPE_CHECKING:
    from rankloop.service.http.endpoints import Endpoint, Endpoints

JSON_MEDIA = "application/json"
FILE_MEDIA = "application/octet-stream"
SECURITY_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
     b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)  # fmt: skip
RESPONSE_HEADERS = [(b"content-type", JSON_MEDIA.encode()), *SECURITY_HEADERS]
RESPONSE_HEAD = b"".join([b"%s: %s\r\n" % header for header in RESPONSE_HEADERS]) + b"x-request-id: %s\r\n"
MEDIA_NAMES = {JSON_MEDIA: "JSON", FILE_MEDIA: "the file"}
CLOSE_HEADER = (b"connection", b"close")
RUNNING_STATE = SimpleNamespace(stopping=False)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.:-]{1,128}")  # of a caller, if it is safe to repeat; else 16 random digits
MAX_CLIENTS = 10_000  # whose rates are kept in memory
DAY_SECONDS = 86_400
DISCONNECTED_STATUS = 499  # in logs and metrics, of a call whose client left before its body was complete
_encode = msgspec.json.Encoder().encode
logger = logging.getLogger("rankloop.service")


class JsonResponse(Response):
    """A response in JSON."""

    def __init__(self, value: Any, status: int = 200) -> None:
        self.body, self.status_code, self.background = _encode(value), status, None
        self.raw_headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", JSON_MEDIA.encode())]


class RankloopApp(FastAPI):
    """FastAPI behind the middleware. The middleware answers direct endpoints itself."""

    entry: ASGIApp  # the outermost middleware

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call by the outermost middleware."""
        await self.entry(scope, receive, send)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond as FastAPI does."""
        await super().__call__(scope, receive, send)


class AccessMiddleware:
    """ASGI middleware: keys, rate limits, size limits, security headers, metrics, and a log of failed or slow calls.

    It reads role, size limit and metric name from the endpoint of the call. A direct endpoint is answered here, all
    others by `app`.
    """

    def __init__(self, app: ASGIApp, endpoints: "Endpoints", metrics: Metrics, state: Any = RUNNING_STATE) -> None:
        self.app = app
        self.state = state
        self.endpoints = endpoints
        self.settings = endpoints.settings
        self.metrics = metrics
        self._needs_key = self.settings.keyring.is_needed
        self._tokens: dict[str, tuple[float, float]] = {}
        self._usage: dict[tuple[str, int], list[int]] = {}  # by key and day: its calls, and the bytes of their bodies
        self._series: dict[tuple[str, int], tuple[Any, Any]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call, unless a check refuses it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start_time, status, is_complete = time.perf_counter(), 0, False
        headers: dict[bytes, bytes] = dict(scope["headers"])
        name = headers.get(b"x-request-id", b"")
        scope["request_id"] = name.decode("ascii") if _REQUEST_ID.fullmatch(name) else f"{getrandbits(64):016x}"
        parts = scope["path"].split("/")
        endpoint = self.endpoints.direct.get((scope["method"], parts[1], parts[3])) if len(parts) == 4 else None
        if endpoint is not None and parts[2]:
            scope["ranker"] = parts[2]
        else:
            endpoint, scope["ranker"] = self.endpoints.find(scope)
        scope["declared"] = endpoint

        async def send_with_headers(message: Message) -> None:
            nonlocal status, is_complete
            if message["type"] == "http.response.start":
                status = message["status"]
                request_header = (b"x-request-id", scope["request_id"].encode())
                message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS, request_header]
                if self.state.stopping:
                    message["headers"].append(CLOSE_HEADER)
            else:
                is_complete = not message.get("more_body", False)
            await send(message)

        try:
            self._check(scope, endpoint, headers)
            receive = self._metered(scope, receive)
            if endpoint.handler is None:
                await self.app(scope, receive, send_with_headers)
            else:
                media = headers.get(b"content-type", b"").decode("latin-1") or JSON_MEDIA
                # The content is not assigned to a name: it is large, and would stay in memory while the disk writes.
                response = await endpoint.handler(
                    scope["ranker"], await receive_content(receive, endpoint.max_bytes, media), headers
                )
                head = RESPONSE_HEAD % scope["request_id"].encode()
                if not self.state.stopping and send_at_once(send, head, _encode(response)):
                    status, is_complete = 200, True
                else:
                    await JsonResponse(response)(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = DISCONNECTED_STATUS
        except Exception as error:
            if not isinstance(error, EXPECTED_ERRORS):
                logger.error("unexpected error", exc_info=error, extra={"request": scope["request_id"]})
            if status and not is_complete:
                raise  # a part of the response was sent; the client must see that it is incomplete
            if not status:
                await response_of(problem_of(error))(scope, receive, send_with_headers)
        finally:
            self._record(scope, endpoint, status or 500, time.perf_counter() - start_time)

    def _record(self, scope: Scope, endpoint: "Endpoint", status: int, seconds: float) -> None:
        """Count a call, and log it if it was refused or slow."""
        metrics, series = self.metrics, self._series.get((endpoint.name, status))
        if series is None:
            calls = metrics.calls.labels(endpoint.name, str(status), metrics.worker)
            series = self._series[endpoint.name, status] = calls, metrics.seconds.labels(endpoint.name, metrics.worker)
        series[0].inc()
        series[1].observe(seconds)
        if status >= 400:
            metrics.refused.labels(scope.get("refusal") or PROBLEM_KINDS.get(status, "other"), metrics.worker).inc()
        if status >= 400 or seconds > 1.0:
            grant = scope.get("grant")
            caller = {"request": scope["request_id"]} | ({"key": grant.id} if grant else {})
            # The declared path, since the path of a call may hold the id of a user, or anything at all.
            call = {"call": endpoint.name, "ranker": scope["ranker"] or "", "status": status, "seconds": seconds}
            logger.info("call", extra=call | caller)

    def _check(self, scope: Scope, endpoint: "Endpoint", headers: dict[bytes, bytes]) -> None:
        """Refuse a call that is not allowed; its scope gets `grant`, and the reason as `refusal`."""
        if not self._needs_key:
            self._check_host(scope, headers)
        grant, key, keyring = None, key_of(headers) if self._needs_key else "", self.settings.keyring
        if key:
            if time.monotonic() >= keyring.check_at:
                keyring.refresh()
            grant = keyring.grants.get(f"sha256-{sha256(key.encode()).hexdigest()}")
        scope["grant"] = grant
        self._check_rates(scope, (scope.get("client") or ("",))[0], grant)
        if self._needs_key and endpoint.role != "anyone":
            _check_grant(grant, bool(key), scope, endpoint)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > endpoint.max_bytes:
            raise TooLarge(f"the body is larger than the limit of {endpoint.max_bytes} bytes")

    def _check_host(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Refuse calls from other web pages while no key is needed: they could use DNS rebinding, or a form."""
        host = headers.get(b"host", b"localhost").decode("latin-1")
        name = host.rsplit(":", 1)[0].strip("[]") if not host.endswith("]") else host.strip("[]")
        if name not in LOOPBACK_HOSTS:
            scope["refusal"] = "host"
            raise Forbidden(f"the host {name!r:.80} is not this machine; set RANKLOOP_KEYS to serve under a host name")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin.partition("://")[2] != host:
            scope["refusal"] = "origin"
            raise Forbidden(f"pages of {origin!r:.80} may not call this service; allow them with --allow-origin")

    def _check_rates(self, scope: Scope, client: str, grant: Grant | None) -> None:
        """Apply the rate limits: one per valid key, and one per address for calls without a valid key."""
        # If a key has its own rate, its users share that rate, and each of their addresses has the usual one too.
        if grant is None:
            self._check_rate(scope, client, self.settings.rate)
        else:
            if grant.rate is not None:
                self._check_rate(scope, f"key {grant.id} {client}", self.settings.rate)
            shared = grant.rate / self.settings.sharers if grant.rate else self.settings.rate
            self._check_rate(scope, f"key {grant.id}", shared)

    def _metered(self, scope: Scope, receive: Receive) -> Receive:
        """Count a call towards the quota of its key; return the channel that counts the bytes of the body, too."""
        grant: Grant | None = scope["grant"]
        if grant is None or (grant.calls_per_day is None and grant.bytes_per_day is None):
            return receive
        day = int(time.time() // DAY_SECONDS)
        self._usage.pop((grant.id, day - 1), None)
        usage = self._usage.setdefault((grant.id, day), [0, 0])
        sharers, max_bytes = self.settings.sharers, grant.bytes_per_day
        usage[0] += 1
        if grant.calls_per_day is not None and usage[0] > grant.calls_per_day / sharers:
            scope["refusal"] = "key-quota"
            raise TooMany(f"the key may send {grant.calls_per_day:g} calls a day: try again after midnight UTC")

        async def receive_metered() -> Message:
            message = await receive()
            usage[1] += len(message.get("body", b""))
            if max_bytes is not None and usage[1] > max_bytes / sharers:
                scope["refusal"] = "key-quota"
                raise TooMany(f"the key may send {max_bytes:g} bytes a day: try again after midnight UTC")
            return message

        return receive_metered

    def _check_rate(self, scope: Scope, client: str, rate: float) -> None:
        now = time.monotonic()
        capacity = max(rate, 1.0)  # of a token bucket
        tokens, filled_at = self._tokens.pop(client, (capacity, now))
        if len(self._tokens) >= MAX_CLIENTS:  # forget the client that has been silent longest: it stands first
            del self._tokens[next(iter(self._tokens))]
        tokens = min(capacity, tokens + (now - filled_at) * rate)
        if tokens < 1:
            self._tokens[client] = (tokens, now)
            scope["refusal"] = "key-rate" if client.startswith("key ") else "rate"
            raise TooMany(f"the limit is {rate:g} requests per second: send them more slowly")
        self._tokens[client] = (tokens - 1, now)


async def receive_content(receive: Receive, max_bytes: int, media: str, accepted: str = JSON_MEDIA) -> bytes:
    """Return the body of a request, or refuse it as soon as more bytes have come than are allowed.

    Args:
      receive: The ASGI channel.
      max_bytes: The limit.
      media: The Content-Type of the request.
      accepted: The accepted type.
    """
    if not media.lower().startswith(accepted):
        advice = f"send {MEDIA_NAMES[accepted]} with the header Content-Type: {accepted}"
        raise WrongMedia(f"the body has the Content-Type {media!r:.80}; {advice}")
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size > max_bytes:
            raise TooLarge(f"the body is larger than the limit of {max_bytes} bytes")
        parts.append(part)
    return b"".join(parts) if len(parts) != 1 else parts[0]


def _check_grant(grant: Grant | None, has_key: bool, scope: Scope, endpoint: "Endpoint") -> None:
    """Refuse a call whose key does not allow its endpoint."""
    if grant is None:
        scope["refusal"] = "unknown-key" if has_key else "no-key"
        raise Unauthorised("this call needs a valid key: header Authorization: Bearer KEY (commands: RANKLOOP_KEY)")
    if KEY_ROLES.index(grant.role) < KEY_ROLES.index(endpoint.role):
        scope["refusal"] = "role"
        allowed = "feedback" if grant.role == "feedback" else "ranking and feedback"
        raise Forbidden(f"this key is for {allowed} only; this call needs a key with the role {endpoint.role}")
    if grant.role == "feedback" and not scope.get("allowed_origin"):
        scope["refusal"] = "origin"
        raise Forbidden("a key of the role feedback is for pages of --allow-origin, and this call comes from elsewhere")
    if grant.rankers:
        check_reach(scope, scope["ranker"])


def check_reach(scope: Scope, *names: str | None) -> None:
    """Refuse names of rankers, experiments and catalogues that the key of a call is not for; None is skipped."""
    grant: Grant | None = scope.get("grant")
    if grant is not None and not all(grant.reaches(name) for name in names if name is not None):
        scope["refusal"] = "ranker"
        raise Forbidden(f"this key is for the names {', '.join(grant.rankers)} only")


def key_of(headers: Mapping[bytes, bytes]) -> str:
    """Return the API key of a call; empty if it has none."""
    bearer = headers.get(b"authorization", b"").decode("latin-1")
    if bearer.lower().startswith("bearer "):
        return bearer[7:].strip()
    return headers.get(b"x-api-key", b"").decode("latin-1")
