"""What is in an index: documents by number and id, when they were read, and their words as numbers."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.search.match_kernel import Texts

MAX_WORDS = 20_000  # of a text that are kept to compare queries with; the engine has all of them
TABLES = """
CREATE TABLE IF NOT EXISTS documents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, at REAL NOT NULL,
    title BLOB NOT NULL, body BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
"""


class Entry(NamedTuple):
    """A document of the catalogue: its number in the index, and what its source looked like when it was read."""

    number: int
    stamp: str


class Row(NamedTuple):
    """What is known of a document without opening its text."""

    number: int
    at: float
    title: Ints
    body: Ints


class Catalogue:
    """One SQLite file. A changed document gets a new number, so that the old one can be taken out of the index."""

    def __init__(self, path: Path) -> None:
        with readable(path):
            self._connection = sqlite3.connect(path, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.executescript(TABLES)
        self.path = path

    def close(self) -> None:
        self._connection.close()

    def entries(self) -> dict[str, Entry]:
        found = self._connection.execute("SELECT id, number, stamp FROM documents")
        return {id: Entry(number, stamp) for id, number, stamp in found}

    def next_number(self) -> int:
        """Higher than any that was ever given."""
        return int(self.fact("next_number", 1))

    def put(self, number: int, id: str, stamp: str, at: float, title: Ints, body: Ints) -> None:
        row = number, id, stamp, at, _packed(title), _packed(body)
        with readable(self.path):
            self._connection.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?)", row)

    def remove(self, id: str) -> None:
        with readable(self.path):
            self._connection.execute("DELETE FROM documents WHERE id = ?", (id,))

    def fact(self, name: str, default: float | str) -> float | str:
        found = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return default if found is None else found[0]

    def note(self, **facts: float | str) -> None:
        with readable(self.path):
            self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def commit(self) -> None:
        with readable(self.path):
            self._connection.commit()

    def count(self) -> tuple[int, Floats]:
        """How many documents there are, and the mean length of their titles and bodies in words."""
        lengths = "COUNT(*), COALESCE(AVG(LENGTH(title)), 0), COALESCE(AVG(LENGTH(body)), 0)"
        n, *means = self._connection.execute(f"SELECT {lengths} FROM documents").fetchone()
        return int(n), np.array(means) / 4

    def ids_of(self, numbers: Sequence[int]) -> dict[int, str]:
        """The ids of these numbers; those that are gone are left out."""
        marks = ", ".join("?" * len(numbers))
        found = self._connection.execute(f"SELECT number, id FROM documents WHERE number IN ({marks})", list(numbers))
        return dict(found.fetchall())

    def rows_of(self, ids: Sequence[str]) -> dict[str, Row]:
        marks = ", ".join("?" * len(ids))
        wanted = f"SELECT id, number, at, title, body FROM documents WHERE id IN ({marks})"
        found = self._connection.execute(wanted, list(ids))
        return {id: Row(number, at, _unpacked(title), _unpacked(body)) for id, number, at, title, body in found}


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """What SQLite says about a file, in words that name it."""
    try:
        yield
    except sqlite3.Error as error:
        raise InvalidInput(f"{path}: {error}") from None


def numbers_of(words: Sequence[str], known: dict[str, int]) -> Ints:
    """Words as numbers of 32 bits, the same everywhere; `known` keeps those that were needed before."""
    found = np.empty(min(len(words), MAX_WORDS), np.int64)
    for i in range(len(found)):
        word = words[i]
        number = known.get(word)
        if number is None:
            number = known[word] = xxhash.xxh32_intdigest(word.encode(errors="replace"))
        found[i] = number
    return found


def joined(parts: Sequence[Ints]) -> Texts:
    starts = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    return Texts(np.concatenate([np.empty(0, np.int64), *parts]), starts)


def _packed(words: Ints) -> bytes:
    return words.astype("<u4").tobytes()


def _unpacked(packed: bytes) -> Ints:
    return np.frombuffer(packed, "<u4").astype(np.int64)
