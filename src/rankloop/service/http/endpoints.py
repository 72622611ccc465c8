"""Endpoints: each declares its role, size limit, metric name and body types, for the middleware and for OpenAPI.

The OpenAPI document describes bodies and responses by their msgspec types; `static/docs.js` shows it as a page.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

import msgspec
from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Match
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from rankloop.service.http.keys_and_limits import FILE_MEDIA, JSON_MEDIA, JsonResponse, receive_content
from rankloop.service.http.problems import PROBLEM_MEDIA, InvalidBody, ProblemDocument
from rankloop.service.settings import Settings

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

__all__ = ["Endpoint", "Endpoints", "JsonResponse", "decode", "read_body", "stream"]
Role = Literal["anyone", "feedback", "rank", "admin"]  # the role that a key needs; admin keys may call everything
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])
DirectHandler = Callable[[str, bytes, Mapping[bytes, bytes]], Awaitable[Any]]
T = TypeVar("T")
BY_PATH = "{name}"
SCHEMA_REFERENCE = "#/components/schemas/{name}"


class Endpoint(NamedTuple):
    """The declaration of an endpoint."""

    name: str  # method and path; the label in metrics and traces
    role: Role  # that a key needs
    max_bytes: int  # of its body
    # The ranker, experiment or catalogue that it is about: `{name}` for that of the path, empty for none, None if the
    # handler checks the name itself.
    ranker: str | None = ""
    # Responds without FastAPI, for the calls of every page view: it gets the name in the path, the body and the
    # headers, and returns the value to send as JSON.
    handler: DirectHandler | None = None


class Endpoints:
    """The endpoints of an application."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self.unknown = Endpoint("other", "admin", settings.max_body)
        self._fixed: dict[tuple[str, str], Endpoint] = {}  # paths without parameters, by method and path
        self._routes: list[tuple[BaseRoute, Endpoint]] = []  # the others
        self.direct: dict[tuple[str, str, str], Endpoint] = {}  # by method, first and last part of the path
        self._bodies: dict[str, type] = {ProblemDocument.__name__: ProblemDocument}
        app.openapi = self._document  # type: ignore[method-assign]

    @property
    def node(self) -> "Node":
        """The node that serves the calls."""
        return self.app.state.node  # type: ignore[no-any-return]

    def add(
        self,
        call: str,
        *,
        tag: str = "",
        role: Role = "admin",
        body: type | None = None,
        answer: type | None = None,
        max_bytes: int | None = None,
        ranker: str | None = BY_PATH,
        is_direct: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Declare the decorated handler as an endpoint.

        Args:
          call: Method and path, as in `POST /rankers/{name}/rank`.
          tag: Its group in the OpenAPI document; without one it is left out there.
          role: The role that a key needs.
          body: The type of the body; `bytes` for a file.
          answer: The type of the response, if it has one.
          max_bytes: The limit of the body; that of the settings unless given.
          ranker: See `Endpoint`.
          is_direct: The handler is a `DirectHandler`, for a path of the form `/…/{name}/…`.
        """
        method, _, path = call.partition(" ")
        about_ranker = "" if ranker == BY_PATH and BY_PATH not in path else ranker
        self._bodies |= {kind.__name__: kind for kind in (body, answer) if kind not in (None, bytes)}
        described = _operation(role, body, answer)

        def declare(handler: Handler) -> Handler:
            name, limit = call.replace(":path}", "}"), max_bytes or self.settings.max_body
            endpoint, answering = Endpoint(name, role, limit, about_ranker), cast(Any, handler)
            if is_direct:
                endpoint = endpoint._replace(handler=answering)
                self.direct[method, path.split("/")[1], path.split("/")[3]] = endpoint
                answering = _signature_of(handler)
            documented: dict[str, Any] = {"tags": [tag], "openapi_extra": described} if tag else {}
            self.app.add_api_route(path, answering, methods=[method], include_in_schema=bool(tag), **documented)
            if "{" in path:
                self._routes.append((self.app.routes[-1], endpoint))
            else:
                self._fixed[method, path] = endpoint
            return handler

        return declare

    def add_file(self, path: str, file: Path, *, role: Role = "anyone", max_age: int | None = None) -> None:
        """Serve a file; browsers may keep it for `max_age` seconds without asking again."""
        headers = None if max_age is None else {"Cache-Control": f"public, max-age={max_age}"}
        media = "text/javascript" if file.suffix == ".js" else "text/html"

        async def content() -> Response:
            return FileResponse(file, headers=headers, media_type=media)

        for method in ("HEAD", "GET"):
            self.add(f"{method} {path}", role=role)(content)

    def add_files(self, path: str, folder: Path) -> None:
        """Serve the files of a folder to anyone."""
        self.app.mount(path, StaticFiles(directory=folder), name=path)
        self._routes.append((self.app.routes[-1], self.unknown._replace(role="anyone")))

    def _document(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        app = self.app
        if app.openapi_schema is None:
            document = app.openapi_schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas |= msgspec.json.schema_components(self._bodies.values(), ref_template=SCHEMA_REFERENCE)[1]
        return app.openapi_schema

    def find(self, scope: Scope) -> tuple[Endpoint, str | None]:
        """Return the endpoint of a request, and the ranker, experiment or catalogue that the request is about."""
        if fixed := self._fixed.get((scope["method"], scope["path"])):
            return fixed, fixed.ranker
        for route, endpoint in self._routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                is_named = endpoint.ranker == BY_PATH
                return endpoint, child["path_params"]["name"] if is_named else endpoint.ranker
        return self.unknown, ""


def _operation(role: str, body: type | None, answer: type | None) -> dict[str, Any]:
    """Return the `openapi_extra` of an endpoint."""
    wrong = {PROBLEM_MEDIA: {"schema": _schema_of(ProblemDocument)}}
    responses = {
        "200": {"description": "Done", "content": {JSON_MEDIA: {"schema": _schema_of(answer) if answer else {}}}},
        "4XX": {"description": "The request was refused", "content": wrong},
        "503": {"description": "The log cannot be written now", "content": wrong},
        "507": {"description": "The disk of the log is full", "content": wrong},
    }
    described: dict[str, Any] = {"x-role": role, "responses": responses}
    if body is not None:
        content = {FILE_MEDIA if body is bytes else JSON_MEDIA: {"schema": _schema_of(body)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _schema_of(kind: type) -> dict[str, str]:
    if kind is bytes:
        return {"type": "string", "format": "binary"}
    return {"$ref": SCHEMA_REFERENCE.format(name=kind.__name__)}


def _signature_of(handler: Callable[..., Any]) -> Callable[[str], Awaitable[Response]]:
    """Return a function from which FastAPI makes the description of a direct handler; it is never called."""

    async def described(name: str) -> Response:
        raise NotImplementedError

    described.__name__, described.__doc__ = handler.__name__, handler.__doc__
    return described


def decode(content: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode a body.

    Args:
      content: The body in JSON.
      kind: Its type.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise InvalidBody.of(error, bytes(content), kind) from None


async def read_body(request: Request, kind: type[T], *, is_optional: bool = False) -> T:
    """Read and decode the body of a request; without a Content-Type it has the expected one.

    Args:
      request: The request.
      kind: The type of the body: that of JSON, or `bytes` for a file.
      is_optional: True if the body may be left out.
    """
    media = FILE_MEDIA if kind is bytes else JSON_MEDIA
    sent = request.headers.get("content-type", media)
    content = await receive_content(request.receive, request.scope["declared"].max_bytes, sent, media)
    if kind is bytes:
        return content  # type: ignore[return-value]
    return decode(content or b"{}" if is_optional else content, kind)


def stream(parts: Iterator[bytes], media: str) -> Response:
    """Return a response of many parts, which are made on a thread so that rankings need not wait.

    Args:
      parts: The parts.
      media: The media type.
    """

    async def read() -> AsyncIterator[bytes]:
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            yield part

    return StreamingResponse(read(), media_type=media)
