"""The protocol of an index of words, and stems of words, as texts and as numbers, each computed once."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import xxhash

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints

WRITE_FAILURE_HINT = "is there space left on the device? What was indexed before is kept"
LANGUAGES = frozenset(
    {
        *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
        *("norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish"),
    }
)


class DamagedIndex(InvalidInput):
    """An index that cannot be opened, because it is broken or of another version: it has to be made again."""


class IndexQuery(NamedTuple):
    """A query as stems. A run is a tuple of words that touch each other.

    Attributes:
      any_of: Runs of which a document needs one; where there are none, facets alone decide.
      all_of: Runs that a document must have.
      none_of: Runs that it must not have.
      facets: Groups of facet tokens; a document needs one token of each group.
      title_only: Look into titles only.
    """

    any_of: tuple[tuple[str, ...], ...]
    all_of: tuple[tuple[str, ...], ...] = ()
    none_of: tuple[tuple[str, ...], ...] = ()
    facets: tuple[tuple[str, ...], ...] = ()
    title_only: bool = False

    @property
    def is_empty(self) -> bool:
        """Return True where there is nothing to look for."""
        return not self.any_of and not self.facets


class TextIndex(Protocol):
    """An inverted index of titles and bodies, by number; what is added and removed counts from `commit` on."""

    version: str

    @property
    def n_documents(self) -> int:
        """Return the number of documents."""

    def stemmed(self, words: list[str], language: str) -> list[str]:
        """Return the stem of each word by the rules of a language, as a document is found by it."""

    def add(self, number: int, title: list[str], body: list[str], facets: Sequence[str] = ()) -> None:
        """Add the stems of a title and a body, and tokens by which a document can be filtered."""

    def remove(self, number: int) -> None:
        """Remove a document."""

    def commit(self) -> None:
        """Make what was added and removed count."""

    def rollback(self) -> None:
        """Discard what was added and removed since the last commit."""

    def close(self) -> None:
        """Release the files of the index."""

    def search(self, query: IndexQuery, n: int) -> list[tuple[int, float]]:
        """Return numbers and scores of the best n, ties by number."""

    def frequencies(self, stems: Sequence[str]) -> Floats:
        """Return the number of documents of each stem, by field; removed documents may still count."""


def check_language(language: str) -> None:
    """Raise `InvalidInput` unless words of a language can be stemmed."""
    if language not in LANGUAGES:
        raise InvalidInput(f"there is no stemming for {language!r:.60}; there is for {', '.join(sorted(LANGUAGES))}")


MAX_CACHED_WORDS = 300_000
NUMBER = np.dtype("<u4")


class WordStems:
    """Stems of words, each computed once.

    Args:
      stemmed: Returns the stems of some words.
      on_new: Called with words that were stemmed for the first time, and their stems.
    """

    def __init__(
        self,
        stemmed: Callable[[list[str]], list[str]],
        on_new: Callable[[Iterable[tuple[str, str]]], None] = lambda stems: None,
    ) -> None:
        self._stemmed, self._on_new = stemmed, on_new
        self._stems: dict[str, str] = {}

    def __call__(self, words: Sequence[str]) -> list[str]:
        """Return the stem of each word."""
        stems = self._stems
        try:
            return list(map(stems.__getitem__, words))
        except KeyError:
            if len(stems) > MAX_CACHED_WORDS:  # other threads go on with the old ones
                stems = self._stems = {}
        missing = [word for word in dict.fromkeys(words) if word not in stems]
        new = dict(zip(missing, self._stemmed(missing)))
        self._on_new(new.items())
        stems.update(new)
        return list(map(stems.__getitem__, words))


class StemNumbers(dict[str, int]):
    """Stems as numbers of 32 bits, equal on every machine."""

    def __call__(self, stems: Sequence[str]) -> Ints:
        """Return the number of each stem."""
        if len(self) > MAX_CACHED_WORDS:
            self.clear()
        return np.fromiter(map(self.__getitem__, stems), NUMBER, len(stems))

    def __missing__(self, stem: str) -> int:
        number = self[stem] = xxhash.xxh32_intdigest(stem.encode(errors="replace"))
        return number
