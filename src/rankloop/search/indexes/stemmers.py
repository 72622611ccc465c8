"""Stems of words: by tantivy for many languages, by SQLite for English; each index stems as its words were stemmed."""

import re
import sqlite3
import threading
import unicodedata
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from rankloop.search.indexes.text_index import check_language

PLAIN_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"})
ACCENTED_LETTER = re.compile("([a-z])[\u0300-\u036f]+")
STEMMER_TABLES = """
CREATE VIRTUAL TABLE words USING fts5(word, tokenize = 'porter ascii');
CREATE VIRTUAL TABLE stems USING fts5vocab(words, 'instance');
"""


class SqliteStemmer:
    """Stems by FTS5: English words by Porter's rules, others stay as they are; all lose accents."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._connection.executescript(STEMMER_TABLES)
        self._lock = threading.Lock()

    def stemmed(self, words: list[str], language: str) -> list[str]:
        """Return the stem of each word by the rules of a language."""
        check_language(language)
        plain = [word if word.isascii() else without_accents(word) for word in words]
        if language != "english":
            return plain
        with self._lock:
            self._connection.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(plain))
            stems = dict(self._connection.execute("SELECT doc, term FROM stems").fetchall())
            self._connection.execute("DELETE FROM words")
        return [stems.get(i, word) for i, word in enumerate(plain)]

    def close(self) -> None:
        """Release the connection."""
        self._connection.close()


class TantivyStemmer:
    """Stems by the rules of their language; all lose accents."""

    def __init__(self) -> None:
        self._analyzers: dict[str, Any] = {}

    def stemmed(self, words: list[str], language: str) -> list[str]:
        """Return the stem of each word by the rules of a language."""
        analyzer = self._analyzers.get(language)
        if analyzer is None:
            check_language(language)
            analyzer = self._analyzers[language] = _analyzer(language)
        stems: list[str] = analyzer.analyze(" ".join(words))
        if len(stems) != len(words):  # a word of which no letter is left stays as it is
            return [" ".join(analyzer.analyze(word)) or word for word in words]
        return stems


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
    stemmer = TantivyStemmer() if is_tantivy_installed() else SqliteStemmer()
    return partial(stemmer.stemmed, language=language)


def without_accents(word: str) -> str:
    """Return a word with Latin letters as plain ones; marks of other scripts stay."""
    apart = unicodedata.normalize("NFD", word.translate(PLAIN_LETTERS))
    return unicodedata.normalize("NFC", ACCENTED_LETTER.sub(r"\1", apart))
