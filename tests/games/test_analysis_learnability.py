"""Three plain lines that name a learner which exists and accepts the problem."""

import pytest

from rankloop.core.registry import build
from rankloop.core.types import Problem
from rankloop.games import advise, analyse
from tests.games.cases import registered_measures


@pytest.mark.parametrize("measure", registered_measures())
@pytest.mark.parametrize(("n_items", "max_grade"), [(1, 1), (4, 1), (3, 2), (20, 1)])
def test_advice_follows_the_verdict_and_names_a_learner_that_works(measure: str, n_items: int, max_grade: int) -> None:
    for depth in range(1, n_items + 1):
        advice = advise(measure, n_items, depth, max_grade)
        verdict = analyse(measure, n_items, depth, max_grade).verdict
        begins = {"trivial": "There is nothing", "hopeless": "No:", "two_thirds": "Yes:", "sqrt": "Yes:"}
        assert advice.answer.startswith(begins[verdict])
        assert len(advice.lines) == 3
        assert all(line.endswith(".") and "\n" not in line for line in advice.lines)
        assert (advice.learner is None) == (verdict == "hopeless" or advice.recommendation.startswith("No learner"))
        if advice.learner is not None:
            learner = build(advice.learner, category="learner")
            learner.init(Problem(n_features=0, n_items=n_items, depth=depth, max_grade=max_grade))


def test_what_a_person_reads() -> None:
    assert advise("nDCG", 10, 1).lines == (
        "No: nDCG of 10 items cannot be learned from the grade of the first item.",
        "Never: for some users every learner loses the same amount in every round, however long it runs.",
        "Closest: the grades of the first 9 items would make it learnable; from the grade of the first item, DCG can "
        "be learned instead.",
    )
    assert advise("DCG", 10, 1).learner == "rtopk(measure='DCG')"
    assert advise("P@3", 10, 1).learner == "precision_bandit(n=3)"
    assert advise("DCG", 10, None).learner == "ftpl(measure='DCG')"
    assert "RR@2 or DCG can be learned instead" in advise("RR", 6, 2).recommendation
    assert "grades of all items would make it learnable" in advise("nDCG", 4, 2, 2).recommendation


@pytest.mark.parametrize(
    ("measure", "learner"),
    [("P@2", "precision_bandit(n=2)"), ("P(relevant_from=2.0)@3", "precision_bandit(n=3, relevant_from=2.0)")],
)
def test_precision_is_fast_on_every_scale(measure: str, learner: str) -> None:
    for depth in range(1, 5):
        advice = advise(measure, 4, depth, max_grade=4)
        assert advice.analysis.verdict == "sqrt"
        assert advice.learner == learner
        assert "grows as √T, at every depth" in advice.recommendation
        assert build(learner, "learner").relevant_from == advice.analysis.measure.relevant_from  # type: ignore[attr-defined]


@pytest.mark.parametrize("measure", ["nDCG", "AUCLoss", "AP", "Recall@2", "RR", "ERR", "NERU"])
def test_what_is_named_instead_can_be_learned(measure: str) -> None:
    how = advise(measure, 6, 1).recommendation
    named = how.split("item, ")[1].removesuffix(" can be learned instead.").split(" or ")
    assert named
    for other in named:
        assert analyse(other, 6, 1).verdict in ("sqrt", "two_thirds")
    needed = analyse(measure, 6, 1).learnable_from
    assert analyse(measure, 6, needed).verdict != "hopeless"
    assert analyse(measure, 6, needed - 1).verdict == "hopeless"
