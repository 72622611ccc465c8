"""The words of a collection: near ones for mistyped words, parts of compounds, and the language of a text."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np

from rankloop.core.types import Ints
from rankloop.search.indexes.stemmers import LANGUAGE_DATA, without_accents

MAX_VOCABULARY = 300_000  # words that are kept in memory
MIN_FUZZY_LENGTH, MIN_LENGTH_OF_TWO_EDITS = 4, 8
MAX_NEAR_WORDS = 3
MIN_PART_LENGTH, MIN_HEAD_LENGTH = 3, 4  # of a compound; its head is its last part
MAX_COMPARED_ENDINGS, MAX_COMPARED_WORDS = 200, 5_000  # while somebody types
MAX_COMPOUNDS = 20
LINKING_LETTERS, COMMON_WORDS = LANGUAGE_DATA["linking_letters"], LANGUAGE_DATA["common_words"]
COMPOUNDING_LANGUAGES = frozenset(LANGUAGE_DATA["compounding"])
DEFAULT_LANGUAGE = "english"
MAX_GUESSED_WORDS = 1_000  # of a text, by which its language is guessed
MIN_COMMON_SHARE = 0.06  # of words that are common words of the language
UMLAUTS = (("ae", "a"), ("oe", "o"), ("ue", "u"))
Frequency = Callable[[Sequence[str]], Sequence[float]]  # the number of documents of each of some words


def guess_language(words: Sequence[str]) -> str | None:
    """Return the language whose common words a text has most of; None where it has too few of any."""
    sample = Counter(words[:MAX_GUESSED_WORDS])
    counts = {language: sum(sample[word] for word in common.split()) for language, common in COMMON_WORDS.items()}
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] >= max(2, MIN_COMMON_SHARE * sample.total()) else None


class Vocabulary:
    """Different words of a collection, without accents; they come as they are written, in lower case."""

    def __init__(self, words: Iterable[str]) -> None:
        self._accented = dict[str, str]()  # spellings by word
        for word in words:
            self._accented[without_accents(word)] = word
        self.words = sorted(word for word in self._accented if 1 < len(word) <= 40)[:MAX_VOCABULARY]
        self._word_set = frozenset(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._word_set

    @cached_property
    def _lengths(self) -> Ints:
        return np.array([len(word) for word in self.words], np.int64)

    @cached_property
    def _letters(self) -> Ints:
        return np.array([_letter_set(word) for word in self.words], np.int64)

    @cached_property
    def _reversed(self) -> list[str]:
        return sorted(word[::-1] for word in self.words)

    def near_words(self, word: str, frequency: Frequency, max_edits: int = 2) -> list[str]:
        """Return words that differ by one letter, or two where the word is long, the likeliest first.

        A letter may be missing, added, wrong, or swapped with its neighbour. Words of no document are left out.
        """
        limit = min(_max_edits(word), max_edits)
        if not limit or not self.words or any(letter.isdigit() for letter in word):
            return []
        # Most words are passed over by their lengths and sets of letters, which are compared much faster than words.
        differing = np.bitwise_count(self._letters ^ _letter_set(word))
        at = np.flatnonzero((np.abs(self._lengths - len(word)) <= limit) & (differing <= 2 * limit))
        others = (self.words[i] for i in at.tolist() if self.words[i] != word)
        distances = {other: _edit_distance(word, other, limit) for other in others}
        best = min(distances.values(), default=limit + 1)
        if best > limit:
            return []
        nearest = [other for other, distance in distances.items() if distance == best]
        counts = dict(zip(nearest, frequency(nearest)))
        existing = [other for other in nearest if counts[other] > 0]
        return sorted(existing, key=lambda other: (other[0] != word[0], -counts[other], other))[:MAX_NEAR_WORDS]

    def endings_of(self, begun: str, frequency: Frequency, n: int) -> list[str]:
        """Return the most frequent words that begin with some letters, of which one may be wrong, as they are spelt."""
        start, end = bisect_left(self.words, begun), bisect_left(self.words, begun + "\U0010ffff")
        endings = self.words[start : min(end, start + MAX_COMPARED_ENDINGS)]
        if not endings and _max_edits(begun):
            start, end = bisect_left(self.words, begun[0]), bisect_left(self.words, begun[0] + "\U0010ffff")
            same_letter = self.words[start : min(end, start + MAX_COMPARED_WORDS)]
            lengths = [len(begun) + missing for missing in (-1, 0, 1)]
            endings = [word for word in same_letter if min(_edit_distance(begun, word[:n], 1) for n in lengths) <= 1]
        counts = dict(zip(endings, frequency(endings)))
        existing = [word for word in endings if counts[word] > 0]
        ranked = sorted(existing, key=lambda word: (-counts[word], len(word), word))
        return [self._accented[word] for word in ranked[:n]]

    def compounds_of(self, word: str) -> list[str]:
        """Return compounds whose head is this word, such as kasekuchen for kuchen."""
        if len(word) < MIN_HEAD_LENGTH:
            return []
        ending, compounds = word[::-1], list[str]()
        start = bisect_left(self._reversed, ending)
        for other in self._reversed[start : start + 10 * MAX_COMPOUNDS]:
            if not other.startswith(ending):
                break
            first = other[len(ending) :][::-1]
            if len(first) >= MIN_PART_LENGTH and (len(word) > MIN_HEAD_LENGTH or self._part(first)):
                compounds.append(other[::-1])
        return compounds[:MAX_COMPOUNDS]

    def parts_of(self, word: str) -> list[str]:
        """Return the two words of the collection that an unfamiliar compound is made of; none where it is not one."""
        for cut in range(len(word) - MIN_HEAD_LENGTH, MIN_PART_LENGTH - 1, -1):
            if word[cut:] in self._word_set and (part := self._part(word[:cut])):
                return [part, word[cut:]]
        return []

    def _part(self, first: str) -> str:
        """Return the first part of a compound without linking letters; empty where it is no word of the collection."""
        parts = (first.removesuffix(link) for link in LINKING_LETTERS)
        return next((part for part in parts if len(part) >= MIN_PART_LENGTH and part in self._word_set), "")

    def without_umlauts(self, word: str) -> list[str]:
        """Return words of the collection that `groesse` may stand for: grosse, as größe is kept without accents."""
        variants = {word}
        for written, plain in UMLAUTS:
            variants |= {variant.replace(written, plain) for variant in variants}
        return sorted(variant for variant in variants if variant != word and variant in self._word_set)


def _letter_set(word: str) -> int:
    """Return the letters of a word as bits, other characters sharing some of them."""
    bits = 0
    for letter in word:
        bits |= 1 << (ord(letter) % 48)
    return bits


def _max_edits(word: str) -> int:
    """Return the number of wrong letters that are forgiven in a word."""
    return 0 if len(word) < MIN_FUZZY_LENGTH else 1 if len(word) < MIN_LENGTH_OF_TWO_EDITS else 2


def _edit_distance(first: str, second: str, limit: int) -> int:
    """Return the number of edits between two words, or `limit` + 1 where there are more."""
    if abs(len(first) - len(second)) > limit:
        return limit + 1
    two_back, row = list[int](), list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        next_row = [i]
        for j, other in enumerate(second, 1):
            cost = min(row[j] + 1, next_row[j - 1] + 1, row[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, two_back[j - 2] + 1)
            next_row.append(cost)
        if min(next_row) > limit:
            return limit + 1
        two_back, row = row, next_row
    return min(row[-1], limit + 1)
