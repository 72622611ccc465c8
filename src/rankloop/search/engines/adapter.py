"""The protocol of an adapter to a running search engine, and what all adapters need."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rankloop.search.engine import VALUE_SEPARATOR, Snippet, TextDocument, TextQuery, seconds_of
from rankloop.search.indexes.meaning_index import Embed
from rankloop.search.texts import is_unspaced

MARK_START, MARK_END = "\ue000", "\ue001"  # around highlighted words; these characters stand for nothing in Unicode
SNIPPET_CHARACTERS = 200
MAX_ENGINE_WORDS = 40  # of a query


class EngineSettings(NamedTuple):
    """The place and the layout of the documents in a running engine."""

    url: str  # of the server, with user and password where it needs them
    collection: str  # the index, collection, core or table
    key: str = ""  # for engines that have API keys
    columns: Mapping[str, str] = {}  # the engine's fields for `id`, `title`, `body`, `at`, `words` and `vector`
    fields: tuple[str, ...] = ()  # further fields that are read, filtered and counted
    language: str = "english"  # of the documents, for PostgreSQL
    embed: Embed | None = None  # returns vectors of texts, for engines with a `vector` column
    timeout_seconds: float = 2.0  # for an answer

    def column(self, part: str) -> str:
        """Return the engine's field for a part of a document; empty where it has none."""
        return self.columns.get(part, part if part in ("id", "title", "body") else "")

    def document(self, values: Mapping[str, Any], id: str = "") -> TextDocument:
        """Return the document of a row or JSON object of the engine; `id` is for one that has none of its own."""
        title, body = (_text(values.get(self.column(part))) for part in ("title", "body"))
        fields = {name: text for name in self.fields if (text := _text(values.get(name), VALUE_SEPARATOR))}
        at = seconds_of(values.get(self.column("at")))
        return TextDocument(id or _text(values.get(self.column("id"))), title, body, at, fields)


class EngineHit(NamedTuple):
    """A document that the engine found."""

    document: TextDocument
    score: float  # the engine's own, larger is better
    snippet: Snippet = Snippet("")  # with the engine's highlights
    similarity: float = 0.0  # cosine by an embedding


class EngineAnswer(NamedTuple):
    """The answer of an engine to a query: documents, best first, and counts of the values of each field."""

    hits: Sequence[EngineHit] = ()
    facets: Mapping[str, Mapping[str, int]] = {}


class EngineAdapter(Protocol):
    """Translates queries and answers of one kind of engine; errors of its client pass through."""

    def search(self, query: TextQuery, n: int) -> EngineAnswer:
        """Return the n best documents by the engine's own order."""

    def documents(self, ids: Sequence[str]) -> list[TextDocument]:
        """Return the documents of these ids that exist."""

    def count(self) -> int:
        """Return the number of documents."""

    def close(self) -> None:
        """Release connections."""


def plain_text(words: Iterable[str]) -> str:
    """Return words as one text, letters of scripts without spaces side by side."""
    text, was_letter = "", False
    for word in words:
        is_letter = is_unspaced(word)
        text += word if not text or (is_letter and was_letter) else f" {word}"
        was_letter = is_letter
    return text


def operator_text(query: TextQuery) -> str:
    """Return a query as words, "phrases" and -word, the signs that most engines read."""
    phrases = [f'"{plain_text(phrase)}"' for phrase in query.phrases]
    inside = {word for phrase in query.phrases for word in phrase}  # which need not be looked for by themselves
    words = plain_text(word for word in query.words[:MAX_ENGINE_WORDS] if word not in inside)
    return " ".join([*phrases, *([words] if words else []), *(f"-{word}" for word in query.excluded)])


def _text(value: Any, separator: str = "\n") -> str:
    if isinstance(value, list | tuple):
        return separator.join(_text(part) for part in value if part is not None)
    return "" if value is None else str(value)


def snippet_from(text: str) -> Snippet:
    """Return a piece of text whose highlighted words stand between the marks, without the marks."""
    first, *others = text.split(MARK_START)
    plain, highlights = first.replace(MARK_END, ""), list[tuple[int, int]]()
    for piece in others:
        marked, end, after = piece.partition(MARK_END)
        highlights += [(len(plain), len(plain) + len(marked))] if end else []
        plain += marked + after.replace(MARK_END, "")
    return Snippet(plain.replace("\n", " "), tuple(highlights))


def quoted(text: str) -> str:
    """Return a text in double quotes, with quotes and backslashes escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
