"""The index of tantivy: a full-text engine in this process, its files in one folder."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.types import Floats
from rankloop.search.engine import Snippet, TextQuery

FIELDS = ("title", "body")
HEAP = 64_000_000  # bytes that the writer fills before it writes a segment
MAX_WORD = 64  # longer ones are not indexed
MAX_EXPANSIONS = 50  # words that a beginning may stand for
SNIPPET = 200  # characters
IDEOGRAPHS = "\u3041-\u30ff\u3400-\u9fff"
LANGUAGES = frozenset(
    {
        *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
        *("norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish"),
    }
)


class TantivyIndex:
    """Title and body of every document, by its number; words are stemmed by the rules of a `language`."""

    version = "1"

    def __init__(self, folder: Path, language: str = "english") -> None:
        tantivy = _library()
        if language not in LANGUAGES:
            raise InvalidInput(
                f"there is no stemming for {language!r:.60}; there is for {', '.join(sorted(LANGUAGES))}"
            )
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._tantivy = tantivy
        self._analyzer = _analyzer(tantivy, language)
        self._writer: Any = None
        self._open()

    def _open(self) -> None:
        tantivy = self._tantivy
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("number", indexed=True, fast=True, stored=True)
        for field in FIELDS:
            builder.add_text_field(field, stored=True, tokenizer_name="words")
        schema = builder.build()
        try:
            self._index = tantivy.Index(schema, path=str(self.folder))
        except ValueError:  # of another version, or damaged: all that is in it can be read again from its source
            shutil.rmtree(self.folder)
            self.folder.mkdir()
            self._index = tantivy.Index(schema, path=str(self.folder))
        self._index.register_tokenizer("words", self._analyzer)
        self._schema = schema
        self._searcher = self._index.searcher()

    def close(self) -> None:
        self._writer = None

    @property
    def n_documents(self) -> int:
        return int(self._searcher.num_docs)

    def stems(self, text: str) -> list[str]:
        """The words of a text as they stand in the index."""
        return self._analyzer.analyze(_spaced(text))  # type: ignore[no-any-return]

    def add(self, number: int, title: str, body: str) -> None:
        parts = {"title": _spaced(title), "body": _spaced(body)}
        self._write("add_document", self._tantivy.Document(number=number, **parts))

    def remove(self, number: int) -> None:
        self._write("delete_documents_by_term", "number", number)

    def clear(self) -> None:
        self._write("delete_all_documents")

    def commit(self) -> None:
        """Make everything that was added and removed visible, and durable."""
        if self._writer is None:
            return
        self._write("commit")
        self._write("wait_merging_threads")
        self._writer = None
        self._index.reload()
        self._searcher = self._index.searcher()

    def _write(self, call: str, *given: Any) -> None:
        try:
            if self._writer is None:
                self._writer = self._index.writer(HEAP, 1)
            getattr(self._writer, call)(*given)
        except ValueError as error:
            raise InvalidInput(f"{self.folder}: {_reason(error)}") from None

    def search(self, query: TextQuery, n: int) -> list[tuple[int, float]]:
        """Numbers and scores of the best n, BM25 of both fields added up; ties by number."""
        asked = self._asked(query)
        if asked is None:
            return []
        hits = self._searcher.search(asked, n, count=False).hits
        numbers = self._searcher.fast_field_values("number", [address for _, address in hits])
        found = [(int(number), float(score)) for number, (score, _) in zip(numbers, hits)]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))

    def frequencies(self, stems: Sequence[str]) -> Floats:
        """In how many documents each of these words stands, by field."""
        found = [[self._searcher.doc_freq(field, stem) for field in FIELDS] for stem in stems]
        return np.array(found, dtype=np.float64).reshape(len(stems), len(FIELDS))

    def text(self, number: int) -> tuple[str, str]:
        """Title and body of a document."""
        document = self._document(number)
        return _joined(document["title"][0]), _joined(document["body"][0])

    def snippets(self, query: TextQuery, numbers: Sequence[int]) -> list[Snippet]:
        """For each document the piece of its body that has most of the query's words; else its beginning."""
        generator = None
        asked = self._asked(query)
        if asked is not None:
            generator = self._tantivy.SnippetGenerator.create(self._searcher, asked, self._schema, "body")
            generator.set_max_num_chars(SNIPPET)
        return [self._snippet(generator, self._document(number)) for number in numbers]

    def _snippet(self, generator: Any, document: Any) -> Snippet:
        found = generator.snippet_from_doc(document) if generator is not None else None
        if found is None or not found.fragment():
            return Snippet(_joined(document["body"][0][:SNIPPET]))
        return _characters(found.fragment(), [(part.start, part.end) for part in found.highlighted()])

    def _document(self, number: int) -> Any:
        hits = self._searcher.search(self._query.term_query(self._schema, "number", number), 1, count=False).hits
        return self._searcher.doc(hits[0][1])

    @property
    def _query(self) -> Any:
        return self._tantivy.Query

    def _asked(self, query: TextQuery) -> Any:
        """The union of all words in both fields, among the documents that have the phrases; None for no words."""
        make, occur = self._query, self._tantivy.Occur
        words = [stem for word in query.words for stem in self.stems(word)]
        if not words:
            return None
        if query.prefix:
            words += self._expansions(query.words[-1])
        stems = dict.fromkeys(words)
        wanted = [make.term_query(self._schema, field, stem) for stem in stems for field in FIELDS]
        asked = make.boolean_query([(occur.Should, term) for term in wanted])
        parts = [(occur.Must, asked)]
        for phrase in query.phrases:
            known = [stem for word in phrase for stem in self.stems(word)]
            parts += [(occur.Must, self._phrase(known))] if known else []
        return make.boolean_query(parts) if len(parts) > 1 else asked

    def _phrase(self, stems: list[str]) -> Any:
        make, occur = self._query, self._tantivy.Occur
        one = make.term_query if len(stems) == 1 else make.phrase_query
        what = stems[0] if len(stems) == 1 else stems
        return make.boolean_query([(occur.Should, one(self._schema, field, what)) for field in FIELDS])

    def _expansions(self, begun: str) -> list[str]:
        """Words of the index that begin so."""
        found = [self._searcher.terms_with_prefix(field, begun, limit=MAX_EXPANSIONS) for field in FIELDS]
        return [word for part in found for word, _ in part][:MAX_EXPANSIONS]


def _library() -> Any:
    try:
        import tantivy
    except ModuleNotFoundError:
        raise NotFound("this search box needs tantivy: pip install 'rankloop[search]', or engine=\"sqlite\"") from None
    return tantivy


def _analyzer(tantivy: Any, language: str) -> Any:
    make = tantivy.Filter
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(make.remove_long(MAX_WORD))
    return builder.filter(make.lowercase()).filter(make.ascii_fold()).filter(make.stemmer(language)).build()


def _spaced(text: str) -> str:
    """With a space around every ideograph, which is a word of its own."""
    return text if text.isascii() else re.sub(f"([{IDEOGRAPHS}])", r" \1 ", text)


def _joined(text: str) -> str:
    """The reverse of `_spaced`."""
    return text if text.isascii() else re.sub(f" ([{IDEOGRAPHS}]) ", r"\1", text)


def _characters(fragment: str, ranges: list[tuple[int, int]]) -> Snippet:
    """Ranges in bytes as ranges in characters, the spaces around ideographs taken out again."""
    data, pieces, highlights, before = fragment.encode(), list[str](), list[tuple[int, int]](), 0
    length = 0
    for start, end in [*ranges, (len(data), len(data))]:
        plain, marked = (_joined(data[a:b].decode(errors="replace")) for a, b in ((before, start), (start, end)))
        length += len(plain)
        if marked:
            highlights.append((length, length + len(marked)))
        length += len(marked)
        pieces += [plain, marked]
        before = end
    return Snippet("".join(pieces), tuple(highlights))


def _reason(error: ValueError) -> str:
    text = " ".join(str(error).split())
    if "LockBusy" in text or "Lockfile" in text or "lock" in text.lower():
        return "another process is writing to this index; stop it first"
    if "No space left" in text or "StorageFull" in text or "code: 28" in text:
        return "there is no space left on the device; what was indexed before is kept"
    return text
