"""The inverted index of titles and bodies by number, of tantivy; changes count from `commit` on."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.types import Floats
from rankloop.search.engine import QueryFilter, TextDocument, values_of
from rankloop.search.indexes.document_table import WRITE_FAILURE_HINT, DamagedIndex

TEXT_FIELDS = ("title", "body")
Run = tuple[str, ...]  # words that touch each other
NO_WEIGHTS: Mapping[Run, float] = MappingProxyType({})
WRITER_BYTES = 64_000_000  # that tantivy fills before a segment is written


class IndexQuery(NamedTuple):
    """A query as stems."""

    any_of: tuple[Run, ...]  # runs of which a document needs one; where there are none, filters decide
    all_of: tuple[Run, ...] = ()  # runs that a document must have
    none_of: tuple[Run, ...] = ()  # runs that it must not have
    filters: tuple[QueryFilter, ...] = ()
    title_only: bool = False
    weights: Mapping[Run, float] = NO_WEIGHTS  # of runs, where they are not 1


class TextIndex:
    """An index of words that are stems already, with the values and dates by which documents are filtered."""

    def __init__(self, folder: Path) -> None:
        self._tantivy = tantivy = import_extra("tantivy")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._writer: Any = None
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("number", indexed=True, fast=True)
        builder.add_float_field("at", indexed=True, fast=True)
        for field in TEXT_FIELDS:
            builder.add_text_field(field, tokenizer_name="words")
        builder.add_text_field("facets", tokenizer_name="raw", index_option="basic")
        self._schema = builder.build()
        try:
            self._index = tantivy.Index(self._schema, path=str(folder))
            self._index.register_tokenizer("words", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
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

    def add(self, number: int, title: list[str], body: list[str], document: TextDocument) -> None:
        """Add the stems of a document's title and body, and what it is filtered by."""
        values = [(name, value) for name, text in document.fields.items() for value in values_of(text)]
        entry = self._tantivy.Document(
            number=number,
            at=document.at,
            title=" ".join(title),
            body=" ".join(body),
            facets=[_facet_term(name, value) for name, value in values],
        )
        self._write(lambda writer: writer.add_document(entry))

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
        if n < 1 or not (query.any_of or query.filters):
            return []
        fields = TEXT_FIELDS[:1] if query.title_only else TEXT_FIELDS
        parts = [self._either([run], TEXT_FIELDS) for run in query.all_of]
        if query.any_of:
            parts.insert(0, self._either(query.any_of, fields, query.weights))
        return self._best(parts, query, n)

    def allowed(self, numbers: Sequence[int], query: IndexQuery) -> list[int]:
        """Return those of some documents that have no unwanted word and satisfy all filters of a query."""
        if not (query.none_of or query.filters):
            return list(numbers)
        among = self._tantivy.Query.term_set_query(self._schema, "number", list(numbers))
        return [number for number, _ in self._best([among], query, max(len(numbers), 1))]

    def _best(self, parts: list[Any], query: IndexQuery, n: int) -> list[tuple[int, float]]:
        """Return the best n documents that match all parts, and keep to the filters and unwanted words of a query."""
        occur, make = self._tantivy.Occur, self._tantivy.Query
        filters = [make.const_score_query(self._filter(condition), 0.0) for condition in query.filters]
        clauses = [(occur.Must, part) for part in [*parts, *filters]]
        clauses += [(occur.MustNot, self._either([run], TEXT_FIELDS)) for run in query.none_of]
        searcher = self._searcher  # A refresh may bring the next one meanwhile.
        hits = searcher.search(make.boolean_query(clauses), n, count=False).hits
        numbers: Any = searcher.fast_field_values("number", [address for _, address in hits])
        scored = [(int(number), float(score)) for number, (score, _) in zip(numbers, hits)]
        return sorted(scored, key=lambda hit: (-hit[1], hit[0]))

    def _filter(self, condition: QueryFilter) -> Any:
        make = self._tantivy.Query
        if condition.field != "at":
            return make.term_query(self._schema, "facets", _facet_term(condition.field, condition.value))
        first, end = max(condition.start, np.nextafter(0.0, 1.0)), condition.end or np.inf  # 0: unknown
        number = self._tantivy.FieldType.Float
        return make.range_query(self._schema, "at", number, float(first), float(end), include_upper=False)

    def _either(self, runs: Sequence[Run], fields: Sequence[str], weights: Mapping[Run, float] = NO_WEIGHTS) -> Any:
        """Return a query for any of these runs of words in any of these fields."""
        make, should = self._tantivy.Query, self._tantivy.Occur.Should
        parts = list[Any]()
        for run, field in product(runs, fields):
            is_word, weight = len(run) == 1, weights.get(run, 1.0)
            of_run: Any = make.term_query if is_word else make.phrase_query
            part = of_run(self._schema, field, run[0] if is_word else list(run))
            parts.append(part if weight == 1.0 else make.boost_query(part, weight))
        return make.boolean_query([(should, part) for part in parts])

    def frequencies(self, stems: Sequence[str]) -> Floats:
        """Return the number of documents of each stem, by field; removed documents may still count."""
        searcher = self._searcher
        counts = [[searcher.doc_freq(field, stem) for field in TEXT_FIELDS] for stem in stems]
        return np.array(counts, dtype=np.float64).reshape(len(stems), len(TEXT_FIELDS))


def _facet_term(field: str, value: str) -> str:
    """Return the term of a value of a field; capitals do not count."""
    return f"{field}={value.strip().casefold()}".encode(errors="replace").decode()
