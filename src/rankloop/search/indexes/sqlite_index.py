"""The index of SQLite's FTS5, which every Python has: nothing to install."""

import re
import sqlite3
import threading
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rankloop.core.types import Floats
from rankloop.search.indexes.document_table import finish, opened, readable
from rankloop.search.indexes.text_index import IndexQuery, check_language

MAX_KNOWN = 10_000  # words whose frequencies are kept until the next commit
PLAIN = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"})
ACCENTED = re.compile("([a-z])[\u0300-\u036f]+")
# Words are stems already: `ascii` only splits them at spaces.
TABLES = """
CREATE VIRTUAL TABLE IF NOT EXISTS stems USING fts5(title, body, tokenize = 'ascii');
CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary USING fts5vocab(stems, 'col');
"""
STEMMER = """
CREATE VIRTUAL TABLE words USING fts5(word, tokenize = 'porter ascii');
CREATE VIRTUAL TABLE stems USING fts5vocab(words, 'instance');
"""


class SqliteIndex:
    """English words are stemmed by Porter's rules, those of other languages stay as they are; both lose accents."""

    version = "2"

    def __init__(self, folder: Path, language: str = "english") -> None:
        check_language(language)
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "stems.sqlite"
        self._is_english = language == "english"
        self._writer, self._reader = opened(self._path, TABLES)
        self._stemmer = sqlite3.connect(":memory:", check_same_thread=False)
        self._stemmer.executescript(STEMMER)
        self._stemming = threading.Lock()
        self._known: dict[str, tuple[float, float]] = {}

    def close(self) -> None:
        for connection in (self._writer, self._reader, self._stemmer):
            connection.close()

    @property
    def n_documents(self) -> int:
        with readable(self._path):
            return int(self._reader.execute("SELECT COUNT(*) FROM stems_docsize").fetchone()[0])

    def stemmed(self, words: list[str]) -> list[str]:
        plain = [word if word.isascii() else without_accents(word) for word in words]
        if not self._is_english:
            return plain
        with self._stemming:
            self._stemmer.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(plain))
            found = dict(self._stemmer.execute("SELECT doc, term FROM stems").fetchall())
            self._stemmer.execute("DELETE FROM words")
        return [found.get(i, word) for i, word in enumerate(plain)]

    def add(self, number: int, title: list[str], body: list[str]) -> None:
        with readable(self._path):
            row = number, " ".join(title), " ".join(body)
            self._writer.execute("INSERT INTO stems (rowid, title, body) VALUES (?, ?, ?)", row)

    def remove(self, number: int) -> None:
        with readable(self._path):
            self._writer.execute("DELETE FROM stems WHERE rowid = ?", (number,))

    def commit(self) -> None:
        finish(self._writer.commit, self._writer, self._path)
        self._known.clear()

    def rollback(self) -> None:
        finish(self._writer.rollback, self._writer, self._path)

    def search(self, query: IndexQuery, n: int) -> list[tuple[int, float]]:
        """By FTS5's own BM25."""
        if not query.any_of or n < 1:
            return []
        parts = [f"({' OR '.join(map(_quoted, query.any_of))})", *map(_quoted, query.all_of)]
        wanted = "SELECT rowid, -rank FROM stems WHERE stems MATCH ? ORDER BY rank LIMIT ?"
        with readable(self._path):
            hits = self._reader.execute(wanted, (" AND ".join(parts), n)).fetchall()
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))

    def frequencies(self, stems: Sequence[str]) -> Floats:
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        return np.array([self._frequency(stem) for stem in stems], dtype=np.float64).reshape(len(stems), 2)

    def _frequency(self, stem: str) -> tuple[float, float]:
        known = self._known.get(stem)
        if known is None:
            with readable(self._path):
                found = dict(self._reader.execute("SELECT col, doc FROM vocabulary WHERE term = ?", (stem,)).fetchall())
            known = self._known[stem] = found.get("title", 0.0), found.get("body", 0.0)
        return known


def without_accents(word: str) -> str:
    """Latin letters as the plain ones; marks of other scripts stay."""
    apart = unicodedata.normalize("NFD", word.translate(PLAIN))
    return unicodedata.normalize("NFC", ACCENTED.sub(r"\1", apart))


def _quoted(run: tuple[str, ...]) -> str:
    """Words that touch, none of which is an operator."""
    return f'"{" ".join(run)}"'
