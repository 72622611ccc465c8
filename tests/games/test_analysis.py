"""Verdicts: those of the papers, those of brute force, and the closed forms against the enumeration."""

import pytest

from rankloop.core.errors import InvalidInput
from rankloop.games import Game
from rankloop.games.closed_forms import closed_form
from rankloop.games.game import measure_for
from tests.games import brute_force
from tests.games.cases import analyse, analyse_depths, registered_measures

T, S, H = "two_thirds", "sqrt", "hopeless"


def verdicts(measure: object, n_items: int, max_grade: int = 1, closed_forms: bool = True) -> list[str]:
    found = analyse_depths(measure, n_items, max_grade, closed_forms=closed_forms)
    return [analysis.verdict for analysis in found]


@pytest.mark.parametrize("closed_forms", [True, False])
class TestPapers:
    @pytest.mark.parametrize("measure", ["SumLoss", "PairwiseLoss", "DCG"])
    def test_unnormalised(self, measure: str, closed_forms: bool) -> None:
        assert verdicts(measure, 3, closed_forms=closed_forms) == [T, S, S]

    @pytest.mark.parametrize("n_items", [3, 4, 5])
    @pytest.mark.parametrize("measure", ["nDCG", "AP"])
    def test_normalised_at_depth_1(self, measure: str, n_items: int, closed_forms: bool) -> None:
        assert analyse(measure, n_items, 1, closed_forms=closed_forms).verdict == H

    def test_auc_becomes_hopeless_at_four_items(self, closed_forms: bool) -> None:
        assert analyse("AUCLoss", 3, 1, closed_forms=closed_forms).verdict == T
        assert analyse("AUCLoss", 4, 1, closed_forms=closed_forms).verdict == H

    @pytest.mark.parametrize("n_items", [2, 3, 4, 5])
    def test_precision_is_fast_at_every_depth(self, n_items: int, closed_forms: bool) -> None:
        for n in range(1, n_items):
            assert verdicts(f"P@{n}", n_items, closed_forms=closed_forms) == [S] * n_items

    @pytest.mark.parametrize("max_grade", [2, 3])
    def test_grades_do_not_change_dcg_and_ndcg_at_depth_1(self, max_grade: int, closed_forms: bool) -> None:
        assert analyse("DCG", 3, 1, max_grade, closed_forms=closed_forms).verdict == T
        assert analyse("nDCG", 3, 1, max_grade, closed_forms=closed_forms).verdict == H


def test_answers_that_the_papers_leave_open() -> None:
    assert verdicts("nDCG", 5) == [H, H, H, T, S]
    assert verdicts("AP", 5) == [H, H, H, T, S]
    assert verdicts("AUCLoss", 5) == [H, H, T, T, S]
    assert verdicts("AUCLoss", 6) == [H, H, H, H, T, S]
    assert verdicts("ERR", 5) == [H, H, H, S, S]
    assert verdicts("RR@2", 5) == [H, S, S, S, S]
    assert verdicts("nDCG", 4, max_grade=2) == [H, H, H, S]
    assert verdicts("PairwiseLoss", 4, max_grade=2) == [H, T, T, S]
    assert verdicts("SumLoss", 4, max_grade=2) == [T, T, S, S]


@pytest.mark.parametrize("measure", registered_measures())
def test_three_items_by_brute_force_over_all_pairs(measure: str) -> None:
    game = Game(measure=measure_for(measure), n_items=3)
    expected = brute_force.verdicts(game)
    assert verdicts(measure, 3) == expected
    assert verdicts(measure, 3, closed_forms=False) == expected


@pytest.mark.parametrize("measure", registered_measures())
def test_four_items_by_brute_force(measure: str) -> None:
    game = Game(measure=measure_for(measure), n_items=4)
    expected = brute_force.verdicts(game, pairs_of=(0, 13))
    assert verdicts(measure, 4) == expected
    assert verdicts(measure, 4, closed_forms=False) == expected


@pytest.mark.parametrize("measure", ["SumLoss", "PairwiseLoss", "nDCG", "AP", "ERR", "P@2", "AUCLoss"])
def test_grades_by_brute_force(measure: str) -> None:
    game = Game(measure=measure_for(measure, 2), n_items=3, max_grade=2)
    expected = brute_force.verdicts(game, pairs_of=(0, 4))
    assert verdicts(measure, 3, max_grade=2) == expected
    assert verdicts(measure, 3, max_grade=2, closed_forms=False) == expected


@pytest.mark.parametrize(
    ("form", "n_items", "seed"),
    [(form, n_items, seed) for form in ("weights", "pairs", "anything") for n_items in (3, 4) for seed in (0, 1, 2)],
)
def test_a_measure_invented_on_the_spot(invented: type, form: str, n_items: int, seed: int) -> None:
    measure = invented(form=form, seed=seed)
    game = Game(measure=measure, n_items=n_items)
    expected = brute_force.verdicts(game, pairs_of=(0,))
    assert verdicts({"kind": "Invented", "form": form, "seed": seed}, n_items) == expected
    assert analyse(measure, n_items, 1).source == "enumeration"


@pytest.mark.parametrize("measure", registered_measures())
def test_closed_forms_are_what_enumeration_finds(measure: str) -> None:
    for max_grade, most_items in ((1, 6), (2, 4), (3, 3)):
        built = measure_for(measure, max_grade)
        for n_items in range(1, most_items + 1):
            closed = closed_form(built, n_items, max_grade)
            slow = analyse(built, n_items, 1, max_grade, closed_forms=False)
            assert closed is not None
            assert (closed.learnable, closed.fast) == (slow.learnable_from, slow.fast_from), (n_items, max_grade)


def test_binary_measures_look_at_grades_through_their_threshold() -> None:
    assert verdicts("AP(relevant_from=2.0)", 3, max_grade=1) == ["trivial"] * 3
    assert verdicts("AP(relevant_from=2.0)", 3, max_grade=2) == verdicts("AP", 3)
    assert verdicts("NERU(neutral=1.0)", 3, max_grade=2) == verdicts("NERU", 3)


def test_sources_say_what_decided() -> None:
    assert analyse("AP", 4, 2).source == "closed form"
    assert analyse("AP", 4, 2, closed_forms=False).source == "enumeration"
    found = analyse("nDCG", 4, 2, closed_forms=False)
    assert found.source == "enumeration"
    assert found.margin == 1e-9


def test_edges() -> None:
    assert verdicts("DCG", 1) == ["trivial"]
    assert verdicts("DCG", 1, closed_forms=False) == ["trivial"]
    assert verdicts("P@3", 3) == ["trivial"] * 3
    assert analyse("nDCG", 3, 7).verdict == "sqrt"
    assert analyse("nDCG", 3, None).verdict == "sqrt"
    for depth in (0, -1):
        with pytest.raises(InvalidInput, match="depth must be a whole number from 1"):
            analyse("nDCG", 3, depth)
    with pytest.raises(InvalidInput, match="n_items must be a whole number from 1"):
        analyse("nDCG", 0, 1)
    with pytest.raises(InvalidInput, match="no measure 'nDGC'"):
        analyse("nDGC", 3, 1)


@pytest.mark.parametrize("measure", registered_measures())
def test_fifty_items_at_once(measure: str) -> None:
    found = analyse_depths(measure, 50)
    assert len(found) == 50
    assert found[-1].verdict in ("sqrt", "trivial")


def test_an_analysis_is_plain_json() -> None:
    import json

    table = json.loads(json.dumps(analyse("SumLoss", 3, 1).as_table()))
    assert table["measure"] == "SumLoss"
    assert table["verdict"] == "two_thirds"
    assert table["certificate"]["kind"] == "Border"
    assert table["certificate"]["second"] == [0, 2, 1]
