"""Match features of texts and a query, from their words as numbers: BM25 by field, phrases, nearness, coverage."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.search.engine import MATCHES

K1, B = 1.2, 0.75  # those of every engine
MAX_WORDS_BETWEEN = 8  # words that may stand between two that are near each other
TITLE, BODY = 0, 1
N_MATCHES = len(MATCHES)
BM25_TITLE = MATCHES.index("bm25_title")  # that of the body is the next
PHRASE, PROXIMITY = MATCHES.index("phrase"), MATCHES.index("proximity")
COVERAGE, COVERAGE_TITLE = MATCHES.index("coverage"), MATCHES.index("coverage_title")
EXACT_TITLE, AT = MATCHES.index("exact_title"), MATCHES.index("at")
TITLE_LENGTH = MATCHES.index("title_length")  # that of the body is the next
SIEVE_SIZE = 4096  # of the last bits of words, by which most are passed over
NUMBER = np.dtype("<u4")  # of a word


class PackedTexts(NamedTuple):
    """Words of documents as numbers, one field: document i owns those from starts[i] to starts[i + 1]."""

    words: Ints
    starts: Ints


def joined(parts: Sequence[bytes]) -> PackedTexts:
    """Return the packed words of several texts, side by side, in a writable array: kernels compile anew for others."""
    starts = np.cumsum([0, *(len(part) // NUMBER.itemsize for part in parts)], dtype=np.int64)
    return PackedTexts(np.frombuffer(bytearray().join(parts), NUMBER), starts)


class CorpusStatistics(NamedTuple):
    """Statistics of all documents for BM25."""

    n_documents: int
    mean_lengths: Floats  # (2,)
    frequencies: Floats  # (n_words, 2): documents that have the word in the field; at most n_documents


@kernel
def _idf(n_documents: float, frequency: float) -> float:
    """Return log(1 + (N − n + ½) / (n + ½)), as engines have it; above 0, as n is at most N."""
    return float(np.log(1.0 + (n_documents - frequency + 0.5) / (frequency + 0.5)))


@kernel
def _bm25(counts: Floats, idf: Floats, length: float, mean_length: float) -> float:
    """Return Σ idf · tf · (k₁ + 1) / (tf + k₁ · (1 − b + b · length / mean length)) over the words of a query."""
    total, spread = 0.0, K1 * (1.0 - B + B * length / max(mean_length, 1.0))
    for w in range(len(counts)):
        total += idf[w] * counts[w] * (K1 + 1.0) / (counts[w] + spread)
    return total


@kernel
def _read(words: Ints, start: int, end: int, query: Ints, sieve: Ints, counts: Floats, near: Floats) -> None:
    """Count the query's words in a text, and set how near (w, w + 1) come in that order, 1 if they touch."""
    last = np.full(len(query), -1, np.int64)  # where each word was last seen
    for at in range(start, end):
        if not sieve[words[at] % SIEVE_SIZE]:
            continue
        for w in range(len(query)):
            if words[at] == query[w]:
                counts[w] += 1.0
                if w > 0 and last[w - 1] >= 0 and at - last[w - 1] <= MAX_WORDS_BETWEEN + 1:
                    near[w - 1] = max(near[w - 1], 1.0 / (at - last[w - 1]))
                last[w] = at


@kernel
def matches(
    query: Ints, typed: Ints, corpus: CorpusStatistics, titles: PackedTexts, bodies: PackedTexts, dates: Floats
) -> Floats:
    """Return the match features: a row for each document, a column for each of MATCHES.

    Args:
      query: The telling words, each once.
      typed: All words as they were typed, by which titles are compared.
      corpus: Statistics of all documents.
      titles: Of the documents.
      bodies: Of the documents.
      dates: Of the documents, in seconds since 1970.
    """
    n, n_words = len(dates), len(query)
    n_pairs = max(n_words - 1, 0)
    features, idf, rare = np.zeros((n, N_MATCHES)), np.empty((n_words, 2)), np.empty(n_words)
    sieve, all_rare, all_pairs = np.zeros(SIEVE_SIZE, np.int64), 0.0, 0.0
    for w in range(n_words):
        sieve[query[w] % SIEVE_SIZE] = 1
        for field in range(2):
            idf[w, field] = _idf(corpus.n_documents, corpus.frequencies[w, field])
        rare[w] = _idf(corpus.n_documents, max(corpus.frequencies[w, 0], corpus.frequencies[w, 1]))
        all_rare += rare[w]
    for w in range(n_pairs):
        all_pairs += rare[w] + rare[w + 1]
    for i in range(n):
        near, counts = np.zeros(n_pairs), np.zeros((2, n_words))
        for field in range(2):
            text = titles if field == TITLE else bodies
            start, end = text.starts[i], text.starts[i + 1]
            _read(text.words, start, end, query, sieve, counts[field], near)
            length, mean_length = end - start, corpus.mean_lengths[field]
            features[i, BM25_TITLE + field] = _bm25(counts[field], idf[:, field], length, mean_length)
            features[i, TITLE_LENGTH + field] = length
        for w in range(n_pairs):
            share = (rare[w] + rare[w + 1]) / all_pairs
            features[i, PHRASE] += share * (near[w] == 1.0)
            features[i, PROXIMITY] += share * near[w]
        for w in range(n_words):
            features[i, COVERAGE] += rare[w] / all_rare * (counts[TITLE, w] + counts[BODY, w] > 0.0)
            features[i, COVERAGE_TITLE] += rare[w] / all_rare * (counts[TITLE, w] > 0.0)
        title = titles.words[titles.starts[i] : titles.starts[i + 1]]
        features[i, EXACT_TITLE] = len(title) > 0 and np.array_equal(title, typed)
        features[i, AT] = dates[i]
    return features
