"""Inverted indexes of titles and bodies by number: tantivy's, and FTS5 of SQLite; changes count from `commit` on."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.types import Floats
from rankloop.search.indexes.document_table import WRITE_FAILURE_HINT, DamagedIndex, SqliteFile
from rankloop.search.indexes.stemmers import SqliteStemmer, is_tantivy_installed, tantivy_stems

TEXT_FIELDS = ("title", "body")
WRITER_BYTES = 64_000_000  # that tantivy fills before a segment is written
MAX_CACHED_FREQUENCIES = 10_000  # until the next commit
# Words are stems already: `ascii` only splits them at spaces.
STEM_TABLES = """
CREATE VIRTUAL TABLE IF NOT EXISTS stems USING fts5(title, body, facets, tokenize = 'ascii');
CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary USING fts5vocab(stems, 'col');
"""


class IndexQuery(NamedTuple):
    """A query as stems. A run is a tuple of words that touch each other."""

    any_of: tuple[tuple[str, ...], ...]  # runs of which a document needs one; where there are none, facets decide
    all_of: tuple[tuple[str, ...], ...] = ()  # runs that a document must have
    none_of: tuple[tuple[str, ...], ...] = ()  # runs that it must not have
    facets: tuple[tuple[str, ...], ...] = ()  # groups of facet tokens; a document needs one token of each group
    title_only: bool = False


class TantivyIndex:
    """An index of tantivy, a full-text engine in this process; words are stemmed by the rules of their language."""

    version = "3"

    def __init__(self, folder: Path) -> None:
        if not is_tantivy_installed():
            raise NotFound("this engine needs tantivy: pip install 'rankloop[search]', or engine=\"sqlite\"")
        import tantivy

        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._tantivy = folder, tantivy
        self._writer: Any = None
        self.stemmed = tantivy_stems
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("number", indexed=True, fast=True)
        for field in TEXT_FIELDS:
            builder.add_text_field(field, tokenizer_name="words")
        builder.add_text_field("facets", tokenizer_name="words", index_option="basic")
        self._schema = builder.build()
        try:
            self._index = tantivy.Index(self._schema, path=str(folder))
            spaced = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
            self._index.register_tokenizer("words", spaced.build())
            self._searcher = self._index.searcher()
        except (ValueError, OSError) as error:
            raise DamagedIndex(f"{folder}: {error}") from None

    def close(self) -> None:
        """Release the files of the index."""
        self._writer = None

    @property
    def n_documents(self) -> int:
        """Return the number of documents."""
        return int(self._searcher.num_docs)

    def add(self, number: int, title: list[str], body: list[str], facets: Sequence[str] = ()) -> None:
        """Add the stems of a title and a body, and tokens by which a document can be filtered."""
        texts = {"title": " ".join(title), "body": " ".join(body), "facets": " ".join(facets)}
        document = self._tantivy.Document(number=number, **texts)
        self._write(lambda writer: writer.add_document(document))

    def remove(self, number: int) -> None:
        """Remove a document."""
        self._write(lambda writer: writer.delete_documents_by_term("number", number))

    def commit(self) -> None:
        """Make what was added and removed count."""
        if self._writer is not None:
            self._write(lambda writer: writer.commit())
            self._write(lambda writer: writer.wait_merging_threads())
            self._writer = None
            self._index.reload()
            self._searcher = self._index.searcher()

    def rollback(self) -> None:
        """Discard what was added and removed since the last commit."""
        writer, self._writer = self._writer, None
        with suppress(ValueError, OSError):  # What was not committed is not there anyway.
            if writer is not None:
                writer.rollback()

    def _write(self, call: Callable[[Any], Any]) -> None:
        try:
            if self._writer is None:
                self._writer = self._index.writer(WRITER_BYTES, 1)
            call(self._writer)
        except (ValueError, OSError) as error:
            raise InvalidInput(f"{self._folder}: {error} ({WRITE_FAILURE_HINT})") from None

    def search(self, query: IndexQuery, n: int) -> list[tuple[int, float]]:
        """Return numbers and scores of the best n by the sum of tantivy's BM25 over both fields, ties by number."""
        if n < 1 or not (query.any_of or query.facets):
            return []
        fields = TEXT_FIELDS[:1] if query.title_only else TEXT_FIELDS
        occur, make = self._tantivy.Occur, self._tantivy.Query
        parts = [(occur.Must, self._either(query.any_of, fields))] if query.any_of else []
        parts += [(occur.Must, self._either([run], TEXT_FIELDS)) for run in query.all_of]
        for tokens in query.facets:
            matching = self._either([(token,) for token in tokens], ("facets",))
            parts.append((occur.Must, make.const_score_query(matching, 0.0)))
        parts += [(occur.MustNot, self._either([run], TEXT_FIELDS)) for run in query.none_of]
        searcher = self._searcher  # A refresh may bring the next one meanwhile.
        hits = searcher.search(make.boolean_query(parts), n, count=False).hits
        numbers: Any = searcher.fast_field_values("number", [address for _, address in hits])
        scored = [(int(number), float(score)) for number, (score, _) in zip(numbers, hits)]
        return sorted(scored, key=lambda hit: (-hit[1], hit[0]))

    def _either(self, runs: Sequence[tuple[str, ...]], fields: Sequence[str]) -> Any:
        """Return a query for any of these runs of words in any of these fields."""
        make, should = self._tantivy.Query, self._tantivy.Occur.Should
        parts = [
            make.term_query(self._schema, field, run[0])
            if len(run) == 1
            else make.phrase_query(self._schema, field, list(run))
            for run in runs
            for field in fields
        ]
        return make.boolean_query([(should, part) for part in parts])

    def frequencies(self, stems: Sequence[str]) -> Floats:
        """Return the number of documents of each stem, by field; removed documents may still count."""
        searcher = self._searcher
        counts = [[searcher.doc_freq(field, stem) for field in TEXT_FIELDS] for stem in stems]
        return np.array(counts, dtype=np.float64).reshape(len(stems), len(TEXT_FIELDS))


class SqliteIndex(SqliteFile):
    """An index by FTS5. English words are stemmed by Porter's rules, others stay as they are; both lose accents."""

    version = "3"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder / "stems.sqlite", STEM_TABLES)
        self._stemmer = SqliteStemmer()
        self.stemmed = self._stemmer.stemmed
        self._frequency = lru_cache(MAX_CACHED_FREQUENCIES)(self._read_frequency)

    def close(self) -> None:
        """Release the files of the index."""
        super().close()
        self._stemmer.close()

    @property
    def n_documents(self) -> int:
        """Return the number of documents."""
        return int(self.read("SELECT COUNT(*) FROM stems_docsize")[0][0])

    def add(self, number: int, title: list[str], body: list[str], facets: Sequence[str] = ()) -> None:
        """Add the stems of a title and a body, and tokens by which a document can be filtered."""
        row = number, " ".join(title), " ".join(body), " ".join(facets)
        self.write("INSERT INTO stems (rowid, title, body, facets) VALUES (?, ?, ?, ?)", [row])

    def remove(self, number: int) -> None:
        """Remove a document."""
        self.write("DELETE FROM stems WHERE rowid = ?", [(number,)])

    def commit(self) -> None:
        """Make what was added and removed count."""
        super().commit()
        self._frequency.cache_clear()

    def search(self, query: IndexQuery, n: int) -> list[tuple[int, float]]:
        """Return numbers and scores of the best n by FTS5's own BM25, ties by number."""
        if n < 1 or not (query.any_of or query.facets):
            return []
        column = "title" if query.title_only else "{title body}"
        parts = [f"{column} : ({' OR '.join(map(_quoted, query.any_of))})"] if query.any_of else []
        parts += [f"{{title body}} : {_quoted(run)}" for run in query.all_of]
        parts += [f"facets : ({' OR '.join(tokens)})" for tokens in query.facets]
        matching = " AND ".join(f"({part})" for part in parts)
        if query.none_of:
            unwanted = " OR ".join(f"{{title body}} : {_quoted(run)}" for run in query.none_of)
            matching = f"({matching}) NOT ({unwanted})"
        statement = "SELECT rowid, -rank FROM stems WHERE stems MATCH ? AND rank MATCH 'bm25(1.0, 1.0, 0.0)'"
        hits: Any = self.read(f"{statement} ORDER BY rank LIMIT ?", (matching, n))
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))

    def frequencies(self, stems: Sequence[str]) -> Floats:
        """Return the number of documents of each stem, by field; removed documents may still count."""
        return np.array([self._frequency(stem) for stem in stems], dtype=np.float64).reshape(len(stems), 2)

    def _read_frequency(self, stem: str) -> list[float]:
        by_field: Any = dict(self.read("SELECT col, doc FROM vocabulary WHERE term = ?", (stem,)))
        return [by_field.get(field, 0.0) for field in TEXT_FIELDS]


TextIndex = TantivyIndex | SqliteIndex


def _quoted(run: tuple[str, ...]) -> str:
    """Return words that touch as FTS5 quotes them, so that none is an operator."""
    return f'"{" ".join(run)}"'
