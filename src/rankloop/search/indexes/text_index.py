"""What an index of words has to do, and stems of words, as texts and as numbers, each computed once."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import xxhash

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints

UNWRITTEN = "is there space left on the device? What was indexed before is kept"
LANGUAGES = frozenset(
    {
        *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
        *("norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish"),
    }
)


class DamagedIndex(InvalidInput):
    """An index that cannot be opened, because it is broken or of another version: it has to be made again."""


class IndexQuery(NamedTuple):
    """What to look for, as stems: any of some runs of touching words, in documents that have all of the others."""

    any_of: tuple[tuple[str, ...], ...]
    all_of: tuple[tuple[str, ...], ...] = ()


class TextIndex(Protocol):
    """An inverted index of titles and bodies, by number; what is added and removed counts from `commit` on."""

    version: str

    @property
    def n_documents(self) -> int: ...

    def stemmed(self, words: list[str]) -> list[str]:
        """The stem of each word, as a document is found by it."""

    def add(self, number: int, title: list[str], body: list[str]) -> None:
        """Stems of a title and a body."""

    def remove(self, number: int) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...

    def search(self, query: IndexQuery, n: int) -> list[tuple[int, float]]:
        """Numbers and scores of the best n, ties by number."""

    def frequencies(self, stems: Sequence[str]) -> Floats:
        """In how many documents each of these stems is, by field; removed documents may still count."""


def check_language(language: str) -> None:
    if language not in LANGUAGES:
        raise InvalidInput(f"there is no stemming for {language!r:.60}; there is for {', '.join(sorted(LANGUAGES))}")


MAX_KNOWN = 300_000  # words that are kept
NUMBER = np.dtype("<u4")


class WordStems:
    """What an index stems, with a memory: most words of a text were in another one before.

    `on_new` is told of words that were not, with their stems.
    """

    def __init__(
        self,
        stemmed: Callable[[list[str]], list[str]],
        on_new: Callable[[Iterable[tuple[str, str]]], None] = lambda stems: None,
    ) -> None:
        self._stemmed, self._on_new = stemmed, on_new
        self._known: dict[str, str] = {}

    def __call__(self, words: Sequence[str]) -> list[str]:
        known = self._known
        try:
            return list(map(known.__getitem__, words))
        except KeyError:
            if len(known) > MAX_KNOWN:  # other threads go on with the old ones
                known = self._known = {}
        missing = [word for word in dict.fromkeys(words) if word not in known]
        new = dict(zip(missing, self._stemmed(missing)))
        self._on_new(new.items())
        known.update(new)
        return list(map(known.__getitem__, words))


class StemNumbers(dict[str, int]):
    """Stems as numbers of 32 bits, the same everywhere."""

    def __call__(self, stems: Sequence[str]) -> Ints:
        if len(self) > MAX_KNOWN:
            self.clear()
        return np.fromiter(map(self.__getitem__, stems), NUMBER, len(stems))

    def __missing__(self, stem: str) -> int:
        number = self[stem] = xxhash.xxh32_intdigest(stem.encode(errors="replace"))
        return number
