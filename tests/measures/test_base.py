"""Measures against their plain NumPy twins, by rankings and by scores; their border; their names parse back."""

import itertools
import math
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.kernels import ranking_of
from rankloop.core.protocols import Measure
from rankloop.core.registry import build, entry_of, register, spec_of
from rankloop.core.types import Floats, Ints
from rankloop.evaluation.ranking.score import measures_of
from rankloop.measures import parse_measure
from rankloop.measures.base import RankedMeasure
from rankloop.measures.kinds import NDCG
from tests.measures.cases import CLASSES, measures
from tests.measures.plain_measures import GRADES, twin
from tests.registry_entries import unregister

KINDS = {"AP", "AUC", "AUCLoss", "DCG", "ERR", "ERU", "NERU", "P", "PairwiseLoss", "RR", "Recall", "SumLoss", "nDCG"}


def test_the_registered_kinds() -> None:
    assert {entry_of(cls).kind for cls in CLASSES} == KINDS


@settings(deadline=None)
@given(measures())
def test_a_name_and_a_spec_give_the_measure_back(measure: RankedMeasure) -> None:
    assert parse_measure(str(measure)) == measure
    assert build(spec_of(measure)) == measure
    assert isinstance(measure, Measure)


@pytest.mark.parametrize(
    "name",
    ["nDCG", "nDCG@10", "nDCG(gain='linear')@10", "AP(empty='skip', relevant_from=2.0)", "ERR(max_grade=2)@5", "P@1"],
)
def test_a_name_is_written_as_it_was_read(name: str) -> None:
    assert str(parse_measure(name)) == name


def test_a_measure_of_your_own_has_a_name_that_parses_back() -> None:
    @register("Share")
    class Share:
        cutoff: int | None = None
        of: float = 1.0
        higher_is_better: ClassVar[bool] = True

        def __call__(self, ranking: Ints, relevance: Floats) -> float:
            return self.of * float(relevance[ranking][: self.cutoff].mean())

        def of_scores(self, scores: Floats, relevance: Floats, offsets: Ints) -> Floats:
            raise NotImplementedError

        def best(self, relevance: Floats) -> float:
            return self(ranking_of(relevance), relevance)

    try:
        for name in ("Share", "Share@2", "Share(of=0.5)@2"):
            assert str(parse_measure(name)) == name
        with pytest.raises(InvalidInput, match=r"Share@2 cannot score a file: give it the method of_rankings"):
            measures_of(["Share@2"])
    finally:
        unregister("Share", "measure")


def test_defaults_are_not_written() -> None:
    assert str(NDCG(gain="exponential", empty="zero", cutoff=None)) == "nDCG"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nDGC@10", "did you mean 'nDCG'"),
        ("ndcg", "did you mean 'nDCG'"),
        ("nDCG@0", "cutoff must be from 1 to 2⁶² − 1, got 0"),
        ("nDCG@-3", "cutoff must be from 1 to 2⁶² − 1, got -3"),
        ("nDCG@99999999999999999999", "cutoff must be below 2⁶³"),
        ("nDCG@ten", "not of the form"),
        ("nDCG(gain='log')", "gain = 'log' is not possible"),
        ("AUC@5", "no parameter 'cutoff'"),
        ("AP(relevant_from=0)", "relevant_from = 0.0 must be a finite number above 0"),
        ("AP(empty='none')", "empty = 'none' is not possible"),
        ("ERR(max_grade=0)", "max_grade = 0 must be from 1 to 1000"),
        ("ERU(half_life=1)", "half_life must be a finite number above 1"),
        ("NERU(neutral=-1)", "neutral = -1.0 must be a finite number of at least 0"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said.replace("(", r"\(")):
        parse_measure(name)


def test_an_unknown_name_is_not_found() -> None:
    with pytest.raises(NotFound):
        parse_measure("zzz")


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
    with pytest.raises(InvalidInput, match="a number for each of 1 queries, got 2"):
        parse_measure("AP").of_rankings([0, 1], [0, 1], [0, 2], [1, 1])
