"""A second function checks every certificate, and no wrong verdict passes it."""

import dataclasses

import pytest

from rankloop.games import Analysis
from rankloop.games.certificate import AllEqual, AllSeen, Border, Refuted, Unseen
from research.games.certificate_check import objection
from tests.games.cases import analyse, analyse_depths, registered_measures

VERDICTS = ("trivial", "sqrt", "two_thirds", "hopeless")


def every_analysis(measure: str) -> list[Analysis]:
    found = []
    for max_grade, sizes in ((1, (1, 2, 3, 4)), (2, (2, 3))):
        for n_items in sizes:
            for closed in (True, False):
                found += analyse_depths(measure, n_items, max_grade, closed_forms=closed)
    return found


@pytest.mark.parametrize("measure", registered_measures())
def test_certificates_stand_and_wrong_verdicts_do_not(measure: str) -> None:
    for analysis in every_analysis(measure):
        assert objection(analysis) is None, analysis
        assert analysis.reason
        for verdict in VERDICTS:
            if verdict != analysis.verdict:
                wrong = dataclasses.replace(analysis, verdict=verdict)
                assert objection(wrong) is not None, f"{analysis} passes as {verdict}"


@pytest.mark.parametrize("measure", ["SumLoss", "nDCG", "AP", "RR", "P@2", "Recall@2", "AUCLoss"])
def test_no_certificate_of_another_depth_saves_a_wrong_verdict(measure: str) -> None:
    known = [*analyse_depths(measure, 4), *analyse_depths(measure, 4, closed_forms=False)]
    for analysis in known:
        for other in known:
            if other.verdict != analysis.verdict:
                forged = dataclasses.replace(analysis, verdict=other.verdict, certificate=other.certificate)
                assert objection(forged) is not None, (analysis, other)


@pytest.mark.parametrize("seed", range(6))
def test_refutations_are_checked(invented: type, seed: int) -> None:
    """Weights that do not fall along the positions make rankings that are seen badly but share no border."""
    analysis = analyse(invented(seed=seed), 4, None)
    analysis = analyse(invented(seed=seed), 4, analysis.fast_from)
    assert isinstance(analysis.certificate, AllSeen)
    assert objection(analysis) is None
    for position, entry in enumerate(analysis.certificate.refuted):
        for broken in (
            dataclasses.replace(entry, factor=-entry.factor),
            dataclasses.replace(entry, factor=entry.factor * 1e-3),
            dataclasses.replace(entry, weights=tuple(-weight for weight in entry.weights)),
            dataclasses.replace(entry, combined=(entry.ranking,), weights=(1.0,), factor=1.0),
            dataclasses.replace(entry, combined=(), weights=(), factor=1e-9),
        ):
            rest = (*analysis.certificate.refuted[:position], broken, *analysis.certificate.refuted[position + 1 :])
            assert objection(dataclasses.replace(analysis, certificate=AllSeen(refuted=rest))) is not None
    if analysis.certificate.refuted:
        assert objection(dataclasses.replace(analysis, certificate=AllSeen(refuted=()))) is not None


def test_some_invented_measure_needs_a_refutation(invented: type) -> None:
    needed = [analyse(invented(seed=seed), 4, 4).certificate for seed in range(6)]
    assert any(isinstance(proof, AllSeen) and proof.refuted for proof in needed)


def test_forged_parts_are_named() -> None:
    hopeless = analyse("nDCG", 3, 1)
    assert isinstance(hopeless.certificate, Unseen)
    complaints = {
        "no term": {"items": (0, 1)},
        "seen together": {"items": (0,), "grades": (1,)},
    }
    for words, change in complaints.items():
        forged = dataclasses.replace(hopeless.certificate, **change)
        assert words in str(objection(dataclasses.replace(hopeless, certificate=forged)))

    slow = analyse("SumLoss", 3, 1)
    assert isinstance(slow.certificate, Border)
    complaints = {
        "prefers one": {"witness": (((1, 0, 0), 0.5), ((0, 1, 0), 0.3), ((0, 0, 1), 0.2))},
        "as good as the two": {"witness": (((1, 0, 0), 1 / 3), ((0, 1, 0), 1 / 3), ((0, 0, 1), 1 / 3))},
        "no distribution": {"witness": (((1, 0, 0), 0.6), ((0, 1, 0), 0.3), ((0, 0, 1), 0.3))},
        "seen together": {"items": (0,)},
    }
    for words, change in complaints.items():
        forged_border = dataclasses.replace(slow.certificate, **change)
        assert words in str(objection(dataclasses.replace(slow, certificate=forged_border)))

    fast = analyse("SumLoss", 3, 2)
    wrong = Refuted(ranking=(0, 2, 1), combined=((1, 0, 2),), weights=(1.0,), factor=1.0)
    assert "does not refute" in str(objection(dataclasses.replace(fast, certificate=AllSeen(refuted=(wrong,)))))
    assert "differs" in str(objection(dataclasses.replace(fast, verdict="trivial", certificate=AllEqual())))


def test_what_the_game_does_not_have_is_an_objection() -> None:
    hopeless = analyse("nDCG", 3, 1)
    forged = Unseen(first=(0, 1, 2), second=(1, 0, 2), items=(0, 7), grades=(1, 1))
    assert "does not have" in str(objection(dataclasses.replace(hopeless, certificate=forged)))


def test_too_many_items_are_not_checked_silently() -> None:
    assert "too many" in str(objection(analyse("nDCG", 20, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["AP", "nDCG", "P@2"])
def test_five_items(measure: str) -> None:
    for analysis in analyse_depths(measure, 5, closed_forms=False):
        assert objection(analysis) is None
