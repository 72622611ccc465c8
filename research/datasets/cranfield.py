"""Test collections of retrieval in the format of SMART: documents, queries, and which documents answer which query."""

import re
from pathlib import Path
from typing import NamedTuple

from rankloop.core.errors import InvalidInput
from research.datasets.download import read_all

RECORD_PATTERN = re.compile(r"^\.I[ \t]*(\S*)[ \t]*$", re.MULTILINE)
FIELD_PATTERN = re.compile(r"^\.([A-Z])[ \t]*$", re.MULTILINE)
JUDGEMENT_PATTERN = re.compile(r"(\d{1,9})\s+\S+\s+(\S+)\s+(-?\d{1,9})", re.ASCII)  # query, iteration, document, grade
TITLE, TEXT = "T", "W"


class TestCollection(NamedTuple):
    """Documents as title and text by id, queries, and for each query the ids of the documents that answer it."""

    documents: dict[str, tuple[str, str]]
    queries: tuple[str, ...]
    relevant: tuple[frozenset[str], ...]


def read_cranfield(folder: Path) -> TestCollection:
    """The Cranfield collection: queries are counted from 1 in the order of their file, whatever it calls them."""
    records = _records(folder / "cran.all.1400.gz")
    documents = {id: (fields.get(TITLE, ""), fields.get(TEXT, "")) for id, fields in records}
    queries = tuple(fields.get(TEXT, "") for _, fields in _records(folder / "cran.qry.gz"))
    relevant: list[set[str]] = [set() for _ in queries]
    for number, line in enumerate(_text(folder / "cranqrel.correct.gz").splitlines(), 1):
        match = JUDGEMENT_PATTERN.fullmatch(line.strip())
        if not match or not 1 <= int(match[1]) <= len(queries):
            raise InvalidInput(f"cranqrel.correct.gz, line {number}: {line!r:.60} is no judgement of a query")
        if int(match[3]) > 0:
            relevant[int(match[1]) - 1].add(match[2])
    return TestCollection(documents, queries, tuple(map(frozenset, relevant)))


def _records(path: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the name and the fields of each record."""
    _, *parts = RECORD_PATTERN.split(_text(path))
    records = []
    for id, content in zip(parts[::2], parts[1::2]):
        _, *fields = FIELD_PATTERN.split(content)
        records.append((id, {name: " ".join(text.split()) for name, text in zip(fields[::2], fields[1::2])}))
    if not records:
        raise InvalidInput(f"{path.name} has no record that begins with .I")
    return records


def _text(path: Path) -> str:
    return read_all(path).decode("latin-1").replace("\r\n", "\n")
