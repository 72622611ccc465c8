"""Words of a query as the index has them: stems, what else they may stand for, and corrections of mistyped words."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rankloop.search.engine import TextQuery
from rankloop.search.indexes import vocabulary
from rankloop.search.indexes.document_table import DocumentTable
from rankloop.search.indexes.stemmers import WordStems, without_accents
from rankloop.search.indexes.text_index import TextIndex
from rankloop.search.texts import is_unspaced

MAX_SEARCHED_WORDS = 40  # the rarest of a long query
MAX_COMPLETIONS = 50  # words that a beginning may stand for
RARE_SHARE = 1.0 / 2_000  # of the documents: a word in no more of them may be mistyped
SMALL_RARE_SHARE, MAX_SMALL_RARE_DOCUMENTS = 1.0 / 400, 5.0  # of a small collection
MIN_CORRECTION_RATIO = 10.0  # a correction of a word that exists stands in so many times its documents
FREQUENT_SHARE, MIN_DOCUMENTS_OF_FREQUENT = 0.2, 5_000  # words of so many documents are not looked for in bodies


class QueryTerms(NamedTuple):
    """The words of a query for the index."""

    words: tuple[str, ...]  # those that are looked for, as typed, each once
    stems: tuple[str, ...]  # one for each word
    alternatives: Mapping[str, tuple[str, ...]]  # by stem: further stems that count as it, such as corrections
    frequencies: tuple[float, ...]  # the number of documents of each stem, the larger one of title and body
    corrections: Mapping[str, str]  # for each mistyped word the one that is likely meant
    foreign: Mapping[str, float]  # weights of alternatives by the rules of less frequent languages
    only_frequent: bool  # every word is in very many documents

    def rarest(self, n: int) -> list[str]:
        """Return the n stems that are in the fewest documents, in the order of the query."""
        return [self.stems[i] for i in sorted(np.argsort(self.frequencies, kind="stable")[:n].tolist())]


class TermReader:
    """Turns queries into terms of one state of an index; the most frequent language of its documents is the first."""

    def __init__(
        self, index: TextIndex, table: DocumentTable, stems_by_language: Mapping[str, WordStems], n_documents: int
    ) -> None:
        self._index, self._table, self._n_documents = index, table, n_documents
        self._stemmers = list(stems_by_language.values())
        self._is_compounding = not vocabulary.COMPOUNDING_LANGUAGES.isdisjoint(stems_by_language)
        small = min(SMALL_RARE_SHARE * n_documents, MAX_SMALL_RARE_DOCUMENTS)
        self._rare_documents = max(1.0, small, RARE_SHARE * n_documents)

    @cached_property
    def _vocabulary(self) -> vocabulary.Vocabulary:
        """The words of the collection, which are read only for words that are rare."""
        return vocabulary.Vocabulary(self._table.words(vocabulary.MAX_VOCABULARY))

    def read(self, query: TextQuery) -> QueryTerms:
        """Return the terms of a query; of a long one those of its rarest words."""
        by_stem = dict[str, str]()
        for word, stem in zip(query.words, self._stemmers[0](query.words)):
            by_stem.setdefault(stem, word)
        frequencies = dict(zip(by_stem, self._frequencies(list(by_stem))))
        kept = sorted(by_stem, key=lambda stem: frequencies[stem] or np.inf)[:MAX_SEARCHED_WORDS]
        stems = [stem for stem in by_stem if stem in set(kept)]
        last = self._stemmers[0](query.words[-1:])[-1] if query.prefix and query.words else ""
        alternatives, corrections, counts = dict[str, tuple[str, ...]](), dict[str, str](), list[float]()
        weights = dict[str, float]()
        for stem in stems:
            word = by_stem[stem]
            completions = self._table.stems_from(word, MAX_COMPLETIONS) if stem == last else ()
            variants, foreign = self._variant_stems(word), self._all_stems(word)[1:]
            others = dict.fromkeys([*completions, *variants, *foreign])
            others.pop(stem, None)
            # The rules of another language cut a mistyped word to one that exists, which does not make it right.
            is_word = bool(foreign) and (frequencies[stem] > 0.0 or without_accents(word) in self._vocabulary)
            reached = max(
                [frequencies[stem], *self._frequencies(list(others) if is_word else [*completions, *variants])]
            )
            if len(query.words) <= MAX_SEARCHED_WORDS and reached <= self._rare_documents:
                for near in self._near_words(word, reached):
                    corrections.setdefault(word, near)
                    others |= dict.fromkeys(self._all_stems(near))
            others.pop(stem, None)
            if others:
                alternatives[stem] = tuple(others)
            counts.append(max([frequencies[stem], *self._frequencies(list(others))]))
            for other in set(foreign) - {stem}:  # It is not as rare as the few documents of its language suggest.
                weights[other] = self._rarity(counts[-1]) / self._rarity(*self._frequencies([other]))
        is_large = self._n_documents >= MIN_DOCUMENTS_OF_FREQUENT
        only_frequent = is_large and bool(stems) and min(counts) > FREQUENT_SHARE * self._n_documents
        words = tuple(by_stem[stem] for stem in stems)
        return QueryTerms(words, tuple(stems), alternatives, tuple(counts), corrections, weights, only_frequent)

    def endings_of(self, begun: str, n: int) -> list[str]:
        """Return the n most frequent words that begin with some letters."""
        return self._vocabulary.endings_of(without_accents(begun), self._word_frequencies, n)

    def _variant_stems(self, word: str) -> list[str]:
        """Return stems of spellings with umlauts, and of compounds whose head the word is."""
        plain, variants = without_accents(word), list[str]()
        if any(pair in plain for pair in ("ae", "oe", "ue")):
            variants += self._vocabulary.without_umlauts(plain)
        if self._is_compounding:
            for head in [plain, *variants]:
                variants += self._vocabulary.compounds_of(head)
        return [stem for variant in dict.fromkeys(variants) for stem in self._all_stems(variant)]

    def _near_words(self, word: str, frequency: float) -> list[str]:
        """Return likely corrections of a rare word, or the parts of a compound that the collection does not have."""
        if is_unspaced(word):
            return []
        plain = without_accents(word)
        if frequency:  # Only a long word that exists may be a mistyped one, and by one letter inside it.
            if len(plain) < vocabulary.MIN_LENGTH_OF_TWO_EDITS:
                return []
            near = self._vocabulary.near_words(plain, self._word_frequencies, max_edits=1)
            counts = dict(zip(near, self._word_frequencies(near)))
            least = MIN_CORRECTION_RATIO * frequency
            return [other for other in near if other[0] == plain[0] and counts[other] >= least]
        near = self._vocabulary.near_words(plain, self._word_frequencies)
        is_split = plain not in self._vocabulary and self._is_compounding
        return near or (self._vocabulary.parts_of(plain)[::-1] if is_split else [])

    def _all_stems(self, word: str) -> list[str]:
        return [stem for stems_of in self._stemmers for stem in stems_of([word])]

    def _rarity(self, frequency: float) -> float:
        """Return BM25's weight of a stem in so many documents."""
        frequency = min(frequency, self._n_documents)
        return float(np.log1p((self._n_documents - frequency + 0.5) / (frequency + 0.5)))

    def _frequencies(self, stems: Sequence[str]) -> list[float]:
        return list(map(float, self._index.frequencies(stems).max(axis=1)))

    def _word_frequencies(self, words: Sequence[str]) -> list[float]:
        return [max(self._frequencies(self._all_stems(word)), default=0.0) for word in words]
