"""How well texts match a query, from their words as numbers: BM25 by field, phrases, nearness, coverage."""

from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.search.engine import MATCHES

K1, B = 1.2, 0.75  # those of every engine
WINDOW = 8  # words that may stand between two that are near each other
TITLE, BODY = 0, 1
N_MATCHES = len(MATCHES)
BM25_TITLE = MATCHES.index("bm25_title")  # that of the body is the next
PHRASE, PROXIMITY = MATCHES.index("phrase"), MATCHES.index("proximity")
COVERAGE, COVERAGE_TITLE = MATCHES.index("coverage"), MATCHES.index("coverage_title")
EXACT_TITLE, AT = MATCHES.index("exact_title"), MATCHES.index("at")
TITLE_LENGTH = MATCHES.index("title_length")  # that of the body is the next
SIEVE = 4096  # of the last bits of words, by which most are passed over


class PackedTexts(NamedTuple):
    """Words of documents as numbers, one field: document i owns those from starts[i] to starts[i + 1]."""

    words: Ints
    starts: Ints


class CorpusStatistics(NamedTuple):
    """What BM25 has to know of all documents: how many, the mean length of each field, words of a query by field."""

    n_documents: int
    mean_lengths: Floats  # (2,)
    frequencies: Floats  # (n_words, 2): documents that have the word in the field; at most n_documents


@kernel
def idf_of(n_documents: float, frequency: float) -> float:
    """log(1 + (N − n + ½) / (n + ½)), as engines have it; above 0, as n is at most N."""
    return float(np.log(1.0 + (n_documents - frequency + 0.5) / (frequency + 0.5)))


@kernel
def bm25(counts: Floats, idf: Floats, length: float, mean_length: float) -> float:
    """Σ idf · tf · (k₁ + 1) / (tf + k₁ · (1 − b + b · length / mean length)) over the words of a query."""
    total, spread = 0.0, K1 * (1.0 - B + B * length / max(mean_length, 1.0))
    for w in range(len(counts)):
        total += idf[w] * counts[w] * (K1 + 1.0) / (counts[w] + spread)
    return total


@kernel
def _read(words: Ints, start: int, end: int, query: Ints, sieve: Ints, counts: Floats, near: Floats) -> None:
    """Counts of the query's words in a text; and how near (w, w + 1) come in that order, 1 if they touch."""
    last = np.full(len(query), -1, np.int64)  # where each word was last seen
    for at in range(start, end):
        if not sieve[words[at] % SIEVE]:
            continue
        for w in range(len(query)):
            if words[at] == query[w]:
                counts[w] += 1.0
                if w > 0 and last[w - 1] >= 0 and at - last[w - 1] <= WINDOW + 1:
                    near[w - 1] = max(near[w - 1], 1.0 / (at - last[w - 1]))
                last[w] = at


@kernel
def _is_title(titles: PackedTexts, i: int, whole: Ints) -> bool:
    start, size = titles.starts[i], titles.starts[i + 1] - titles.starts[i]
    if size != len(whole) or size == 0:
        return False
    for w in range(size):
        if titles.words[start + w] != whole[w]:
            return False
    return True


@kernel
def matches(
    query: Ints, whole: Ints, corpus: CorpusStatistics, titles: PackedTexts, bodies: PackedTexts, dates: Floats
) -> Floats:
    """A row for each document, a column for each of MATCHES.

    `query` has the telling words, each once; `whole` all words as they were typed, by which titles are compared.
    """
    n, n_words = len(dates), len(query)
    n_pairs = max(n_words - 1, 0)
    found, idf, rare = np.zeros((n, N_MATCHES)), np.empty((n_words, 2)), np.empty(n_words)
    sieve, all_rare, all_pairs = np.zeros(SIEVE, np.int64), 0.0, 0.0
    for w in range(n_words):
        sieve[query[w] % SIEVE] = 1
        for field in range(2):
            idf[w, field] = idf_of(corpus.n_documents, corpus.frequencies[w, field])
        rare[w] = idf_of(corpus.n_documents, max(corpus.frequencies[w, 0], corpus.frequencies[w, 1]))
        all_rare += rare[w]
    for w in range(n_pairs):
        all_pairs += rare[w] + rare[w + 1]
    for i in range(n):
        near, counts = np.zeros(n_pairs), np.zeros((2, n_words))
        for field in range(2):
            text = titles if field == TITLE else bodies
            start, end = text.starts[i], text.starts[i + 1]
            _read(text.words, start, end, query, sieve, counts[field], near)
            found[i, BM25_TITLE + field] = bm25(counts[field], idf[:, field], end - start, corpus.mean_lengths[field])
            found[i, TITLE_LENGTH + field] = end - start
        for w in range(n_pairs):
            share = (rare[w] + rare[w + 1]) / all_pairs
            found[i, PHRASE] += share * (near[w] == 1.0)
            found[i, PROXIMITY] += share * near[w]
        for w in range(n_words):
            found[i, COVERAGE] += rare[w] / all_rare * (counts[TITLE, w] + counts[BODY, w] > 0.0)
            found[i, COVERAGE_TITLE] += rare[w] / all_rare * (counts[TITLE, w] > 0.0)
        found[i, EXACT_TITLE] = _is_title(titles, i, whole)
        found[i, AT] = dates[i]
    return found
