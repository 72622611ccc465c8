"""Bodies and answers in the OpenAPI document, from their msgspec types."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from rankloop.service import bodies

BODIES = (
    bodies.CreateBody,
    bodies.RankBody,
    bodies.FeedbackBody,
    bodies.RankBatch,
    bodies.FeedbackBatch,
    bodies.RollbackBody,
    bodies.CloneBody,
    bodies.FreezeBody,
    bodies.ExperimentBody,
    bodies.RankAnswer,
    bodies.FeedbackAnswer,
)
REFERENCE = "#/components/schemas/{name}"
PROBLEM = {
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


def takes(body: type, answer: type | None = None) -> dict[str, Any]:
    """The `openapi_extra` of a call with this body."""
    reference = {"$ref": REFERENCE.format(name=body.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}} | gives(answer)


def takes_file() -> dict[str, Any]:
    """The `openapi_extra` of a call whose body is a file."""
    file = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {"requestBody": {"required": True, "content": file}} | gives()


def gives(answer: type | None = None) -> dict[str, Any]:
    """The answers of a call: its own, or a problem."""
    schema: dict[str, Any] = {"$ref": REFERENCE.format(name=answer.__name__)} if answer else {}
    wrong = {"application/problem+json": {"schema": {"$ref": REFERENCE.format(name="Problem")}}}
    return {
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": schema}}},
            "4XX": {"description": "What was wrong", "content": wrong},
            "503": {"description": "The log cannot be written now", "content": wrong},
            "507": {"description": "The disk of the log is full", "content": wrong},
        }
    }


def describe(app: FastAPI) -> None:
    """Make `app.openapi()` name the msgspec types."""
    _, components = msgspec.json.schema_components(BODIES, ref_template=REFERENCE)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, routes=app.routes)
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(components)
            schemas["Problem"] = PROBLEM
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
