"""Rows of a file as documents: JSON Lines, CSV, Parquet."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, TextIO

import xxhash

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.search.engine import Document
from rankloop.search.formats.file_text import CONTROL, SAMPLE, encoding_of
from rankloop.search.source import MAX_BODY, MAX_ID, MAX_TITLE, Found, Skipped

CHUNK = 1_024  # rows of a Parquet file that are read at once
MAX_LINE = 2 * MAX_BODY  # characters
MAX_VALUE = 200  # characters of a field
Skip = Callable[[str, str], None]


class TableSource:
    """Documents from the columns `id`, `title` and `body` of a file, whose suffix says what it is.

    `fields` names further columns, whose values a document keeps. A row without an id, or without any text, is skipped.
    """

    def __init__(
        self, path: Path, *, id: str = "id", title: str = "title", body: str = "body", fields: Sequence[str] = ()
    ) -> None:
        if not path.is_file():
            raise NotFound(f"there is no file {str(path)!r}")
        if path.suffix.lower() not in ROWS:
            raise InvalidInput(f"{path.name}: a folder, or a file that ends in {', '.join(ROWS)}, can be searched")
        self.path, self.name = path, str(path)
        self.id, self.title, self.body, self.fields = id, title, body, tuple(fields)
        self.skipped = Skipped()

    def documents(self, known: Mapping[str, str]) -> Iterator[Found]:
        self.skipped = Skipped()
        for number, row in enumerate(ROWS[self.path.suffix.lower()](self.path, self.skipped.add), 1):
            try:
                document = self._document(row, number)
            except InvalidInput as error:
                self.skipped.add(f"row {number}", str(error))
                continue
            parts = document.title, document.body, *map("=".join, document.fields.items())
            stamp = xxhash.xxh3_64_hexdigest("\x1f".join(parts).encode())
            yield Found(document.id, stamp, None if known.get(document.id) == stamp else document)

    def _document(self, row: Any, number: int) -> Document:
        if not isinstance(row, Mapping):
            raise InvalidInput("it is no table of values by name")
        id = _text(row.get(self.id))
        if not id or len(id) > MAX_ID:
            known = ", ".join(map(str, row))
            raise InvalidInput(f"it has no {self.id!r} of 1 to {MAX_ID} characters; it has {known:.100}")
        title, body = _text(row.get(self.title)), _text(row.get(self.body))
        if not title and not body:
            raise InvalidInput(f"neither {self.title!r} nor {self.body!r} has a text")
        if len(body) > MAX_BODY:
            self.skipped.add(f"row {number}", f"only the first {MAX_BODY:,} characters of it are indexed")
        values = {name: _text(row.get(name))[:MAX_VALUE] for name in self.fields}
        given = {name: value for name, value in values.items() if value}
        return Document(id, title[:MAX_TITLE], body[:MAX_BODY], fields=given)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return CONTROL.sub(" ", value.encode(errors="replace").decode()).strip()
    if isinstance(value, bool | int | float | date):
        return str(value)
    if isinstance(value, list | tuple):
        return " ".join(filter(None, map(_text, value)))
    raise InvalidInput(f"{value!r:.60} is no text")


def _opened(path: Path) -> TextIO:
    with path.open("rb") as file:
        try:
            encoding = encoding_of(file.read(SAMPLE))
        except InvalidInput as error:
            raise InvalidInput(f"{path.name}: {error}") from None
    return path.open(encoding="utf-8-sig" if encoding == "utf-8" else encoding, errors="replace", newline="")


def _json_lines(path: Path, skip: Skip) -> Iterator[Any]:
    with _opened(path) as file:
        number, is_rest = 1, False
        while line := file.readline(MAX_LINE):
            is_whole = line.endswith("\n") or len(line) < MAX_LINE
            if not is_whole and not is_rest:
                skip(f"line {number}", f"it is longer than {MAX_LINE:,} characters")
            elif is_whole and not is_rest and line.strip():
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError) as error:
                    skip(f"line {number}", f"it is no JSON ({error})")
            is_rest = not is_whole
            number += is_whole


def _csv(path: Path, skip: Skip) -> Iterator[Any]:
    with _opened(path) as file:
        rows = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        while True:
            try:
                row = _next(rows)
            except csv.Error as error:
                skip(f"line {rows.line_num + 1}", f"{error}; what follows is not read")
                return
            if row is None:
                return
            yield row


def _next(rows: Iterator[Any]) -> Any:
    """The next row, None after the last. The limit of a value is one for the whole process, so it is put back."""
    limit = csv.field_size_limit(MAX_LINE)
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(limit)


def _parquet(path: Path, skip: Skip) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        for batch in parquet.ParquetFile(path).iter_batches(CHUNK):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInput(f"{path.name} is no Parquet file: {error}") from None


ROWS: dict[str, Callable[[Path, Skip], Iterator[Any]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}
