"""Scores per query and overall, of sessions and of arrays."""

import math

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.session import Session
from rankloop.core.types import Problem
from rankloop.data.dataset import Dataset
from rankloop.evaluation.ranking.score import Scores, score_rankings, score_session
from rankloop.measures import parse_measure
from rankloop.measures.formulas import NO_CUTOFF, rankings_of

RNG = np.random.default_rng(3)
N_QUERIES = 40
OFFSETS = np.concatenate(([0], np.cumsum(RNG.integers(1, 60, N_QUERIES))))
FEATURES = RNG.normal(size=(OFFSETS[-1], 3))
GRADES = RNG.choice([0.0, 1.0, 2.0], OFFSETS[-1], p=[0.8, 0.1, 0.1])
IDS = tuple(f"q{q}" for q in range(N_QUERIES))
NAMES = ["nDCG@10", "AP", "P@5", "AUC(empty='skip')"]


def score_scores(scores, relevance, offsets, ids, names) -> Scores:  # type: ignore[no-untyped-def]
    rankings = rankings_of(np.array(scores, float), np.array(offsets), NO_CUTOFF)
    return score_rankings(rankings, relevance, offsets, ids, names)


def test_a_session_is_judged_by_what_it_would_show() -> None:
    weights = [1.0, -2.0, 0.5]
    session = Session(build({"kind": "fixed_weights", "weights": weights}), Problem(n_features=3))
    seen: list[int] = []
    scores = score_session(
        session,
        Dataset(FEATURES, GRADES, OFFSETS, IDS),
        NAMES,
        watch=lambda queries: (seen.append(q) or q for q in queries),  # type: ignore[func-returns-value]
    )
    expected = score_scores(FEATURES @ np.array(weights), GRADES, OFFSETS, IDS, NAMES)
    assert seen == list(range(N_QUERIES))
    assert scores.measures == expected.measures == tuple(NAMES)
    assert scores.values == pytest.approx(expected.values, nan_ok=True)


def test_many_measures_at_once_are_each_measure_alone() -> None:
    numbers = RNG.integers(0, 9, OFFSETS[-1]).astype(float)
    for names in (NAMES, ["nDCG@3", "P@2"]):
        scores = score_scores(numbers, GRADES, OFFSETS, IDS, names)
        for column, name in enumerate(names):
            alone = parse_measure(name).of_scores(numbers, GRADES, OFFSETS)
            assert scores.values[:, column] == pytest.approx(alone, nan_ok=True)


def test_means_are_over_the_queries_that_count() -> None:
    scores = score_scores([2, 1, 2, 1], [0, 1, 0, 0], [0, 2, 4], ["a", "b"], ["RR", "RR(empty='skip')"])
    assert scores.overall == {"RR": 1 / 4, "RR(empty='skip')": 1 / 2}
    assert scores.counted == {"RR": 2, "RR(empty='skip')": 1}
    assert scores.of_query("a") == {"RR": 1 / 2, "RR(empty='skip')": 1 / 2}
    assert math.isnan(scores.of_query("b")["RR(empty='skip')"])


def test_a_measure_named_twice_is_one() -> None:
    assert score_rankings([0], [1], [0, 1], ["q"], ["AP", "AP(empty='zero')"]).measures == ("AP",)


def test_what_cannot_be_scored() -> None:
    with pytest.raises(InvalidInput, match="at least one measure"):
        score_rankings([0], [1], [0, 1], ["q"], [])
    with pytest.raises(InvalidInput, match="2 query ids for 1 queries"):
        score_rankings([0], [1], [0, 1], ["q", "r"], ["AP"])
    session = Session(build("random_order"), Problem(n_features=0))
    with pytest.raises(InvalidInput, match="no query"):
        score_session(session, Dataset(np.empty((0, 0)), np.empty(0), np.array([0]), ()), ["AP"])
