"""The documents of an index: by number and id, when they were read, their texts, and their words as numbers."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.search.engine import TextDocument
from rankloop.search.indexes.match_kernel import PackedTexts
from rankloop.search.indexes.text_index import NUMBER, WRITE_FAILURE_HINT, DamagedIndex

MAX_WORDS = 20_000  # of a text that are kept to compare queries with; the index has all of them
MAX_BEGINNINGS = 2_000
DOCUMENT_TABLES = """
CREATE TABLE IF NOT EXISTS documents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, at REAL NOT NULL,
    title BLOB NOT NULL, body BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS texts (
    number INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT NOT NULL, fields TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS words (word TEXT NOT NULL, stem TEXT NOT NULL, PRIMARY KEY (word, stem)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
"""
DAMAGED_FILE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
FULL_DEVICE_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


class DocumentStamp(NamedTuple):
    """A document's number in the index, and what its source looked like when it was read."""

    number: int
    stamp: str


class DocumentRow(NamedTuple):
    """A document without its text; words are packed numbers."""

    number: int
    id: str
    at: float
    title: bytes
    body: bytes


class DocumentTable:
    """One SQLite file. A changed document gets a new number, so that the old one can be taken out of the index.

    What is written is seen by those who read from `commit` on.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer, self._reader = opened(path, DOCUMENT_TABLES)

    def close(self) -> None:
        """Close both connections."""
        self._writer.close()
        self._reader.close()

    def entries(self) -> dict[str, DocumentStamp]:
        """Return number and stamp of every document, by id."""
        rows = self._read("SELECT id, number, stamp FROM documents")
        return {id: DocumentStamp(number, stamp) for id, number, stamp in rows}

    def next_number(self) -> int:
        """Return a number that is higher than that of any document so far."""
        return int(self.fact("next_number", 1))

    def put(self, number: int, stamp: str, document: TextDocument, title: Ints, body: Ints) -> None:
        """Store a document in place of the one that had its id."""
        self.remove(document.id)
        row = number, document.id, stamp, document.at, _packed(title), _packed(body)
        text = number, document.title, document.body, json.dumps(dict(document.fields)) if document.fields else "{}"
        with readable(self._path):
            self._writer.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", row)
            self._writer.execute("INSERT INTO texts VALUES (?, ?, ?, ?)", text)

    def remove(self, id: str) -> None:
        """Delete a document."""
        with readable(self._path):
            self._writer.execute("DELETE FROM texts WHERE number = (SELECT number FROM documents WHERE id = ?)", (id,))
            self._writer.execute("DELETE FROM documents WHERE id = ?", (id,))

    def add_words(self, stems: Iterable[tuple[str, str]]) -> None:
        """Add words as they are written, with their stems, so that a word can be found by its beginning."""
        with readable(self._path):
            self._writer.executemany("INSERT OR IGNORE INTO words VALUES (?, ?)", stems)

    def stems_from(self, begun: str, n: int) -> list[str]:
        """Return the stems of n words that begin so, the shortest first; of very many words only some are looked at."""
        words_sql = f"SELECT word, stem FROM words WHERE word >= ? AND word < ? LIMIT {MAX_BEGINNINGS}"
        query = f"SELECT stem FROM ({words_sql}) ORDER BY LENGTH(word), word LIMIT ?"
        rows = self._read(query, (begun, begun + "\U0010ffff", n))
        return list(dict.fromkeys(stem for (stem,) in rows))

    def fact(self, name: str, default: float | str) -> float | str:
        """Return a noted value, or the default."""
        rows = self._read("SELECT value FROM facts WHERE name = ?", (name,))
        return rows[0][0] if rows else default

    def note(self, **facts: float | str) -> None:
        """Store values by name."""
        with readable(self._path):
            self._writer.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def commit(self) -> None:
        """Make what was written visible to readers."""
        finish(self._writer.commit, self._writer, self._path)

    def rollback(self) -> None:
        """Discard what was written since the last commit."""
        finish(self._writer.rollback, self._writer, self._path)

    def count(self) -> tuple[int, Floats]:
        """Return the number of documents, and the mean length of their titles and bodies in words."""
        lengths = "COUNT(*), COALESCE(AVG(LENGTH(title)), 0), COALESCE(AVG(LENGTH(body)), 0)"
        ((n, *means),) = self._read(f"SELECT {lengths} FROM documents")
        return int(n), np.array(means) / NUMBER.itemsize

    def numbers(self) -> Ints:
        """Return the numbers of all documents, ascending."""
        rows = self._read("SELECT number FROM documents ORDER BY number")
        return np.array([number for (number,) in rows], np.int64)

    def words(self, n: int) -> list[str]:
        """Return at most n different words as they are written."""
        return [word for (word,) in self._read("SELECT DISTINCT word FROM words LIMIT ?", (n,))]

    def first_ids(self, n: int) -> list[str]:
        """Return the ids of the n documents that were read first."""
        return [id for (id,) in self._read("SELECT id FROM documents ORDER BY number LIMIT ?", (n,))]

    def rows_by_number(self, numbers: Sequence[int]) -> list[DocumentRow]:
        """Return the documents of these numbers; those that are gone are left out."""
        query = f"SELECT number, id, at, title, body FROM documents WHERE number IN ({_marks(numbers)})"
        return [DocumentRow._make(row) for row in self._read(query, numbers)]

    def rows_by_id(self, ids: Sequence[str]) -> dict[str, DocumentRow]:
        """Return the documents of these ids; those that are gone are left out."""
        query = f"SELECT number, id, at, title, body FROM documents WHERE id IN ({_marks(ids)})"
        return {row[1]: DocumentRow._make(row) for row in self._read(query, ids)}

    def packed_texts(self, numbers: Sequence[int]) -> dict[int, Ints]:
        """Return the stem numbers of the title and body of these documents."""
        return {row.number: np.frombuffer(row.title + row.body, NUMBER) for row in self.rows_by_number(numbers)}

    def plain_texts(self, numbers: Sequence[int], max_characters: int) -> list[str]:
        """Return title and beginning of the body of each document, in order of their numbers.

        Args:
          numbers: Of the documents, ascending.
          max_characters: The length of each text at most.
        """
        query = f"SELECT title, SUBSTR(body, 1, ?) FROM texts WHERE number IN ({_marks(numbers)}) ORDER BY number"
        rows = self._read(query, (max_characters, *numbers))
        return [f"{title}\n{body}"[:max_characters] for title, body in rows]

    def documents_of(self, ids: Sequence[str]) -> dict[str, TextDocument]:
        """Return the documents of these ids with their texts; those that are gone are left out."""
        query = f"""
            SELECT documents.id, texts.title, texts.body, documents.at, texts.fields
            FROM documents JOIN texts USING (number) WHERE documents.id IN ({_marks(ids)})
        """
        rows = self._read(query, ids)
        return {id: TextDocument(id, title, body, at, json.loads(fields)) for id, title, body, at, fields in rows}

    def fields_of(self, numbers: Sequence[int]) -> dict[int, dict[str, str]]:
        """Return the further values of these documents, by number."""
        query = f"SELECT number, fields FROM texts WHERE number IN ({_marks(numbers)})"
        return {number: json.loads(fields) for number, fields in self._read(query, numbers)}

    def _read(self, query: str, values: Sequence[int | str] = ()) -> list[tuple[Any, ...]]:
        with readable(self._path):
            return self._reader.execute(query, values).fetchall()


def opened(path: Path, tables: str) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """Open two connections to a file: one to write by, and one to read by, which sees what was committed.

    Args:
      path: The file.
      tables: Statements that make the tables unless they exist.
    """
    with readable(path):
        writer, reader = (sqlite3.connect(path, check_same_thread=False) for _ in range(2))
        try:
            writer.execute("PRAGMA journal_mode = WAL")
            writer.executescript(tables)
        except sqlite3.Error:
            writer.close()
            reader.close()
            raise
        return writer, reader


def finish(end: Callable[[], None], connection: sqlite3.Connection, path: Path) -> None:
    """End a transaction, and give back the space that its journal took.

    Args:
      end: Commits or rolls back.
      connection: The connection of the transaction.
      path: The file, for errors.
    """
    with readable(path):
        end()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise errors of SQLite as errors of this package that name the file."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) in DAMAGED_FILE_CODES:
            raise DamagedIndex(f"{path}: {error}") from None
        is_full = (getattr(error, "sqlite_errorcode", 0) & 0xFF) in FULL_DEVICE_CODES
        raise InvalidInput(f"{path}: {error} ({WRITE_FAILURE_HINT})" if is_full else f"{path}: {error}") from None


def joined(parts: Sequence[bytes]) -> PackedTexts:
    """Return the packed words of several texts, side by side, in a writable array: kernels compile anew for others."""
    starts = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) // NUMBER.itemsize for part in parts], out=starts[1:])
    return PackedTexts(np.frombuffer(bytearray().join(parts), NUMBER), starts)


def _packed(words: Ints) -> bytes:
    return words[:MAX_WORDS].astype(NUMBER).tobytes()


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
