"""Stems of words by tantivy, each computed once, as texts and as numbers."""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.types import Ints
from rankloop.search.indexes.match_kernel import NUMBER

LANGUAGE_DATA = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
LANGUAGES = frozenset(LANGUAGE_DATA["stemmed"])
PLAIN_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"})
ACCENTED_LETTER = re.compile("([a-z])[\u0300-\u036f]+")
MAX_CACHED_WORDS = 300_000


def check_language(language: str) -> None:
    """Raise `InvalidInput` unless words of a language can be stemmed."""
    if language not in LANGUAGES:
        raise InvalidInput(f"there is no stemming for {language!r:.60}; there is for {', '.join(sorted(LANGUAGES))}")


def without_accents(word: str) -> str:
    """Return a word with Latin letters as plain ones; marks of other scripts stay."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word.translate(PLAIN_LETTERS))
    return unicodedata.normalize("NFC", ACCENTED_LETTER.sub(r"\1", decomposed))


class WordStems:
    """Stems of words by the rules of a language, without accents, each computed once.

    `on_new` is called with new words and their stems.
    """

    def __init__(self, language: str, on_new: Callable[[Iterable[tuple[str, str]]], None] = lambda stems: None) -> None:
        check_language(language)
        tantivy: Any = import_extra("tantivy")
        stemmer, unaccent = tantivy.Filter.stemmer(language), tantivy.Filter.ascii_fold()
        # English forms do not depend on accents, so that résumés and resume meet; elsewhere rules are about them.
        first, second = (unaccent, stemmer) if language == "english" else (stemmer, unaccent)
        analyzer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
        self._analyzer, self._on_new = analyzer.filter(first).filter(second).build(), on_new
        self._stems: dict[str, str] = {}

    def __call__(self, words: Sequence[str]) -> list[str]:
        """Return the stem of each word."""
        stems = self._stems
        try:
            return list(map(stems.__getitem__, words))
        except KeyError:
            if len(stems) > MAX_CACHED_WORDS:  # other threads go on with the old ones
                stems = self._stems = {}
        new_words = [word for word in dict.fromkeys(words) if word not in stems]
        computed: list[str] = self._analyzer.analyze(" ".join(new_words))
        if len(computed) != len(new_words):  # a word of which no letter is left stays as it is
            computed = [" ".join(self._analyzer.analyze(word)) or word for word in new_words]
        new_stems = dict(zip(new_words, computed))
        self._on_new(new_stems.items())
        stems.update(new_stems)
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
