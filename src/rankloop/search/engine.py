"""What a search engine has to do to stand behind a search box: three calls, and the words in which they are asked."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

from rankloop.core.types import Floats

NO_FIELDS: Mapping[str, str] = MappingProxyType({})
MATCHES = (
    "bm25_title",
    "bm25_body",
    "phrase",  # pairs of neighbouring words of the query that are neighbours in the text, rare words counting more
    "proximity",  # the same with up to eight words between, by nearness
    "coverage",  # share of the query's words in the text, rare words counting more
    "coverage_title",
    "exact_title",  # 1 where the words of the title are those of the query
    "title_length",  # in words
    "body_length",
    "at",  # when the document was written, in seconds since 1970; 0 where it is not known
)


class TextDocument(NamedTuple):
    """A text that can be found. It is plain text: nothing in it is ever read as HTML."""

    id: str
    title: str
    body: str
    at: float = 0.0  # when it was written, in seconds since 1970; 0: not known
    fields: Mapping[str, str] = NO_FIELDS  # further values by name


class Candidate(NamedTuple):
    """A document that matches, with the score by which the engine itself sorts."""

    id: str
    score: float


class TextQuery(NamedTuple):
    """What somebody typed, as words: `read_text` makes it."""

    text: str
    words: tuple[str, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()  # in quotes: have to be in the text as they are
    prefix: bool = False  # the last word is only begun


class Snippet(NamedTuple):
    """A piece of a text in which words of the query stand, and where they do: (start, end) in characters."""

    text: str
    highlights: tuple[tuple[int, int], ...] = ()


@runtime_checkable
class SearchEngine(Protocol):
    """A full-text engine: the embedded ones of this package, or a server of one's own.

    `rankloop.search.engine_contract.check_engine` tries whether one keeps to it.
    """

    def candidates(self, query: TextQuery, n: int) -> list[Candidate]:
        """The n best documents by the engine's own score, best first; none where there is nothing to look for."""

    def features(self, query: TextQuery, ids: Sequence[str]) -> Floats:
        """How each document matches: a row per id, a column for each of MATCHES; 0 stands for what is not known."""

    def document(self, id: str) -> TextDocument | None:
        """The document of this id, None where there is none."""
