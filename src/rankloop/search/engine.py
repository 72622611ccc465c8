"""The protocol of a search engine behind the search box, and the types in which it is asked and answers."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.features.kinds import moment_of

NO_FIELDS: Mapping[str, str] = MappingProxyType({})
VALUE_SEPARATOR = "\x1f"  # between several values of one field
MAX_FACET_VALUES = 20  # of a field that are counted, the most frequent ones
MAX_SECONDS = 1e11  # larger numbers are dates in milliseconds
MATCHES = (
    "bm25_title",
    "bm25_body",
    "phrase",  # pairs of neighbouring words of the query that are neighbours in the text, rare words counting more
    "proximity",  # likewise, with up to eight words between them, by nearness
    "coverage",  # share of the query's words in the text, rare words counting more
    "coverage_title",
    "exact_title",  # 1 where the words of the title are those of the query
    "title_length",  # in words
    "body_length",
    "at",  # the date of the document in seconds since 1970; 0 where it is unknown
    "latent",  # cosine of query and document in the latent space, at least 0
    "feedback",  # likewise, with the query moved towards its best documents
    "embedding",  # cosine by an embedding, where there is one
)


class TextDocument(NamedTuple):
    """A text that can be found. It is plain text: nothing in it is ever read as HTML."""

    id: str
    title: str
    body: str
    at: float = 0.0  # its date in seconds since 1970; 0: unknown
    fields: Mapping[str, str] = NO_FIELDS  # further values by name; VALUE_SEPARATOR stands between several of one name


class Candidate(NamedTuple):
    """A document that matches, with the score by which the engine itself sorts."""

    id: str
    score: float


class QueryFilter(NamedTuple):
    """A condition on documents: `field:value`, or a range of dates with the field `at`."""

    field: str
    value: str = ""
    start: float = 0.0  # of a date, in seconds since 1970
    end: float = 0.0  # 0: no end


class TextQuery(NamedTuple):
    """A query as words; `read_text` makes it from what a visitor typed."""

    text: str
    words: tuple[str, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()  # in quotes: a document must have them
    prefix: bool = False  # the last word is only begun
    excluded: tuple[str, ...] = ()  # `-word`: no document may have them
    filters: tuple[QueryFilter, ...] = ()


class Snippet(NamedTuple):
    """A piece of a text in which words of the query stand, with their places: (start, end) in characters."""

    text: str
    highlights: tuple[tuple[int, int], ...] = ()


@runtime_checkable
class SearchEngine(Protocol):
    """A full-text engine: the embedded one of this package, or a server.

    An engine may have more: `documents(query, ids)`, `snippets(query, ids)`, `facets(query)`, `age_seconds(query)`,
    `field_names`, `n_documents` and `close()` are used where they exist. `tests/search/engine_contract.py` of the
    repository checks that an implementation keeps to the protocol.
    """

    def candidates(self, query: TextQuery, n: int) -> list[Candidate]:
        """Return the n best documents by the engine's own score, best first; none for an empty query."""

    def features(self, query: TextQuery, ids: Sequence[str]) -> Floats:
        """Return a row per id with a column for each of MATCHES; 0 stands for what the engine does not know."""

    def document(self, id: str) -> TextDocument | None:
        """Return the document of this id, None where there is none."""


def documents_of(engine: SearchEngine, query: TextQuery, ids: Sequence[str]) -> dict[str, TextDocument]:
    """Return documents by id, in one call where the engine has one; those that are gone are left out.

    Args:
      engine: Has the documents.
      query: The query that found them.
      ids: Of the documents.
    """
    in_one_call = getattr(engine, "documents", None)
    if in_one_call is not None:
        return dict(in_one_call(query, ids))
    return {id: document for id in ids if (document := engine.document(id)) is not None}


def values_of(value: str) -> list[str]:
    """Return the values of a field that may have several."""
    return [part for part in value.split(VALUE_SEPARATOR) if part]


def seconds_of(value: Any) -> float:
    """Return a date as seconds since 1970: a date, a number of seconds or milliseconds, or ISO 8601; else 0."""
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    if isinstance(value, int | float) and value > MAX_SECONDS:
        value /= 1000.0
    try:
        return moment_of(value)
    except InvalidInput:
        return 0.0
