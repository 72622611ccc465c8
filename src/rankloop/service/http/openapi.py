"""The OpenAPI document, with bodies and responses from their msgspec types; `static/docs.js` shows it as a page."""

from collections.abc import Iterable
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

JSON_MEDIA = "application/json"
MSGPACK_MEDIA = "application/msgpack"
FILE_MEDIA = "application/octet-stream"
SCHEMA_REFERENCE = "#/components/schemas/{name}"
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {"type": "object", "properties": {"field": {"type": "string"}, "reason": {"type": "string"}}},
        },
    },
}


def operation(
    role: str, body: type | None = None, packed: type | None = None, answer: type | None = None
) -> dict[str, Any]:
    """Return the `openapi_extra` of an endpoint.

    Args:
      role: The role that a key needs.
      body: The type of its body; `bytes` for a file.
      packed: The type of a body in MessagePack, if one is accepted.
      answer: The type of its response, if it has one.
    """
    wrong = {"application/problem+json": {"schema": {"$ref": SCHEMA_REFERENCE.format(name="Problem")}}}
    described: dict[str, Any] = {
        "x-role": role,
        "responses": {
            "200": {"description": "Done", "content": {JSON_MEDIA: {"schema": _schema_of(answer) if answer else {}}}},
            "4XX": {"description": "The request was refused", "content": wrong},
            "503": {"description": "The log cannot be written now", "content": wrong},
            "507": {"description": "The disk of the log is full", "content": wrong},
        },
    }
    media = {FILE_MEDIA if body is bytes else JSON_MEDIA: body, MSGPACK_MEDIA: packed}
    content = {kind: {"schema": _schema_of(each)} for kind, each in media.items() if each is not None}
    return described | ({"requestBody": {"required": True, "content": content}} if content else {})


def _schema_of(kind: type) -> dict[str, str]:
    if kind is bytes:
        return {"type": "string", "format": "binary"}
    return {"$ref": SCHEMA_REFERENCE.format(name=kind.__name__)}


def describe(app: FastAPI, bodies: Iterable[type]) -> None:
    """Make `app.openapi()` describe the msgspec types of the endpoints.

    Args:
      app: The application.
      bodies: The types of all bodies and responses.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, routes=app.routes)
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(msgspec.json.schema_components(bodies, ref_template=SCHEMA_REFERENCE)[1])
            schemas["Problem"] = PROBLEM_SCHEMA
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
