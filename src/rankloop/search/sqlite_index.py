"""The index of SQLite's FTS5, which every Python has: nothing to install."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rankloop.core.types import Floats
from rankloop.features.words import words_of
from rankloop.search.catalogue import readable
from rankloop.search.engine import Snippet, TextQuery

MAX_EXPANSIONS = 50
WORDS = 32  # of a snippet
START, END = "\x02", "\x03"  # around highlights; neither is in a text
TABLES = """
CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5(title, body, tokenize = 'porter unicode61');
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5vocab(texts, 'col');
CREATE TABLE IF NOT EXISTS originals (number INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT NOT NULL);
"""


class SqliteIndex:
    """Titles and bodies in one SQLite file; English words are stemmed by Porter's rules, whatever the language."""

    version = "1"

    def __init__(self, folder: Path, language: str = "english") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "texts.sqlite"
        with readable(self._path):
            self._connection = sqlite3.connect(self._path, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.executescript(TABLES)
        self._stems: dict[str, str] = {}
        self._stemmer = sqlite3.connect(":memory:", check_same_thread=False)
        self._stemmer.executescript(
            "CREATE VIRTUAL TABLE one USING fts5(word, tokenize = 'porter unicode61');"
            "CREATE VIRTUAL TABLE stems USING fts5vocab(one, 'row');"
        )

    def close(self) -> None:
        self._connection.close()
        self._stemmer.close()

    @property
    def n_documents(self) -> int:
        return int(self._connection.execute("SELECT COUNT(*) FROM originals").fetchone()[0])

    def stems(self, text: str) -> list[str]:
        """The words of a text as they stand in the index."""
        return [self._stem(word) for word in words_of(text)]

    def _stem(self, word: str) -> str:
        known = self._stems.get(word)
        if known is None:
            self._stemmer.execute("INSERT INTO one VALUES (?)", (word,))
            found = self._stemmer.execute("SELECT term FROM stems").fetchone()
            self._stemmer.execute("DELETE FROM one")
            known = self._stems[word] = word if found is None else found[0]
        return known

    def add(self, number: int, title: str, body: str) -> None:
        title, body = (text.replace(START, " ").replace(END, " ") for text in (title, body))
        with readable(self._path):
            indexed = number, " ".join(words_of(title)), _spaced(body)
            self._connection.execute("INSERT INTO texts (rowid, title, body) VALUES (?, ?, ?)", indexed)
            self._connection.execute("INSERT INTO originals VALUES (?, ?, ?)", (number, title, body))

    def remove(self, number: int) -> None:
        with readable(self._path):
            self._connection.execute("DELETE FROM texts WHERE rowid = ?", (number,))
            self._connection.execute("DELETE FROM originals WHERE number = ?", (number,))

    def commit(self) -> None:
        with readable(self._path):
            self._connection.commit()

    def search(self, query: TextQuery, n: int) -> list[tuple[int, float]]:
        """Numbers and scores of the best n, by FTS5's own BM25; ties by number."""
        asked = _asked(query)
        if not asked:
            return []
        wanted = "SELECT rowid, -bm25(texts) FROM texts WHERE texts MATCH ? ORDER BY bm25(texts), rowid LIMIT ?"
        return [(int(number), float(score)) for number, score in self._connection.execute(wanted, (asked, n))]

    def frequencies(self, stems: Sequence[str]) -> Floats:
        """In how many documents each of these words stands, by field."""
        found = np.zeros((len(stems), 2))
        for i, stem in enumerate(stems):
            for field, count in self._connection.execute("SELECT col, doc FROM words WHERE term = ?", (stem,)):
                found[i, 0 if field == "title" else 1] = count
        return found

    def text(self, number: int) -> tuple[str, str]:
        """Title and body of a document."""
        title, body = self._connection.execute(
            "SELECT title, body FROM originals WHERE number = ?", (number,)
        ).fetchone()
        return title, body

    def snippets(self, query: TextQuery, numbers: Sequence[int]) -> list[Snippet]:
        """For each document the piece of its body that has most of the query's words; else its beginning."""
        asked, found = _asked(query), dict[int, str]()
        if asked:
            marks = ", ".join("?" * len(numbers))
            piece = f"snippet(texts, 1, '{START}', '{END}', '…', {WORDS})"
            wanted = f"SELECT rowid, {piece} FROM texts WHERE texts MATCH ? AND rowid IN ({marks})"
            found = dict(self._connection.execute(wanted, (asked, *numbers)).fetchall())
        return [_highlighted(found.get(number) or self.text(number)[1][: 6 * WORDS]) for number in numbers]


def _asked(query: TextQuery) -> str:
    """Every word quoted, so that none is an operator."""
    words = [f'"{word}"' for word in dict.fromkeys(query.words)]
    if not words:
        return ""
    if query.prefix:
        words.append(f'"{query.words[-1]}" *')
    parts = [f"({' OR '.join(words)})", *(f'"{" ".join(phrase)}"' for phrase in query.phrases)]
    return " AND ".join(parts)


def _spaced(text: str) -> str:
    """With a space around every ideograph, which is a word of its own."""
    if text.isascii():
        return text
    return "".join(
        f" {letter} " if "\u3041" <= letter <= "\u30ff" or "\u3400" <= letter <= "\u9fff" else letter for letter in text
    )


def _highlighted(text: str) -> Snippet:
    pieces, highlights, length = list[str](), list[tuple[int, int]](), 0
    for i, part in enumerate(text.split(START)):
        marked, _, plain = part.partition(END) if i else ("", "", part)
        if marked:
            highlights.append((length, length + len(marked)))
        pieces += [marked, plain]
        length += len(marked) + len(plain)
    return Snippet("".join(pieces), tuple(highlights))
