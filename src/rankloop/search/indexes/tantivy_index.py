"""The index of tantivy: a full-text engine in this process, its files in one folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.types import Floats
from rankloop.search.indexes.stemmers import TantivyStemmer, is_tantivy_installed
from rankloop.search.indexes.text_index import WRITE_FAILURE_HINT, DamagedIndex, IndexQuery

TEXT_FIELDS = ("title", "body")
WRITER_BYTES = 64_000_000  # that are filled before a segment is written


class TantivyIndex:
    """An index whose words are stemmed by the rules of their language and lose their accents."""

    version = "3"

    def __init__(self, folder: Path) -> None:
        if not is_tantivy_installed():
            raise NotFound("this engine needs tantivy: pip install 'rankloop[search]', or engine=\"sqlite\"")
        import tantivy

        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._tantivy = folder, tantivy
        self._writer: Any = None
        self._stemmer = TantivyStemmer()
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("number", indexed=True, fast=True)
        for field in TEXT_FIELDS:
            builder.add_text_field(field, tokenizer_name="words")
        builder.add_text_field("facets", tokenizer_name="words", index_option="basic")
        self._schema = builder.build()
        spaced = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
        try:
            self._index = tantivy.Index(self._schema, path=str(folder))
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

    def stemmed(self, words: list[str], language: str) -> list[str]:
        """Return the stem of each word by the rules of a language."""
        return self._stemmer.stemmed(words, language)

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
        if writer is not None:
            try:
                writer.rollback()
            except (ValueError, OSError):
                return  # what was not committed is not there anyway

    def _write(self, call: Callable[[Any], Any]) -> None:
        try:
            if self._writer is None:
                self._writer = self._index.writer(WRITER_BYTES, 1)
            call(self._writer)
        except (ValueError, OSError) as error:
            raise InvalidInput(f"{self._folder}: {error} ({WRITE_FAILURE_HINT})") from None

    def search(self, query: IndexQuery, n: int) -> list[tuple[int, float]]:
        """Return the best by the sum of tantivy's BM25 over both fields."""
        if query.is_empty or n < 1:
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
