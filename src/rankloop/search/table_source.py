"""Rows of a file as documents: JSON Lines, CSV, Parquet."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

import xxhash

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.search.engine import Document
from rankloop.search.markup import CONTROL, MAX_BODY, MAX_TITLE

MAX_ID = 240
MAX_SKIPPED = 1_000  # that are named; more are counted
CHUNK = 4_096


class TableSource:
    """Documents from the columns `id`, `title` and `body` of a file, whose suffix says what it is."""

    def __init__(self, path: Path, *, id: str = "id", title: str = "title", body: str = "body") -> None:
        if not path.is_file():
            raise NotFound(f"there is no file {str(path)!r}")
        suffix = path.suffix.lower()
        if suffix not in READERS:
            raise InvalidInput(f"{path.name}: a folder, or a file that ends in {', '.join(READERS)}, can be searched")
        self.path, self.id, self.title, self.body = path, id, title, body
        self.skipped: dict[str, str] = {}
        self._rows = READERS[suffix]

    def documents(self, known: Mapping[str, str]) -> Iterator[tuple[str, str, Document | None]]:
        self.skipped = {}
        for number, row in enumerate(self._rows(self.path, self._skip), 1):
            try:
                document = self._document(row)
            except InvalidInput as error:
                self._skip(f"row {number}", str(error))
                continue
            stamp = xxhash.xxh3_64_hexdigest("\x1f".join(document[1:3]).encode(errors="replace"))
            yield document.id, stamp, None if known.get(document.id) == stamp else document

    def _skip(self, what: str, reason: str) -> None:
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped[what] = reason

    def _document(self, row: Any) -> Document:
        if not isinstance(row, Mapping):
            raise InvalidInput("it is no table of values by name")
        id = _text(row.get(self.id))
        if not id or len(id) > MAX_ID:
            known = ", ".join(map(str, row))
            raise InvalidInput(f"it has no {self.id!r} of 1 to {MAX_ID} characters; it has {known:.100}")
        title, body = _text(row.get(self.title)), _text(row.get(self.body))
        if not title and not body:
            raise InvalidInput(f"neither {self.title!r} nor {self.body!r} has a text")
        return Document(id, title[:MAX_TITLE], body[:MAX_BODY])


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return CONTROL.sub(" ", value.encode(errors="replace").decode()).strip()
    if isinstance(value, bool | int | float | date | datetime):
        return str(value)
    if isinstance(value, list | tuple):
        return " ".join(filter(None, map(_text, value)))
    raise InvalidInput(f"{value!r:.60} is no text")


def _json_lines(path: Path, skip: Callable[[str, str], None]) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError) as error:
                    skip(f"line {number}", f"it is no JSON ({error})")


def _csv(path: Path, skip: Callable[[str, str], None]) -> Iterator[Any]:
    before = csv.field_size_limit(MAX_BODY)
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    except csv.Error as error:
        skip("the rest of the file", str(error))
    finally:
        csv.field_size_limit(before)


def _parquet(path: Path, skip: Callable[[str, str], None]) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        for batch in parquet.ParquetFile(path).iter_batches(CHUNK):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInput(f"{path.name} is no Parquet file: {error}") from None


READERS = {".jsonl": _json_lines, ".ndjson": _json_lines, ".csv": _csv, ".tsv": _csv, ".parquet": _parquet}
