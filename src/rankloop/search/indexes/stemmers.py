"""Stems of words, each computed once, as texts and as numbers: by tantivy for many languages, by SQLite for English."""

import re
import sqlite3
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import xxhash

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Ints
from rankloop.search.indexes.match_kernel import NUMBER

LANGUAGES = frozenset(
    {
        *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
        *("norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish"),
    }
)
PLAIN_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"})
ACCENTED_LETTER = re.compile("([a-z])[\u0300-\u036f]+")
STEMMER_TABLES = """
CREATE VIRTUAL TABLE words USING fts5(word, tokenize = 'porter ascii');
CREATE VIRTUAL TABLE stems USING fts5vocab(words, 'instance');
"""
MAX_CACHED_WORDS = 300_000


def check_language(language: str) -> None:
    """Raise `InvalidInput` unless words of a language can be stemmed."""
    if language not in LANGUAGES:
        raise InvalidInput(f"there is no stemming for {language!r:.60}; there is for {', '.join(sorted(LANGUAGES))}")


def without_accents(word: str) -> str:
    """Return a word with Latin letters as plain ones; marks of other scripts stay."""
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFD", word.translate(PLAIN_LETTERS))
    return unicodedata.normalize("NFC", ACCENTED_LETTER.sub(r"\1", apart))


class SqliteStemmer:
    """Stems by FTS5: English words by Porter's rules, others stay as they are; all lose accents."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._connection.executescript(STEMMER_TABLES)
        self._lock = threading.Lock()
        self.close = self._connection.close

    def stemmed(self, words: list[str], language: str) -> list[str]:
        """Return the stem of each word by the rules of a language."""
        plain = list(map(without_accents, words))
        if language != "english":
            return plain
        with self._lock:
            self._connection.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(plain))
            stems = dict(self._connection.execute("SELECT doc, term FROM stems").fetchall())
            self._connection.execute("DELETE FROM words")
        return [stems.get(i, word) for i, word in enumerate(plain)]


def tantivy_stems(words: list[str], language: str) -> list[str]:
    """Return the stem of each word by the rules of a language; all lose accents.

    Args:
      words: In lower case.
      language: One of `LANGUAGES`.
    """
    analyzer = _analyzer(language)
    stems: list[str] = analyzer.analyze(" ".join(words))
    if len(stems) != len(words):  # a word of which no letter is left stays as it is
        return [" ".join(analyzer.analyze(word)) or word for word in words]
    return stems


@cache
def _analyzer(language: str) -> Any:
    """English forms do not depend on accents, so that résumés and resume meet; elsewhere rules are about them."""
    import tantivy

    stemmer, plain = tantivy.Filter.stemmer(language), tantivy.Filter.ascii_fold()
    first, second = (plain, stemmer) if language == "english" else (stemmer, plain)
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(first).filter(second).build()


def is_tantivy_installed() -> bool:
    """Return True where the package tantivy can be imported."""
    return find_spec("tantivy") is not None


def stemmer_for(language: str) -> Callable[[list[str]], list[str]]:
    """Return the best stemmer of this machine for a language, without an index."""
    check_language(language)
    return partial(tantivy_stems if is_tantivy_installed() else SqliteStemmer().stemmed, language=language)


class WordStems:
    """Stems of words, each computed once; `on_new` is called with new words and their stems."""

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
