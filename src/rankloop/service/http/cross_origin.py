"""Pages elsewhere: an allow-list of origins that may call some paths, and of pages that may frame the search page."""

import re
from collections.abc import Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankloop.core.errors import InvalidInput

SEARCH_PATHS = r"/search(/clicks|/undo|/document)?"
FEEDBACK_PATHS = r"/(rankers|experiments)/[^/]+/feedback"
SCRIPT_PATHS = ("/rankloop.js", "/search-field.js")
PREFLIGHT_SECONDS = b"600"


def check_origins(origins: Iterable[str]) -> frozenset[str]:
    """Return origins such as https://example.org, or raise `InvalidInput` for anything else, `*` too."""
    for origin in origins:
        scheme, separator, host = origin.partition("://")
        if scheme not in ("http", "https") or not separator or not host or set(host) & set("/*?# "):
            raise InvalidInput(f"--allow-origin {origin!r:.80}: give scheme and host, as in https://example.org")
    return frozenset(origins)


class CrossOriginAccess:
    """ASGI middleware: lets pages of allowed origins call some paths, and allowed pages frame the search.

    Calls from elsewhere carry no cookies. All other paths and origins are answered as without it. The scope of an
    allowed call gets `allowed_origin`, which a key of the role `feedback` needs.
    """

    def __init__(self, app: ASGIApp, origins: frozenset[str], paths: str, frames: frozenset[str] = frozenset()) -> None:
        self._app, self._origins, self._frames = app, origins, frames
        self._paths = re.compile(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call, with the headers for other origins where they are allowed."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        is_allowed = origin in self._origins and self._paths.fullmatch(scope["path"]) is not None
        if is_allowed and scope["method"] == "OPTIONS":
            preflight_headers = [
                (b"access-control-allow-origin", origin.encode()),
                (b"access-control-allow-methods", b"GET, POST"),
                (b"access-control-allow-headers", b"content-type, authorization, x-api-key"),
                (b"access-control-max-age", PREFLIGHT_SECONDS),
                (b"content-length", b"0"),
                (b"vary", b"origin"),
            ]
            await send({"type": "http.response.start", "status": 204, "headers": preflight_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        if is_allowed:
            own_headers = _own_headers(headers, scope.get("query_string", b""))
            scope = dict(scope) | {"headers": own_headers, "allowed_origin": origin}

        async def send_changed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._change(message, origin if is_allowed else "", scope["path"])
            await send(message)

        await self._app(scope, receive, send_changed)

    def _change(self, message: MutableMapping[str, Any], origin: str, path: str) -> None:
        headers = list(message.get("headers", ()))
        if origin or path in SCRIPT_PATHS:
            headers = [header for header in headers if header[0] != b"cross-origin-resource-policy"]
            headers.append((b"cross-origin-resource-policy", b"cross-origin"))
        if origin:
            headers += [(b"access-control-allow-origin", origin.encode()), (b"vary", b"origin")]
        if self._frames and (path == "/search" or path.startswith("/search/page")):
            ancestors = "frame-ancestors " + " ".join(sorted(self._frames))
            headers = [header for header in headers if header[0] != b"x-frame-options"]
            headers = [(name, value.replace(b"frame-ancestors 'none'", ancestors.encode())) for name, value in headers]
        message["headers"] = headers


def _own_headers(headers: dict[bytes, bytes], query: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers without origin and cookies; a beacon is JSON sent as plain text, its key in the address."""
    kept = {name: value for name, value in headers.items() if name not in (b"origin", b"cookie")}
    if b"authorization" not in kept and (keys := parse_qs(query).get(b"key")):
        kept[b"authorization"] = b"Bearer " + keys[0]
    if kept.get(b"content-type", b"").startswith(b"text/plain"):
        kept[b"content-type"] = b"application/json"
    return list(kept.items())
