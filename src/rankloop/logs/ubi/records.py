"""Queries and events of User Behavior Insights, from documents of any version of the schemas (1.0 to 1.3)."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.features.kinds import moment_of
from rankloop.logs.table_reader import json_values

HIT_FIELDS = (
    "query_response_hit_ids",
    "query_response_object_ids",
    "query_response_objects_ids",
    "query_response_hits_ids",
)
OBJECT_FIELDS = ("event_attributes.object.object_id", "event_attributes.object.internal_id", "object_id")
ORDINAL_FIELDS = ("event_attributes.position.ordinal", "event_attributes.position.index", "position.ordinal")
BULK_ACTIONS = ("index", "create", "update", "delete")
MIN_MILLISECONDS = 1e11  # seconds since 1970 beyond this are milliseconds: the year 5138
MIN_SECONDS, MAX_SECONDS = -6.0e10, 2.0e11  # since 1970, of a time within the years that dates can have


class UbiDocument(NamedTuple):
    """A document, where it stands, and the index that it belongs to; empty: the file does not say."""

    line: int
    index_name: str
    source: dict[str, Any]


class UbiQuery(NamedTuple):
    """A search and the ids that it returned, best first."""

    query_id: str
    user_query: str
    hits: tuple[str, ...]
    client: str
    at: float  # seconds since 1970; nan where unknown
    attributes: dict[str, Any]


class UbiEvent(NamedTuple):
    """Something that somebody did with a hit."""

    query_id: str  # empty: the event says none
    action: str
    item: str  # empty: the event names none
    ordinal: int | None
    session: str
    at: float
    id: str  # of the event itself, where it has one


def documents_in(path: Path) -> Iterator[UbiDocument]:
    """Yield every document of a file: JSON Lines, a list, a search response, a bulk file or a dump of an index."""
    index, is_next = "", False  # of a document that a bulk action announces
    for line, value in json_values(path):
        if not is_next and isinstance(value, dict) and len(value) == 1:
            ((action, target),) = value.items()
            if action in BULK_ACTIONS and isinstance(target, dict):
                index, is_next = str(target.get("_index") or ""), action != "delete"
                continue
        yield from _documents(value, index if is_next else "", line, path.name)
        is_next = False


def _documents(value: Any, index: str, line: int, where: str) -> Iterator[UbiDocument]:
    """Yield what an object holds: itself, the document inside, or the hits of one search or of several."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}, line {line}: a document is an object, got {json.dumps(value)[:60]}")
    hits, response = value.get("hits"), value.get("response")  # of Elasticsearch and OpenSearch, of Solr
    inner = value.get("responses")
    if not isinstance(inner, list) and isinstance(hits, dict):
        inner = hits.get("hits")
    if not isinstance(inner, list) and isinstance(response, dict):
        inner = response.get("docs")
    if isinstance(inner, list):
        for part in inner:
            yield from _documents(part, index, line, where)
    elif isinstance(value.get("_source"), dict):
        yield UbiDocument(line, str(value.get("_index") or index), value["_source"])
    else:
        is_update = index and isinstance(value.get("doc"), dict)
        yield UbiDocument(line, index, value["doc"] if is_update else value)


def read_queries(path: Path) -> Iterator[UbiQuery | None]:
    """Yield every query of a file; None for a document without a `query_id`, which nothing can be joined with."""
    for _, index, source in documents_in(path):
        if "ubi_events" in index or (not index and "action_name" in source):
            continue  # a file may hold both
        query_id = _text(source, "query_id")
        if not query_id:
            yield None
            continue
        client = _text(source, "client_id") or _text(source, "user_id")
        query_attributes = _value(source, "query_attributes")
        attributes = query_attributes if isinstance(query_attributes, dict) else {}
        hits = tuple(dict.fromkeys(_hits(source)))
        yield UbiQuery(query_id, _text(source, "user_query"), hits, client, _moment(source), attributes)


def read_events(path: Path) -> Iterator[UbiEvent]:
    """Yield every event of a file."""
    for line, index, source in documents_in(path):
        if "ubi_queries" in index or (not index and "query_response_hit_ids" in source):
            continue
        action = _text(source, "action_name")
        if not action:
            raise InvalidInput(f"{path.name}, line {line}: an event has an action_name, such as click")
        item = next((text for name in OBJECT_FIELDS if (text := _text(source, name))), "")
        ordinal: Any = next((value for name in ORDINAL_FIELDS if (value := _value(source, name)) is not None), None)
        session = _text(source, "session_id") or _text(source, "client_id") or _text(source, "user_id")
        event_id = _text(source, "event_id") or _text(source, "event_attributes.event_id")
        try:
            ordinal = int(ordinal)
        except (TypeError, ValueError, OverflowError):
            ordinal = None
        yield UbiEvent(_text(source, "query_id"), action, item, ordinal, session, _moment(source), event_id)


def _hits(source: dict[str, Any]) -> list[str]:
    hits: Any = next((value for name in HIT_FIELDS if (value := _value(source, name)) is not None), [])
    if isinstance(hits, str):
        try:
            hits = json.loads(hits)
        except ValueError:
            hits = [part.strip() for part in hits.split(",")]
    return [str(hit) for hit in (hits if isinstance(hits, list) else [hits]) if hit is not None and str(hit)]


def _value(source: dict[str, Any], name: str) -> Any:
    """A value by its path, inside or flattened: {"a": {"b": 1}} and {"a.b": 1} say the same."""
    if name in source:
        return source[name]
    value: Any = source
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def _text(source: dict[str, Any], name: str) -> str:
    value = _value(source, name)
    text = "" if value is None or isinstance(value, dict | list) else str(value)
    return text.encode("utf-8", "replace").decode()  # JSON can hold half of a character, which no file can


def _moment(source: dict[str, Any]) -> float:
    value = _value(source, "timestamp")
    if isinstance(value, int | float) and not isinstance(value, bool):
        at = float(value) / (1000.0 if abs(value) > MIN_MILLISECONDS else 1.0)
        return at if MIN_SECONDS < at < MAX_SECONDS else math.nan
    try:
        return moment_of(value)
    except InvalidInput:
        return math.nan
