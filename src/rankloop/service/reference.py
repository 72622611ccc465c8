"""The list of calls as a plain page, from the OpenAPI document: no script, no internet."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

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
            what = escape(call.get("description") or call.get("summary") or "")
            parts.append(
                f"<dt><code>{method.upper()} {escape(path)}</code></dt><dd>{what}{_fields(call, openapi)}</dd>"
            )
    return parts


def _fields(call: Mapping[str, Any], openapi: Mapping[str, Any]) -> str:
    body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    name = body.get("$ref", "").rsplit("/", 1)[-1]
    schema = openapi.get("components", {}).get("schemas", {}).get(name, {})
    fields = ", ".join(f"<code>{escape(field)}</code>" for field in schema.get("properties", {}))
    return f"<br>Body: {fields}" if fields else ""
