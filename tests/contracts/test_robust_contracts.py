"""The contract of robust updates can fail: without the wrapper, one bad row ruins a numeric ranker."""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from rankloop import Clicks, Ranker
from rankloop.contracts import ContractViolation, robust_contracts
from rankloop.contracts.cases import cases_of
from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.learner import Robust
from rankloop.core.registry import entries, lookup
from rankloop.core.types import Floats

NAMES = ["match", "price", "age"]
N_VISITS, BAD_VISIT = 120, 60
BAD_SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "one value": lambda rows: np.vstack([[-1e3, *rows[0, 1:]], rows[1:]]),
    "opposite": lambda rows: np.vstack([[-1e6, 1e6, -1e6], rows[1:]]),
    "all rows": lambda rows: 1e4 * rows,
    "largest": lambda rows: np.where(rows > 0.0, 1.7e308, -1.7e308),
    "smallest": lambda rows: 5e-324 * np.sign(rows),
    "constant": lambda rows: np.full_like(rows, 1e9),
    "negative": lambda rows: -1e3 * rows,
}


def learns_numbers_from_clicks(kind: str) -> bool:
    """Whether `Ranker` protects this learner, and it learns from clicks."""
    try:
        learner = Ranker(kind, features=NAMES).session.learner
    except InvalidInput:
        return False
    return isinstance(learner, Robust) and Clicks in learner.accepts


KINDS = [
    entry.kind for entry in entries("learner") if entry.cls is not Robust and learns_numbers_from_clicks(entry.kind)
]


@pytest.mark.parametrize("kind", ["newton_pairs", "click_regression"])
def test_one_bad_row_ruins_a_ranker_that_is_not_protected(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in cases_of(lookup(kind, "learner")) if case.name.endswith("-0-plain"))
    robust_contracts.check_one_bad_row.check(case)
    monkeypatch.setattr(robust_contracts, "with_robust", lambda learner, problem: learner)
    with pytest.raises(ContractViolation, match="a bad list"):
        robust_contracts.check_one_bad_row.check(case)


def page(rng: np.random.Generator) -> tuple[Floats, set[str]]:
    """The features of twelve items, and the four good ones."""
    rows = rng.normal(size=(12, len(NAMES)))
    return rows, set(map(str, np.argsort(0.7 * rows[:, 1] - rows[:, 0])[:4]))


def items(rows: Floats) -> dict[str, dict[str, float]]:
    return {str(i): dict(zip(NAMES, row.tolist())) for i, row in enumerate(rows)}


def mean_place_of_good(kind: str, shape: str = "") -> float:
    """The mean position of good items after honest visits, and at most one bad list with a click on its first row."""
    ranker, rng = Ranker(kind, features=NAMES, seed=1), np.random.default_rng(1)
    for visit in range(N_VISITS):
        if shape and visit == BAD_VISIT:
            shown = ranker.rank(items(BAD_SHAPES[shape](page(np.random.default_rng(99))[0])))
            with suppress(UnstableUpdate):  # a refused update changes nothing
                ranker.learn(shown, clicks=["0"])
        rows, good = page(rng)
        shown, draws = ranker.rank(items(rows)), np.random.default_rng((1, visit)).random(12)
        rates = [(0.6 if id in good else 0.05) / (1 + 0.15 * place) for place, id in enumerate(shown.ids)]
        ranker.learn(shown, clicks=[id for id, draw, rate in zip(shown.ids, draws, rates) if draw < rate])
    rng, places = np.random.default_rng(5), []
    for _ in range(20):
        rows, good = page(rng)
        places += [place for place, id in enumerate(ranker.predict(items(rows)), 1) if id in good]
    return float(np.mean(places))


@pytest.mark.parametrize("kind", KINDS)
def test_one_bad_list_of_any_shape_does_no_harm(kind: str) -> None:
    clean = mean_place_of_good(kind)
    moved = {shape: mean_place_of_good(kind, shape) - clean for shape in BAD_SHAPES}
    assert max(moved.values()) <= 2.0, moved


def test_many_learners_are_tried() -> None:
    assert len(KINDS) >= 12
