"""Names of measures parse back."""

import pytest
from hypothesis import given, settings
from tests.measures.cases import CLASSES, measures

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.protocols import Measure
from rankloop.core.registry import build, entry_of, spec_of
from rankloop.measures import parse_measure
from rankloop.measures.base import RankedMeasure
from rankloop.measures.dcg import NDCG

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


def test_defaults_are_not_written() -> None:
    assert str(NDCG(gain="exponential", empty="zero", cutoff=None)) == "nDCG"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nDGC@10", "did you mean 'nDCG'"),
        ("ndcg", "did you mean 'nDCG'"),
        ("nDCG@0", "cutoff must be at least 1 and not astronomic, got 0"),
        ("nDCG@-3", "cutoff must be at least 1 and not astronomic, got -3"),
        ("nDCG@99999999999999999999", "cutoff must be below 2⁶³"),
        ("nDCG@ten", "not of the form"),
        ("nDCG(gain='log')", "gain = 'log' is not possible"),
        ("AUC@5", "no parameter 'cutoff'"),
        ("AP(relevant_from=0)", "relevant_from = 0.0 must be a finite number above 0"),
        ("AP(empty='none')", "empty = 'none' is not possible"),
        ("ERR(max_grade=0)", "max_grade must be between 1 and 1000"),
        ("ERU(half_life=1)", "half_life must be a finite number above 1"),
        ("NERU(neutral=-1)", "neutral must be a finite number of at least 0"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said.replace("(", r"\(")):
        parse_measure(name)


def test_an_unknown_name_is_not_found() -> None:
    with pytest.raises(NotFound):
        parse_measure("zzz")
