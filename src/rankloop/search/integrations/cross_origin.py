"""Pages elsewhere that may search: an allow-list of origins, and of pages that may frame the search page."""

from collections.abc import Iterable, MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankloop.core.errors import InvalidInput

OPEN_PATHS = ("/search", "/search/clicks", "/search/undo", "/search/document", "/rankloop.js")
PREFLIGHT_SECONDS = b"600"


def check_origins(origins: Iterable[str]) -> frozenset[str]:
    """Return origins such as https://example.org, or raise `InvalidInput` for anything else, `*` too."""
    for origin in origins:
        scheme, separator, host = origin.partition("://")
        if scheme not in ("http", "https") or not separator or not host or set(host) & set("/*?# "):
            raise InvalidInput(f"--allow-origin {origin!r:.80}: give scheme and host, as in https://example.org")
    return frozenset(origins)


class CrossOriginAccess:
    """ASGI middleware: lets pages of allowed origins call the search, and allowed pages frame it.

    Calls from elsewhere carry no cookies. All other paths and origins are answered as without it.

    Args:
      app: The application with all its checks.
      origins: That may call the search.
      frames: Origins of pages that may show the search page in a frame.
    """

    def __init__(self, app: ASGIApp, origins: frozenset[str], frames: frozenset[str]) -> None:
        self._app, self._origins, self._frames = app, origins, frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call, with the headers for other origins where they are allowed."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        is_allowed = origin in self._origins and scope["path"] in OPEN_PATHS
        if is_allowed and scope["method"] == "OPTIONS":
            await _answer_preflight(origin, send)
            return
        if is_allowed:
            scope = dict(scope) | {"headers": _own_headers(headers)}

        async def send_changed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._change(message, origin if is_allowed else "", scope["path"])
            await send(message)

        await self._app(scope, receive, send_changed)

    def _change(self, message: MutableMapping[str, Any], origin: str, path: str) -> None:
        headers = list(message.get("headers", ()))
        if origin or path == "/rankloop.js":
            headers = [header for header in headers if header[0] != b"cross-origin-resource-policy"]
            headers.append((b"cross-origin-resource-policy", b"cross-origin"))
        if origin:
            headers += [(b"access-control-allow-origin", origin.encode()), (b"vary", b"origin")]
        if self._frames and (path == "/search" or path.startswith("/search/page")):
            ancestors = "frame-ancestors " + " ".join(sorted(self._frames))
            headers = [
                (name, value.replace(b"frame-ancestors 'none'", ancestors.encode()))
                for name, value in headers
                if name != b"x-frame-options"
            ]
        message["headers"] = headers


def _own_headers(headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Return the headers without origin and cookies; a beacon is sent as plain text, though it is JSON."""
    kept = {name: value for name, value in headers.items() if name not in (b"origin", b"cookie")}
    if kept.get(b"content-type", b"").startswith(b"text/plain"):
        kept[b"content-type"] = b"application/json"
    return list(kept.items())


async def _answer_preflight(origin: str, send: Send) -> None:
    headers = [
        (b"access-control-allow-origin", origin.encode()),
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", b"content-type, authorization, x-api-key"),
        (b"access-control-max-age", PREFLIGHT_SECONDS),
        (b"content-length", b"0"),
        (b"vary", b"origin"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
