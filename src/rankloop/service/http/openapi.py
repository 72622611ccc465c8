"""The OpenAPI document, with bodies and responses from their msgspec types, and the API reference as a page."""

from collections.abc import Iterable, Mapping
from html import escape
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


PAGE_HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>rankloop: HTTP API</title>
<meta name="viewport" content="width=device-width"><style>body{font:16px system-ui;max-width:60rem;margin:2rem auto;
padding:0 1rem}code{background:#8882;padding:.1em .3em}dt{margin-top:1rem}
dd{overflow-wrap:anywhere}:root{color-scheme:light dark}</style>
<h1>rankloop: HTTP API</h1><p>Machine-readable: <a href="/openapi.json">openapi.json</a>.
Every error is a problem document (RFC 9457).</p><dl>"""


def reference_page(openapi: Mapping[str, Any]) -> str:
    """Return a page with one entry per call, and the fields of all bodies and responses."""
    types = f"<h2>Bodies and responses</h2><dl>{_types(openapi)}</dl>"
    return f"{PAGE_HEAD}{''.join(_entries(openapi))}</dl>{types}</html>"


def _entries(openapi: Mapping[str, Any]) -> list[str]:
    parts = []
    for path, methods in openapi["paths"].items():
        for method, call in methods.items():
            kind = escape(call.get("description") or call.get("summary") or "")
            parts.append(f"<dt><code>{method.upper()} {escape(path)}</code></dt><dd>{kind}{_media(call)}</dd>")
    return parts


def _media(call: Mapping[str, Any]) -> str:
    """Return the body and the response of a call, as HTML."""
    body = call.get("requestBody", {}).get("content", {})
    answer = call.get("responses", {}).get("200", {}).get("content", {})
    html = ""
    for title, media in (("Body", body), ("Response", answer)):
        types = [f"{type_of(part['schema'])} ({kind})" for kind, part in media.items() if part.get("schema")]
        html += f"<br>{title}: {' or '.join(types)}" if types else ""
    return html


def _types(openapi: Mapping[str, Any]) -> str:
    """Return every body and response with its fields, as HTML."""
    parts = []
    for name, schema in sorted(openapi.get("components", {}).get("schemas", {}).items()):
        rows = [
            f"<code>{escape(field)}</code>{'' if field in schema.get('required', ()) else '?'}: {type_of(kind)}"
            for field, kind in schema.get("properties", {}).items()
        ]
        lines = filter(None, (escape(schema.get("description", "")), *rows))
        parts.append(f'<dt id="{escape(name)}">{escape(name)}</dt><dd>{"<br>".join(lines)}</dd>')
    return "".join(parts)


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a JSON schema in words, as HTML."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[-1])
        return f'<a href="#{name}">{name}</a>'
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(map(type_of, schema["anyOf"]))
    kind = schema.get("type", "anything")
    if not isinstance(kind, str):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {type_of(schema.get('items') or {})}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"table of {type_of(values)}" if isinstance(values, Mapping) and values else "table"
    return f"{kind} ({schema['contentEncoding']})" if "contentEncoding" in schema else str(kind)
