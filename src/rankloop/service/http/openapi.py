"""Bodies and answers in the OpenAPI document, from their msgspec types; and the reference as a page."""

from collections.abc import Mapping
from html import escape
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from rankloop.service import requests as bodies

PARTS = (bodies.Strict, bodies.ContextBody, bodies.ProblemBody, bodies.BaseBody, bodies.Item, bodies.SideBody)
BODIES = [body for body in vars(bodies).values() if isinstance(body, type) and issubclass(body, msgspec.Struct)]
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
    """Make `app.openapi()` name the msgspec types; calls that are added later add theirs to `app.state.bodies`."""
    app.state.bodies = [body for body in BODIES if body not in PARTS]

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, routes=app.routes)
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(msgspec.json.schema_components(app.state.bodies, ref_template=REFERENCE)[1])
            schemas["Problem"] = PROBLEM
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>rankloop: the calls</title>
<meta name="viewport" content="width=device-width"><style>body{font:16px system-ui;max-width:60rem;margin:2rem auto;
padding:0 1rem}code{background:#8882;padding:.1em .3em}dt{margin-top:1rem}:root{color-scheme:light dark}</style>
<h1>rankloop: the calls</h1><p>Machine-readable: <a href="/openapi.json">openapi.json</a>.
Every error is a problem document (RFC 9457).</p><dl>"""


def reference_page(openapi: Mapping[str, Any]) -> str:
    """One entry per call: method, path, what it does, the fields of its body."""
    return HEAD + "".join(_entries(openapi)) + "</dl></html>"


def _entries(openapi: Mapping[str, Any]) -> list[str]:
    parts = []
    for path, methods in openapi["paths"].items():
        for method, call in methods.items():
            kind = escape(call.get("description") or call.get("summary") or "")
            parts.append(
                f"<dt><code>{method.upper()} {escape(path)}</code></dt><dd>{kind}{_fields(call, openapi)}</dd>"
            )
    return parts


def _fields(call: Mapping[str, Any], openapi: Mapping[str, Any]) -> str:
    body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    name = body.get("$ref", "").rsplit("/", 1)[-1]
    schema = openapi.get("components", {}).get("schemas", {}).get(name, {})
    fields = ", ".join(f"<code>{escape(field)}</code>" for field in schema.get("properties", {}))
    return f"<br>Body: {fields}" if fields else ""
