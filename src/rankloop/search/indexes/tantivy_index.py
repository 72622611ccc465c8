"""The index of tantivy: a full-text engine in this process, its files in one folder."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.types import Floats
from rankloop.search.indexes.text_index import UNWRITTEN, DamagedIndex, IndexQuery, check_language

FIELDS = ("title", "body")
HEAP = 64_000_000  # bytes that the writer fills before it writes a segment


class TantivyIndex:
    """Words are stemmed by the rules of a `language` and lose their accents."""

    version = "2"

    def __init__(self, folder: Path, language: str = "english") -> None:
        if not is_installed():
            raise NotFound("this engine needs tantivy: pip install 'rankloop[search]', or engine=\"sqlite\"")
        import tantivy

        check_language(language)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._tantivy = folder, tantivy
        self._writer: Any = None
        self._analyzer = _analyzer(tantivy, language)
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("number", indexed=True, fast=True)
        for field in FIELDS:
            builder.add_text_field(field, tokenizer_name="words")
        self._schema = builder.build()
        try:
            self._index = tantivy.Index(self._schema, path=str(folder))
            self._index.register_tokenizer("words", _spaced(tantivy).build())
            self._searcher = self._index.searcher()
        except (ValueError, OSError) as error:
            raise DamagedIndex(f"{folder}: {error}") from None

    def close(self) -> None:
        self._writer = None

    @property
    def n_documents(self) -> int:
        return int(self._searcher.num_docs)

    def stemmed(self, words: list[str]) -> list[str]:
        found: list[str] = self._analyzer.analyze(" ".join(words))
        if len(found) != len(words):  # a word of which no letter is left stays as it is
            return [" ".join(self._analyzer.analyze(word)) or word for word in words]
        return found

    def add(self, number: int, title: list[str], body: list[str]) -> None:
        document = self._tantivy.Document(number=number, title=" ".join(title), body=" ".join(body))
        self._write(lambda writer: writer.add_document(document))

    def remove(self, number: int) -> None:
        self._write(lambda writer: writer.delete_documents_by_term("number", number))

    def commit(self) -> None:
        if self._writer is not None:
            self._write(lambda writer: writer.commit())
            self._write(lambda writer: writer.wait_merging_threads())
            self._writer = None
            self._index.reload()
            self._searcher = self._index.searcher()

    def rollback(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.rollback()
            except (ValueError, OSError):
                return  # what was not committed is not there anyway

    def _write(self, call: Callable[[Any], Any]) -> None:
        try:
            if self._writer is None:
                self._writer = self._index.writer(HEAP, 1)
            call(self._writer)
        except (ValueError, OSError) as error:
            raise InvalidInput(f"{self._folder}: {error} ({UNWRITTEN})") from None

    def search(self, query: IndexQuery, n: int) -> list[tuple[int, float]]:
        """By the sum of tantivy's BM25 over both fields."""
        if not query.any_of or n < 1:
            return []
        occur = self._tantivy.Occur
        asked = self._either(query.any_of)
        if query.all_of:
            parts = [asked, *(self._either([run]) for run in query.all_of)]
            asked = self._tantivy.Query.boolean_query([(occur.Must, part) for part in parts])
        searcher = self._searcher  # one and the same, though a refresh may bring the next one meanwhile
        hits = searcher.search(asked, n, count=False).hits
        numbers: Any = searcher.fast_field_values("number", [address for _, address in hits])
        found = [(int(number), float(score)) for number, (score, _) in zip(numbers, hits)]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))

    def _either(self, runs: Sequence[tuple[str, ...]]) -> Any:
        """Any of these runs of words, in any field."""
        make, should = self._tantivy.Query, self._tantivy.Occur.Should
        parts = [
            make.term_query(self._schema, field, run[0])
            if len(run) == 1
            else make.phrase_query(self._schema, field, list(run))
            for run in runs
            for field in FIELDS
        ]
        return make.boolean_query([(should, part) for part in parts])

    def frequencies(self, stems: Sequence[str]) -> Floats:
        searcher = self._searcher
        found = [[searcher.doc_freq(field, stem) for field in FIELDS] for stem in stems]
        return np.array(found, dtype=np.float64).reshape(len(stems), len(FIELDS))


def is_installed() -> bool:
    return find_spec("tantivy") is not None


def _spaced(tantivy: Any) -> Any:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())


def _analyzer(tantivy: Any, language: str) -> Any:
    """English forms do not depend on accents, so that résumés and resume meet; elsewhere rules are about them."""
    stemmer, plain = tantivy.Filter.stemmer(language), tantivy.Filter.ascii_fold()
    first, second = (plain, stemmer) if language == "english" else (stemmer, plain)
    return _spaced(tantivy).filter(first).filter(second).build()
