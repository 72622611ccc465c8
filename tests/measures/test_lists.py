"""Kernels against their plain NumPy twins: one ranking, many queries, partial selection, and the border."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.measures.cases import CLASSES, measures
from tests.measures.plain_measures import GRADES, twin

from rankloop.core.errors import InvalidInput
from rankloop.core.rankings import COUNTED as MANY
from rankloop.core.rankings import ranking_of
from rankloop.core.registry import entry_of
from rankloop.measures import parse_measure
from rankloop.measures.base import EVERYWHERE, RankedMeasure
from rankloop.measures.lists import FEW, descending, rankings_of

LISTS = st.lists(st.lists(st.tuples(st.integers(-3, 3), GRADES), max_size=14), min_size=1, max_size=5)


def same(a: float, b: float) -> bool:
    return a == pytest.approx(b, rel=1e-12, abs=1e-12, nan_ok=True)


@settings(max_examples=400, deadline=None)
@given(measures(), st.lists(GRADES, max_size=14), st.randoms(use_true_random=False))
def test_one_ranking(measure: RankedMeasure, grades: list[float], random: object) -> None:
    relevance = np.array(grades)
    ranking = np.array(random.sample(range(len(grades)), len(grades)), dtype=np.int64)  # type: ignore[attr-defined]
    assert same(measure(ranking, relevance), twin(measure, relevance[ranking]))


@settings(max_examples=400, deadline=None)
@given(measures(), LISTS)
def test_many_queries(measure: RankedMeasure, lists: list[list[tuple[int, float]]]) -> None:
    scores = np.array([score for query in lists for score, _ in query], dtype=float)
    relevance = np.array([grade for query in lists for _, grade in query], dtype=float)
    offsets = np.cumsum([0] + [len(query) for query in lists])
    values = measure.of_scores(scores, relevance, offsets)
    for value, start, end in zip(values, offsets, offsets[1:]):
        assert same(value, measure(ranking_of(scores[start:end]), relevance[start:end]))


@settings(max_examples=200, deadline=None)
@given(measures(), st.lists(GRADES, min_size=1, max_size=10), st.integers(0, 10))
def test_items_that_were_not_shown_exist_but_are_not_met(measure: RankedMeasure, grades: list[float], k: int) -> None:
    relevance, everything = np.array(grades), np.arange(len(grades))
    if k < len(grades) and not hasattr(measure, "cutoff"):
        with pytest.raises(InvalidInput, match=f"{type(measure).__name__}.*judges the order of all items"):
            measure.of_rankings(everything, relevance, [0, len(grades)], [k])
    else:
        value = measure.of_rankings(everything, relevance, [0, len(grades)], [k])[0]
        assert same(value, twin(measure, relevance, shown=k))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10), st.sampled_from([3, 40, 350, MANY + 60]), st.integers(1, FEW + 2), st.integers(2, 500))
def test_selecting_counting_and_sorting_agree(seed: int, n_items: int, cutoff: int, n_scores: int) -> None:
    scores = np.random.default_rng(seed).integers(0, n_scores, n_items).astype(float)
    expected = np.argsort(-scores, kind="stable")
    offsets = np.array([0, n_items])
    assert (rankings_of(scores, offsets, EVERYWHERE) == expected).all()
    selected = rankings_of(scores, offsets, cutoff)
    assert (selected[:cutoff] == expected[:cutoff]).all()
    assert sorted(selected) == list(range(n_items))


@settings(deadline=None)
@given(st.lists(GRADES | st.floats(0, 100), max_size=20))
def test_descending(grades: list[float]) -> None:
    assert descending(np.array(grades)).tolist() == sorted(grades, reverse=True)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: entry_of(cls).kind)
def test_no_ranking_beats_best(cls: type[RankedMeasure]) -> None:
    """Brute force over all rankings of five items; gains at most `best`, losses at least, and it is attained."""
    rng = np.random.default_rng(5)
    variants = [cls()] + [cls(cutoff=k) for k in (1, 3) if "cutoff" in cls.__dataclass_fields__]  # type: ignore[call-arg]
    for measure, _ in itertools.product(variants, range(6)):
        relevance = rng.choice([-1.0, 0.0, 1.0, 1.5, 2.0, 4.0], 5)
        values = [measure(np.array(p), relevance) for p in itertools.permutations(range(5))]
        best = max(values) if measure.higher_is_better else min(values)
        assert measure.best(relevance) == pytest.approx(best, rel=1e-12, abs=1e-12)
        assert measure.best(relevance.tolist()) == measure.best(relevance)


def test_which_way_is_better() -> None:
    losses = {entry_of(cls).kind for cls in CLASSES if not cls.higher_is_better}
    assert losses == {"SumLoss", "PairwiseLoss", "AUCLoss"}


@pytest.mark.parametrize(
    ("scores", "relevance", "offsets", "said"),
    [
        ([1, 2], [1], [0, 2], "scores and relevance must be equally long, got 2 and 1"),
        ([1, math.nan], [1, 0], [0, 2], "scores: nan at entry 1"),
        ([1, 2], [1, math.inf], [0, 2], "relevance: inf at entry 1"),
        ([1, 2], [1, 0], [0, 3], "end at the number of items, 2; entry 1 of 2 is 3"),
        ([1, 2], [1, 0], [1, 2], "entry 0 of 2 is 1"),
        ([1, 2], [1, 0], [0, 2, 1, 2], "entry 2 of 4 is 1"),
        ([1, 2], [1, 0], [0, 1], "entry 1 of 2 is 1"),
        ([1, 2], [1, 0], [], "got none"),
        ([1, 2], [1, 0], [0.0, 2.0], "offsets must be a list of item numbers"),
        ([[1, 2]], [1, 0], [0, 2], "scores must have 1 dimension"),
    ],
)
def test_the_border_of_many_queries(scores: object, relevance: object, offsets: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse_measure("AP").of_scores(scores, relevance, offsets)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ranking", "relevance", "said"),
    [
        ([0, 2], [1.0, 0.0], "must name every item once"),
        ([0, -1], [1.0, 0.0], "must name every item once"),
        ([1, 1], [1.0, 0.0], "must name every item once"),
        ([0], [1.0, 0.0], "ranking and relevance must be equally long, got 1 and 2"),
        ([0.0, 1.0], [1.0, 0.0], "ranking must be a list of item numbers"),
        ([[0, 1]], [[1.0, 0.0]], "ranking must be a list of item numbers"),
        ([0, 1], [1.0, math.nan], "relevance.*finite"),
        ([1, 0], [math.inf, 0.0], "relevance.*finite"),
        ([1, 0], [-math.inf, 0.0], "relevance.*finite"),
    ],
)
def test_the_border_of_one_ranking(ranking: list[int], relevance: list[float], said: str) -> None:
    for cls in CLASSES:
        with pytest.raises(InvalidInput, match=said):
            cls()(ranking, relevance)  # type: ignore[operator]
        with pytest.raises(InvalidInput, match=said):
            cls()(np.array(ranking), np.array(relevance))  # type: ignore[operator]
        if "finite" in said:
            with pytest.raises(InvalidInput, match=said):
                cls().best(np.array(relevance))


def test_a_grade_off_the_scale_is_refused() -> None:
    with pytest.raises(InvalidInput, match="max_grade"):
        parse_measure("ERR(max_grade=2)")(np.array([0, 1]), np.array([0.0, 3.0]))
    with pytest.raises(InvalidInput, match="too large for the exponential gain"):
        parse_measure("nDCG")(np.array([0, 1]), np.array([0.0, 3000.0]))


def test_shown_has_one_number_per_query() -> None:
    with pytest.raises(InvalidInput, match="one number for each of the 1 queries, got 2"):
        parse_measure("AP").of_rankings([0, 1], [0, 1], [0, 2], [1, 1])
