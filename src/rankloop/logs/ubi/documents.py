"""The documents of a file: JSON Lines, a list, a search response, a bulk file or a dump of an index."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.data.compression import opened
from rankloop.logs.table_source import MARK

ACTIONS = ("index", "create", "update", "delete")  # of a bulk file: the line before a document, or in its stead


class Document(NamedTuple):
    """A document, where it stands, and the index that it belongs to; empty: the file does not say."""

    line: int
    index_name: str
    source: dict[str, Any]


def documents_in(path: Path) -> Iterator[Document]:
    """Every document of a file, from the first to the last."""
    with opened(path) as file:
        first = file.readline().removeprefix(MARK).strip()
    if not first:
        raise InvalidInput(f"{path.name} is empty, or begins with an empty line")
    if _is_json(first) and not first.startswith(b"["):
        yield from _of_lines(path)
        return
    with opened(path) as file:
        text = file.read().removeprefix(MARK)
    try:
        whole = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{path.name}, line {getattr(error, 'lineno', 1)}: this is no JSON: {error}") from None
    for number, found in enumerate(whole if isinstance(whole, list) else [whole], start=1):
        yield from _documents(found, "", number, path.name)


def _of_lines(path: Path) -> Iterator[Document]:
    index, is_next = "", False  # of a document that a bulk action announces
    with opened(path) as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                found = json.loads(text.removeprefix(MARK))
            except ValueError as error:
                raise InvalidInput(f"{path.name}, line {line}: this is no JSON: {error}") from None
            action = None if is_next else _bulk_action(found)
            if action is not None:
                index, is_next = str(found[action].get("_index") or ""), action != "delete"
                continue
            yield from _documents(found, index if is_next else "", line, path.name)
            is_next = False


def _bulk_action(found: Any) -> str | None:
    if not isinstance(found, dict) or len(found) != 1:
        return None
    name, value = next(iter(found.items()))
    return name if name in ACTIONS and isinstance(value, dict) else None


def _documents(found: Any, index: str, line: int, where: str) -> Iterator[Document]:
    """What an object holds: itself, the document inside, or the hits of one search or of several."""
    if not isinstance(found, dict):
        raise InvalidInput(f"{where}, line {line}: a document is an object, got {json.dumps(found)[:60]}")
    hits = found.get("hits")
    if isinstance(found.get("responses"), list):
        for response in found["responses"]:
            yield from _documents(response, index, line, where)
    elif isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        for hit in hits["hits"]:
            yield from _documents(hit, index, line, where)
    elif isinstance(found.get("response"), dict) and isinstance(found["response"].get("docs"), list):  # of Solr
        for document in found["response"]["docs"]:
            yield from _documents(document, index, line, where)
    elif isinstance(found.get("_source"), dict):
        yield Document(line, str(found.get("_index") or index), found["_source"])
    elif index and isinstance(found.get("doc"), dict):  # of an update
        yield Document(line, index, found["doc"])
    else:
        yield Document(line, index, found)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
