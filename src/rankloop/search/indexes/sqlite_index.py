"""The index of SQLite's FTS5, which every Python has: nothing to install."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rankloop.core.types import Floats
from rankloop.search.indexes.document_table import finish, opened, readable
from rankloop.search.indexes.stemmers import SqliteStemmer
from rankloop.search.indexes.text_index import IndexQuery

MAX_CACHED_FREQUENCIES = 10_000  # until the next commit
# Words are stems already: `ascii` only splits them at spaces.
STEM_TABLES = """
CREATE VIRTUAL TABLE IF NOT EXISTS stems USING fts5(title, body, facets, tokenize = 'ascii');
CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary USING fts5vocab(stems, 'col');
"""


class SqliteIndex:
    """An index by FTS5. English words are stemmed by Porter's rules, others stay as they are; both lose accents."""

    version = "3"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "stems.sqlite"
        self._writer, self._reader = opened(self._path, STEM_TABLES)
        self._stemmer = SqliteStemmer()
        self._frequencies: dict[str, tuple[float, float]] = {}

    def close(self) -> None:
        """Release the files of the index."""
        for connection in (self._writer, self._reader, self._stemmer):
            connection.close()

    @property
    def n_documents(self) -> int:
        """Return the number of documents."""
        with readable(self._path):
            return int(self._reader.execute("SELECT COUNT(*) FROM stems_docsize").fetchone()[0])

    def stemmed(self, words: list[str], language: str) -> list[str]:
        """Return the stem of each word by the rules of a language."""
        return self._stemmer.stemmed(words, language)

    def add(self, number: int, title: list[str], body: list[str], facets: Sequence[str] = ()) -> None:
        """Add the stems of a title and a body, and tokens by which a document can be filtered."""
        with readable(self._path):
            row = number, " ".join(title), " ".join(body), " ".join(facets)
            self._writer.execute("INSERT INTO stems (rowid, title, body, facets) VALUES (?, ?, ?, ?)", row)

    def remove(self, number: int) -> None:
        """Remove a document."""
        with readable(self._path):
            self._writer.execute("DELETE FROM stems WHERE rowid = ?", (number,))

    def commit(self) -> None:
        """Make what was added and removed count."""
        finish(self._writer.commit, self._writer, self._path)
        self._frequencies.clear()

    def rollback(self) -> None:
        """Discard what was added and removed since the last commit."""
        finish(self._writer.rollback, self._writer, self._path)

    def search(self, query: IndexQuery, n: int) -> list[tuple[int, float]]:
        """Return the best by FTS5's own BM25."""
        if query.is_empty or n < 1:
            return []
        column = "title" if query.title_only else "{title body}"
        parts = [f"{column} : ({' OR '.join(map(_quoted, query.any_of))})"] if query.any_of else []
        parts += [f"{{title body}} : {_quoted(run)}" for run in query.all_of]
        parts += [f"facets : ({' OR '.join(tokens)})" for tokens in query.facets]
        wanted_rows = " AND ".join(f"({part})" for part in parts)
        if query.none_of:
            unwanted = " OR ".join(f"{{title body}} : {_quoted(run)}" for run in query.none_of)
            wanted_rows = f"({wanted_rows}) NOT ({unwanted})"
        statement = "SELECT rowid, -rank FROM stems WHERE stems MATCH ? AND rank MATCH 'bm25(1.0, 1.0, 0.0)'"
        with readable(self._path):
            hits = self._reader.execute(f"{statement} ORDER BY rank LIMIT ?", (wanted_rows, n)).fetchall()
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))

    def frequencies(self, stems: Sequence[str]) -> Floats:
        """Return the number of documents of each stem, by field; removed documents may still count."""
        if len(self._frequencies) > MAX_CACHED_FREQUENCIES:
            self._frequencies.clear()
        return np.array([self._frequency(stem) for stem in stems], dtype=np.float64).reshape(len(stems), 2)

    def _frequency(self, stem: str) -> tuple[float, float]:
        counts = self._frequencies.get(stem)
        if counts is None:
            statement = "SELECT col, doc FROM vocabulary WHERE term = ?"
            with readable(self._path):
                by_field = dict(self._reader.execute(statement, (stem,)).fetchall())
            counts = self._frequencies[stem] = by_field.get("title", 0.0), by_field.get("body", 0.0)
        return counts


def _quoted(run: tuple[str, ...]) -> str:
    """Return words that touch as FTS5 quotes them, so that none is an operator."""
    return f'"{" ".join(run)}"'
