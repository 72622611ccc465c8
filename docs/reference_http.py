"""The reference page of the HTTP API, made from the OpenAPI document and from calls that are played for it."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from rankloop.service import request_bodies
from rankloop.service.http.app import make_app
from rankloop.service.settings import Settings

ADDRESS = "http://localhost:8080"
INTRODUCTION = """# HTTP API

Every call of the service with its role, its fields and an example.
`GET /openapi.json` of a running service is the same for programs.

- A service with [keys](../service.md#keys) needs the header `Authorization: Bearer KEY`. Without keys, leave it out.
- The role of a call: `anyone` needs no key, `rank` needs any key, `admin` needs an admin key.
- Every error is a problem document (RFC 9457) with `type`, `title`, `status`, `detail`, and `errors` by field.
- The examples are played on a service when this page is built; responses list the fields that came back."""
TAGS = {
    "use": "Rank and give feedback",
    "rankers": "Rankers",
    "experiments": "Experiments",
    "catalogues": "Catalogues",
    "aliases": "Aliases",
    "users": "Users",
    "health": "Health and metrics",
}
NUMBERED = {"problem": {"feature_names": ["price", "rating"], "shown": 10}}
ITEMS = [{"id": "a", "features": {"price": 0.3}}, {"id": "b", "features": {"rating": 4.5}}]
SCHEMA = {"features": {"price": "number", "brand": "category", "sku": "id"}}
# Calls in an order in which each succeeds: the call, what stands for its parameters, and its body.
# IMPRESSION and TRIAL stand for the last impression of the ranker and of the experiment.
CALLS: tuple[tuple[str, str, Any], ...] = (
    ("PUT /rankers/{name}", "/rankers/shop", {"learner": {"kind": "3pr"}, **NUMBERED}),
    ("POST /rankers/{name}/rank", "/rankers/shop/rank", {"items": ITEMS, "user": "u7"}),
    ("POST /rankers/{name}/feedback", "/rankers/shop/feedback",
     {"impression": "IMPRESSION", "clicks": ["b"], "final": True}),
    ("POST /rankers/{name}/rank:batch", "/rankers/shop/rank:batch", {"requests": [{"items": ITEMS}]}),
    ("POST /rankers/{name}/feedback:batch", "/rankers/shop/feedback:batch",
     {"feedback": [{"impression": "IMPRESSION", "clicks": ["a"], "final": True}]}),
    ("GET /rankers", "/rankers", None),
    ("GET /rankers/{name}", "/rankers/shop", None),
    ("PATCH /rankers/{name}", "/rankers/shop", {"window": 600}),
    ("GET /rankers/{name}/snapshots", "/rankers/shop/snapshots", None),
    ("GET /rankers/{name}/history", "/rankers/shop/history", None),
    ("GET /rankers/{name}/weights", "/rankers/shop/weights", None),
    ("GET /rankers/{name}/explain", "/rankers/shop/explain?impression=IMPRESSION&id=a", None),
    ("GET /rankers/{name}/state", "/rankers/shop/state", None),
    ("PUT /rankers/{name}/state", "/rankers/copy/state", b""),
    ("POST /rankers/{name}/clone", "/rankers/shop/clone", {"name": "shop-2"}),
    ("POST /rankers/{name}/freeze", "/rankers/shop/freeze", {"reason": "sale"}),
    ("POST /rankers/{name}/resume", "/rankers/shop/resume", None),
    ("POST /rankers/{name}/rollback", "/rankers/shop/rollback", {"state": 0}),
    ("POST /rankers/{name}/forget", "/rankers/shop/forget", {"user": "u7"}),
    ("GET /log/{file}", "/log/shop.jsonl", None),
    ("PUT /experiments/{name}", "/experiments/test", {"a": {"ranker": "shop"}, "b": {"ranker": "shop-2"}}),
    ("POST /experiments/{name}/rank", "/experiments/test/rank", {"items": ITEMS}),
    ("POST /experiments/{name}/feedback", "/experiments/test/feedback",
     {"impression": "TRIAL", "clicks": ["b"], "final": True}),
    ("GET /experiments/{name}", "/experiments/test", None),
    ("GET /experiments", "/experiments", None),
    ("DELETE /experiments/{name}", "/experiments/test", None),
    ("PUT /catalogues/{name}", "/catalogues/products",
     {"rows": {"a": {"price": 1999, "brand": "Acme"}, "b": {"price": 500}}}),
    ("GET /catalogues/{name}", "/catalogues/products", None),
    ("GET /catalogues", "/catalogues", None),
    ("PUT /rankers/{name}", "/rankers/shoes",
     {"learner": "click_regression", "problem": {"shown": 10, "schema": SCHEMA, "catalogue": "products"}}),
    ("PATCH /rankers/{name}/schema", "/rankers/shoes/schema", {"features": {"colours": "category"}}),
    ("PUT /aliases/{name}", "/aliases/home", {"ranker": "shop-2"}),
    ("GET /aliases", "/aliases", None),
    ("DELETE /aliases/{name}", "/aliases/home", None),
    ("PUT /rankers/{name}/rules", "/rankers/shoes/rules",
     {"exclude": ["b"], "at_most": [{"field": "brand", "n": 2, "within": 10}]}),
    ("GET /users/{id}", "/users/u7", None),
    ("DELETE /users/{id}", "/users/u7?relearn=true", None),
    ("DELETE /rankers/{name}", "/rankers/copy", None),
    ("GET /healthz", "/healthz", None),
    ("GET /readyz", "/readyz", None),
    ("GET /metrics", "/metrics", None),
)  # fmt: skip
STREAMS = {"GET /events": "/events"}  # never end, so they are not played
FILE = "model.rankloop"
REPORT = "GET /rankers/{name}"
JSON_MEDIA = ("application/json", "application/problem+json")


class Played(NamedTuple):
    """A call that was played: how curl sends it, and the response."""

    curl: str
    status: int
    media: str
    value: Any  # the decoded JSON, None where the response is something else


def page() -> str:
    """Return the page as Markdown."""
    with TemporaryDirectory() as folder:
        document, played = asyncio.run(play(Path(folder)))
    operations = operations_of(document)
    schemas = document["components"]["schemas"]
    parts = [INTRODUCTION]
    for tag, title in TAGS.items():
        parts.append(f"## {title}")
        for call, operation in operations.items():
            if operation["tags"] == [tag]:
                parts.append(_section(call, operation, played))
    names = sorted(set(schemas) - {"HTTPValidationError", "ValidationError"})
    parts += ["## Bodies and responses", *(_schema(name, schemas[name]) for name in names)]
    return "\n\n".join(parts) + "\n"


def operations_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the described calls by method and path."""
    paths = document["paths"].items()
    return {f"{method.upper()} {path}": call for path, methods in paths for method, call in methods.items()}


async def play(folder: Path) -> tuple[dict[str, Any], dict[str, Played]]:
    """Play the calls on a new service.

    Args:
      folder: The data folder of the service.

    Returns:
      The OpenAPI document, and the first response to each call.
    """
    app = make_app(Settings(data=folder))
    played: dict[str, Played] = {call: Played(_curl(call, path, None), 200, "text/event-stream", None)
                                 for call, path in STREAMS.items()}  # fmt: skip
    stand_ins: dict[str, str] = {}
    file = b""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS) as client,
    ):
        for call, path, body in CALLS:
            method = call.partition(" ")[0]
            content = file if body == b"" else json.dumps(body).encode() if body is not None else b""
            for word, value in stand_ins.items():
                path, content = path.replace(word, value), content.replace(word.encode(), value.encode())
            kind = "application/octet-stream" if body == b"" else "application/json"
            headers = {"Content-Type": kind} if content else {}
            response = await client.request(method, path, content=content, headers=headers)
            media = response.headers.get("content-type", "").partition(";")[0]
            value = response.json() if media in JSON_MEDIA and response.content else None
            curl = _curl(call, _shown_path(path, stand_ins), body)
            played.setdefault(call, Played(curl, response.status_code, media, value))
            if call.endswith("/state") and method == "GET":
                file = response.content
            if call.endswith("/rank"):
                stand_ins["TRIAL" if "experiments" in call else "IMPRESSION"] = value["impression"]
            if call.endswith("rank:batch"):
                stand_ins["IMPRESSION"] = re.search(r'"impression": ?"(\w+)"', response.text)[1]  # type: ignore[index]
        return app.openapi(), played


def _shown_path(path: str, stand_ins: Mapping[str, str]) -> str:
    for word, value in stand_ins.items():
        path = path.replace(value, word)
    return path


def _curl(call: str, path: str, body: Any) -> str:
    method = call.partition(" ")[0]
    address = f"{ADDRESS.removeprefix('http://')}{path}"
    parts = ["curl", *([] if method == "GET" else [f"-X {method}"]), f"'{address}'" if "?" in path else address]
    parts.append("-H 'Authorization: Bearer KEY'")
    if body == b"":
        parts.append(f"-H 'Content-Type: application/octet-stream' --data-binary @{FILE}")
    elif body is not None:
        parts.append(f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'")
    return " ".join(parts)


def _section(call: str, operation: Mapping[str, Any], played: Mapping[str, Played]) -> str:
    description = " ".join(operation["description"].split())
    bodies = operation.get("requestBody", {}).get("content", {})
    lines = [f"### `{call}`", f"{description} Role: `{operation['x-role']}`."]
    query = [field for field in operation.get("parameters", []) if field["in"] == "query"]
    if query:
        words = (f"`{field['name']}` ({type_name(field['schema'])})" for field in query)
        lines.append(f"Query: {', '.join(words)}.")
    if bodies:
        words = (f"{type_name(part['schema'])} (`{media}`)" for media, part in bodies.items())
        lines.append(f"Request: {' or '.join(words)}.")
    if call in played:
        report = played[REPORT].value if call != REPORT else None
        lines += [f"Response: {_response(played[call], report)}", f"```console\n$ {played[call].curl}\n```"]
    return "\n\n".join(lines)


def _response(played: Played, report: Any) -> str:
    """Return the status and the fields of a response, by the value that was received."""
    if report is not None and isinstance(played.value, dict) and set(report) <= set(played.value):
        return f"{played.status}, the report of the ranker, as from `{REPORT}`."
    if played.value is None:
        return f"{played.status}, `{played.media}`." if played.media else f"{played.status}, empty."
    return f"{played.status}, {value_type(played.value)}."


def value_type(value: Any, depth: int = 0) -> str:
    """Return the type of a JSON value in words, with the fields of objects down to the second level."""
    if isinstance(value, dict):
        if depth > 1 or not value:
            return "object"
        fields = ", ".join(f"`{name}`: {value_type(part, depth + 1)}" for name, part in value.items())
        return f"object ({fields})"
    if isinstance(value, list):
        return f"list of {value_type(value[0], depth)}" if value else "list"
    names = {bool: "boolean", str: "string", int: "integer", float: "number", type(None): "null"}
    return names[type(value)]


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    comments = field_comments(name)
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field, kind in schema.get("properties", {}).items():
        default = "required" if field in schema.get("required", ()) else f"`{json.dumps(kind.get('default'))}`"
        rows.append(f"| `{field}` | {type_name(kind)} | {default} | {comments.get(field, '')} |")
    return "\n\n".join([f"### {name}", schema.get("description", "An error."), "\n".join(rows)])


def field_comments(name: str) -> dict[str, str]:
    """Return the comments behind the fields of a body or response, inherited ones included."""
    cls = getattr(request_bodies, name, None)
    comments: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]) if cls else ():
        if base.__module__ == request_bodies.__name__:
            source = inspect.getsource(base)
            comments |= dict(re.findall(r"^    (\w+): [^#\n]*?  # (.*)$", source, re.MULTILINE))
    return {field: text.replace("|", "\\|") for field, text in comments.items()}


def type_name(schema: Mapping[str, Any]) -> str:
    """Return a JSON schema in words, as Markdown."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(map(type_name, schema["anyOf"]))
    kind = schema.get("type", "anything")
    if not isinstance(kind, str):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {type_name(schema.get('items') or {})}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"object of {type_name(values)}" if isinstance(values, Mapping) and values else "object"
    return kind
