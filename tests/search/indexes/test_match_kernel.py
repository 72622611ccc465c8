"""How texts match a query, by hand and beside a second, slow reading of the definitions."""

from math import log
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.search.engine import MATCHES
from rankloop.search.indexes.match_kernel import CorpusStatistics, PackedTexts, matches

Text = list[int]


class Case(NamedTuple):
    """A query and documents of a corpus; words are small numbers."""

    query: Text
    whole: Text
    titles: list[Text]
    bodies: list[Text]
    n_documents: int
    means: tuple[float, float]
    frequencies: list[tuple[int, int]]


def computed(case: Case) -> list[dict[str, float]]:
    corpus = CorpusStatistics(case.n_documents, np.array(case.means), np.array(case.frequencies, float).reshape(-1, 2))
    texts = [packed(case.titles), packed(case.bodies)]
    numbers = [np.array(words, np.uint32) for words in (case.query, case.whole)]
    rows = matches(*numbers, corpus, *texts, np.arange(len(case.titles), dtype=float))
    return [dict(zip(MATCHES, row)) for row in rows.tolist()]


def packed(texts: list[Text]) -> PackedTexts:
    starts = np.cumsum([0, *map(len, texts)])
    return PackedTexts(np.array([word for text in texts for word in text], np.uint32), starts)


def oracle(case: Case, i: int) -> dict[str, float]:
    """One document, sum by sum as MATCHES says it."""
    both = case.titles[i], case.bodies[i]
    idf = [[log(1 + (case.n_documents - n + 0.5) / (n + 0.5)) for n in pair] for pair in case.frequencies]
    rare = [min(pair) for pair in idf]  # of the field in which more documents have the word
    pairs = [(w, w + 1) for w in range(len(case.query) - 1)]

    def bm25(field: int) -> float:
        norm = 1.2 * (0.25 + 0.75 * len(both[field]) / max(case.means[field], 1.0))
        counts = [both[field].count(word) for word in case.query]
        return sum(idf[w][field] * 2.2 * tf / (tf + norm) for w, tf in enumerate(counts))

    def nearness(first: int, second: int) -> float:
        gaps = [
            b - a
            for text in both
            for a, word in enumerate(text)
            if word == case.query[first]
            for b in range(a + 1, min(a + 10, len(text)))
            if text[b] == case.query[second]
        ]
        return 1 / min(gaps) if gaps else 0.0

    def share(of_pair: list[float]) -> float:
        weights = [rare[a] + rare[b] for a, b in pairs]
        return sum(w * x for w, x in zip(weights, of_pair)) / sum(weights) if pairs else 0.0

    def covered(texts: tuple[Text, ...]) -> float:
        there = [rare[w] for w, word in enumerate(case.query) if any(word in text for text in texts)]
        return sum(there) / sum(rare) if rare else 0.0

    near = [nearness(a, b) for a, b in pairs]
    return {
        "bm25_title": bm25(0),
        "bm25_body": bm25(1),
        "phrase": share([float(x == 1.0) for x in near]),
        "proximity": share(near),
        "coverage": covered(both),
        "coverage_title": covered(both[:1]),
        "exact_title": float(bool(both[0]) and both[0] == case.whole),
        "title_length": len(both[0]),
        "body_length": len(both[1]),
        "at": i,
        "latent": 0.0,
        "feedback": 0.0,
        "embedding": 0.0,
    }


def test_one_document_by_hand() -> None:
    """A query of words 1 and 2, in 1 and 3 bodies of 4; the title is 2, the body 1 0 2 2."""
    case = Case([1, 2], [2], [[2]], [[1, 0, 2, 2]], 4, (2.0, 8.0), [(0, 1), (1, 3)])
    (row,) = computed(case)
    one, two, two_in_titles = log(1 + 3.5 / 1.5), log(1 + 1.5 / 3.5), log(1 + 3.5 / 1.5)
    title_norm, body_norm = 1.2 * (0.25 + 0.75 * 1 / 2), 1.2 * (0.25 + 0.75 * 4 / 8)
    assert row == pytest.approx(
        {
            "bm25_title": two_in_titles * 2.2 / (1 + title_norm),
            "bm25_body": one * 2.2 / (1 + body_norm) + two * 2 * 2.2 / (2 + body_norm),
            "phrase": 0.0,
            "proximity": 1 / 2,
            "coverage": 1.0,
            "coverage_title": two / (one + two),
            "exact_title": 1.0,
            "title_length": 1.0,
            "body_length": 4.0,
            "at": 0.0,
            "latent": 0.0,
            "feedback": 0.0,
            "embedding": 0.0,
        }
    )


@pytest.mark.parametrize(("between", "nearness"), [(0, 1.0), (1, 1 / 2), (8, 1 / 9), (9, 0.0)])
def test_up_to_eight_words_may_stand_between(between: int, nearness: float) -> None:
    case = Case([1, 2], [1, 2], [[]], [[1, *[0] * between, 2]], 3, (1.0, 5.0), [(0, 1), (0, 1)])
    assert computed(case)[0]["proximity"] == pytest.approx(nearness)
    assert computed(case)[0]["phrase"] == float(between == 0)


words = st.integers(0, 6)
texts = st.lists(words, max_size=15)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    query = draw(st.lists(words, unique=True, max_size=5))
    n_texts, n_documents = draw(st.integers(1, 4)), draw(st.integers(1, 50))
    titles, bodies = ([draw(texts) for _ in range(n_texts)] for _ in range(2))
    count = st.integers(0, n_documents)
    means = draw(st.tuples(st.floats(0, 20), st.floats(0, 20)))
    return Case(query, draw(texts), titles, bodies, n_documents, means, [draw(st.tuples(count, count)) for _ in query])


@given(cases())
@settings(deadline=None, max_examples=300)
def test_the_kernel_is_the_definitions(case: Case) -> None:
    for i, row in enumerate(computed(case)):
        assert row == pytest.approx(oracle(case, i))
        assert all(0 <= row[name] <= 1 + 1e-12 for name in MATCHES[2:7])


def test_words_that_only_look_alike_in_the_sieve_do_not_count() -> None:
    case = Case([1], [1], [[1 + 4096]], [[1 + 2 * 4096, 1]], 2, (1.0, 2.0), [(0, 1)])
    (row,) = computed(case)
    assert row["coverage_title"] == row["bm25_title"] == 0.0
    assert row["bm25_body"] > 0.0
