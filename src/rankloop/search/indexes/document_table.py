"""The documents of an index: by number and id, when they were read, their texts, and their words as numbers."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.search.engine import TextDocument
from rankloop.search.indexes.match_kernel import NUMBER

MAX_WORDS = 20_000  # of a text that are kept to compare queries with; the index has all of them
MAX_BEGINNINGS = 2_000
DOCUMENT_TABLES = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
SELECT_ROWS = "SELECT number, id, at, title, body FROM documents"
DAMAGED_FILE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
FULL_DEVICE_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
WRITE_FAILURE_HINT = "is there space left on the device? What was indexed before is kept"


class DamagedIndex(InvalidInput):
    """An index that cannot be opened, because it is broken or of another version: it has to be made again."""


class DocumentRow(NamedTuple):
    """A document without its text; words are packed numbers."""

    number: int
    id: str
    at: float
    title: bytes
    body: bytes


class DocumentTable:
    """A file of SQLite with a connection to write by, and one to read by, which sees what was committed.

    A changed document gets a new number, so that the old one can be taken out of the index.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._readable():
            self._writer, self._reader = (sqlite3.connect(path, check_same_thread=False) for _ in range(2))
            try:
                self._writer.execute("PRAGMA journal_mode = WAL")
                self._writer.executescript(DOCUMENT_TABLES)
            except sqlite3.Error:
                self.close()
                raise

    def close(self) -> None:
        """Close both connections."""
        self._writer.close()
        self._reader.close()

    def read(self, query: str, values: Sequence[int | str] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._readable():
            return self._reader.execute(query, values).fetchall()

    def write(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for each row."""
        with self._readable():
            self._writer.executemany(statement, rows)

    def commit(self) -> None:
        """Make what was written visible to readers, and give back the space that the journal took."""
        with self._readable():
            self._writer.commit()
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def rollback(self) -> None:
        """Discard what was written since the last commit."""
        with self._readable():
            self._writer.rollback()
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Raise errors of SQLite as errors of this package that name the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if code in DAMAGED_FILE_CODES:
                raise DamagedIndex(f"{self._path}: {error}") from None
            hint = f" ({WRITE_FAILURE_HINT})" if (code & 0xFF) in FULL_DEVICE_CODES else ""
            raise InvalidInput(f"{self._path}: {error}{hint}") from None

    def entries(self) -> dict[str, tuple[int, str]]:
        """Return number and stamp of every document, by id; the stamp says what its source looked like."""
        return {id: (number, stamp) for id, number, stamp in self.read("SELECT id, number, stamp FROM documents")}

    def put(self, number: int, stamp: str, document: TextDocument, title: Ints, body: Ints) -> None:
        """Store a document in place of the one that had its id."""
        self.remove(document.id)
        title_bytes, body_bytes = (words[:MAX_WORDS].astype(NUMBER).tobytes() for words in (title, body))
        row = number, document.id, stamp, document.at, title_bytes, body_bytes
        text = number, document.title, document.body, json.dumps(dict(document.fields)) if document.fields else "{}"
        self.write("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", [row])
        self.write("INSERT INTO texts VALUES (?, ?, ?, ?)", [text])

    def remove(self, id: str) -> None:
        """Delete a document."""
        self.write("DELETE FROM texts WHERE number = (SELECT number FROM documents WHERE id = ?)", [(id,)])
        self.write("DELETE FROM documents WHERE id = ?", [(id,)])

    def add_words(self, stems: Iterable[tuple[str, str]]) -> None:
        """Add words as they are written, with their stems, so that a word can be found by its beginning."""
        self.write("INSERT OR IGNORE INTO words VALUES (?, ?)", stems)

    def stems_from(self, begun: str, n: int) -> list[str]:
        """Return the stems of n words that begin so, the shortest first; of very many words only some are looked at."""
        words_sql = f"SELECT word, stem FROM words WHERE word >= ? AND word < ? LIMIT {MAX_BEGINNINGS}"
        query = f"SELECT stem FROM ({words_sql}) ORDER BY LENGTH(word), word LIMIT ?"
        return list(dict.fromkeys(stem for (stem,) in self.read(query, (begun, begun + "\U0010ffff", n))))

    def fact(self, name: str, default: float | str) -> float | str:
        """Return a noted value, or the default."""
        rows = self.read("SELECT value FROM facts WHERE name = ?", (name,))
        return rows[0][0] if rows else default

    def note(self, **facts: float | str) -> None:
        """Store values by name."""
        self.write("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def count(self) -> tuple[int, Floats]:
        """Return the number of documents, and the mean length of their titles and bodies in words."""
        lengths = "COUNT(*), COALESCE(AVG(LENGTH(title)), 0), COALESCE(AVG(LENGTH(body)), 0)"
        ((n, *means),) = self.read(f"SELECT {lengths} FROM documents")
        return int(n), np.array(means) / NUMBER.itemsize

    def numbers(self) -> Ints:
        """Return the numbers of all documents, ascending."""
        return np.array([row[0] for row in self.read("SELECT number FROM documents ORDER BY number")], np.int64)

    def words(self, n: int) -> list[str]:
        """Return at most n different words as they are written."""
        return [word for (word,) in self.read("SELECT DISTINCT word FROM words LIMIT ?", (n,))]

    def titles(self, n: int) -> list[str]:
        """Return the titles of the n documents that were read first."""
        return [title for (title,) in self.read("SELECT title FROM texts ORDER BY number LIMIT ?", (n,))]

    def rows_by_number(self, numbers: Sequence[int]) -> list[DocumentRow]:
        """Return the documents of these numbers; those that are gone are left out."""
        return list(map(DocumentRow._make, self.read(f"{SELECT_ROWS} WHERE number IN ({_marks(numbers)})", numbers)))

    def rows_by_id(self, ids: Sequence[str]) -> dict[str, DocumentRow]:
        """Return the documents of these ids; those that are gone are left out."""
        return {row[1]: DocumentRow._make(row) for row in self.read(f"{SELECT_ROWS} WHERE id IN ({_marks(ids)})", ids)}

    def plain_texts(self, numbers: Sequence[int], max_characters: int) -> list[str]:
        """Return title and beginning of the body of each document, in order of their numbers."""
        query = f"SELECT title, SUBSTR(body, 1, ?) FROM texts WHERE number IN ({_marks(numbers)}) ORDER BY number"
        return [f"{title}\n{body}"[:max_characters] for title, body in self.read(query, (max_characters, *numbers))]

    def documents_of(self, ids: Sequence[str]) -> dict[str, TextDocument]:
        """Return the documents of these ids with their texts; those that are gone are left out."""
        query = f"""
            SELECT documents.id, texts.title, texts.body, documents.at, texts.fields
            FROM documents JOIN texts USING (number) WHERE documents.id IN ({_marks(ids)})
        """
        return {row[0]: TextDocument._make([*row[:4], json.loads(row[4])]) for row in self.read(query, ids)}

    def fields_of(self, numbers: Sequence[int]) -> list[dict[str, str]]:
        """Return the further values of each of these documents."""
        rows = self.read(f"SELECT fields FROM texts WHERE number IN ({_marks(numbers)})", numbers)
        return [json.loads(fields) for (fields,) in rows]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
