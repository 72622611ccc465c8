"""What the local engine asks of an index: words in, numbers of documents out."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats

NO_SPACE = "there is no space left on the device; what was indexed before is kept"
UNWRITTEN = "is there space left on the device? What was indexed before is kept"
LANGUAGES = frozenset(
    {
        *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
        *("norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish"),
    }
)


class Damaged(InvalidInput):
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
