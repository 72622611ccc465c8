"""How well texts match a query, from their words as numbers: BM25 by field, phrases, nearness, coverage."""

from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.search.engine import MATCHES

K1, B = 1.2, 0.75  # those of every engine
WINDOW = 8  # words that may stand between two that are near each other
TITLE, BODY = 0, 1


class Texts(NamedTuple):
    """Words of documents as numbers, one field: document i owns those from starts[i] to starts[i + 1]."""

    words: Ints
    starts: Ints


class Corpus(NamedTuple):
    """What BM25 has to know of all documents: how many, the mean length of each field, words of a query by field."""

    n_documents: int
    mean_lengths: Floats  # (2,)
    frequencies: Floats  # (n_words, 2): documents that have the word in the field


@kernel
def idf_of(n_documents: float, frequency: float) -> float:
    """log(1 + (N − n + ½) / (n + ½)), as engines have it."""
    return float(np.log(1.0 + max(n_documents - frequency + 0.5, 0.0) / (frequency + 0.5)))


@kernel
def _bm25(counts: Floats, idf: Floats, length: float, mean_length: float) -> float:
    total, spread = 0.0, K1 * (1.0 - B + B * length / max(mean_length, 1.0))
    for w in range(len(counts)):
        total += idf[w] * counts[w] * (K1 + 1.0) / (counts[w] + spread)
    return total


@kernel
def _pairs(words: Ints, start: int, end: int, query: Ints, idf: Floats, best: Floats) -> None:
    """For neighbours (w, w + 1) of the query: how near they come in the text, in that order; 1 where they touch."""
    last = np.full(len(query), -1, np.int64)  # where each word was last seen
    for at in range(start, end):
        for w in range(len(query)):
            if words[at] == query[w]:
                if w > 0 and last[w - 1] >= 0 and at - last[w - 1] <= WINDOW + 1:
                    best[w - 1] = max(best[w - 1], 1.0 / (at - last[w - 1]))
                last[w] = at


@kernel
def matches(query: Ints, whole: Ints, corpus: Corpus, titles: Texts, bodies: Texts, dates: Floats) -> Floats:
    """A row for each document, a column for each of MATCHES.

    `query` has the telling words, each once where it is counted; `whole` all words, by which titles are compared.
    """
    n, n_words = len(dates), len(query)
    found = np.zeros((n, 10))
    idf = np.empty((n_words, 2))
    rare = np.empty(n_words)
    for w in range(n_words):
        for field in range(2):
            idf[w, field] = idf_of(corpus.n_documents, corpus.frequencies[w, field])
        rare[w] = idf_of(corpus.n_documents, max(corpus.frequencies[w, 0], corpus.frequencies[w, 1]))
    n_pairs, all_rare, all_pairs = max(n_words - 1, 0), rare.sum(), 0.0
    for w in range(n_pairs):
        all_pairs += rare[w] + rare[w + 1]
    for i in range(n):
        near, covered = np.zeros(n_pairs), np.zeros((n_words, 2))
        for field in range(2):
            words, starts = (titles.words, titles.starts) if field == TITLE else (bodies.words, bodies.starts)
            for at in range(starts[i], starts[i + 1]):
                for w in range(n_words):
                    covered[w, field] += words[at] == query[w]
            length = float(starts[i + 1] - starts[i])
            found[i, field] = _bm25(covered[:, field], idf[:, field], length, corpus.mean_lengths[field])
            found[i, 7 + field] = length
            _pairs(words, starts[i], starts[i + 1], query, rare, near)
        for w in range(n_pairs):
            share = (rare[w] + rare[w + 1]) / all_pairs
            found[i, 2] += share * (near[w] == 1.0)
            found[i, 3] += share * near[w]
        for w in range(n_words):
            found[i, 4] += rare[w] / all_rare * (covered[w, TITLE] + covered[w, BODY] > 0.0)
            found[i, 5] += rare[w] / all_rare * (covered[w, TITLE] > 0.0)
        size = titles.starts[i + 1] - titles.starts[i]
        same = size == len(whole) and size > 0
        for w in range(len(whole) if same else 0):
            same = same and titles.words[titles.starts[i] + w] == whole[w]
        found[i, 6] = 1.0 if same else 0.0
        found[i, 9] = dates[i]
    return found


if len(MATCHES) != 10:
    raise AssertionError("the kernel and MATCHES do not fit")
