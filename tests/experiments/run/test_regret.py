"""The best fixed ranking of every prefix equals the one found by trying all, for every registered measure."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from rankloop.core.protocols import Measure
from rankloop.core.registry import build, entries
from rankloop.core.types import Floats, Ints, Problem
from rankloop.experiments.run.regret import BySorting, ByTrying, best_fixed

N_ITEMS, N_ROUNDS = 4, 40
OPTIONS = [
    "P@2",
    "Recall@2",
    "nDCG@2",
    "DCG@3",
    "ERU@2",
    "NERU@3",
    'nDCG(gain="linear", empty="one")',
    'AUC(empty="skip")',
]
MEASURES = [entry.kind for entry in entries("measure")] + OPTIONS


def _rounds(max_grade: int, seed: int = 3) -> tuple[Ints, Floats]:
    rng = np.random.default_rng(seed)
    rankings = np.array([rng.permutation(N_ITEMS) for _ in range(N_ROUNDS)])
    leaning = rng.random(N_ITEMS)  # so that one ranking is better than the others
    return rankings, np.floor(rng.random((N_ROUNDS, N_ITEMS)) ** (0.3 + 2 * leaning) * (max_grade + 1))


def _lead(measure: Measure, rankings: Ints, relevance: Floats) -> float:
    """Every ranking in every round, one call each."""
    shown = np.nansum([measure(ranking, grades) for ranking, grades in zip(rankings, relevance)])
    totals = [
        np.nansum([measure(np.array(ranking), grades) for grades in relevance])
        for ranking in permutations(range(N_ITEMS))
    ]
    return float(max(totals) - shown if measure.higher_is_better else shown - min(totals))


@pytest.mark.parametrize("max_grade", [1, 3])
@pytest.mark.parametrize("name", MEASURES)
def test_every_prefix_against_all_rankings(name: str, max_grade: int) -> None:
    measure = build(name, "measure")
    rankings, relevance = _rounds(max_grade)
    account = best_fixed(measure, Problem(n_features=0, n_items=N_ITEMS, max_grade=max_grade))
    assert account is not None
    for start, end in [(0, 1), (1, 7), (7, N_ROUNDS)]:
        account.add(rankings[start:end], relevance[start:end])
        assert account.lead() == pytest.approx(_lead(measure, rankings[:end], relevance[:end]), abs=1e-9)


def test_sorting_where_the_measure_adds_up_and_trying_elsewhere() -> None:
    few, many = (Problem(n_features=0, n_items=n) for n in (4, 20))
    assert isinstance(best_fixed(build("DCG", "measure"), many), BySorting)
    assert isinstance(best_fixed(build("AP", "measure"), few), ByTrying)
    assert best_fixed(build("AP", "measure"), many) is None
    assert best_fixed(build("DCG", "measure"), Problem(n_features=3)) is None
    graded = Problem(n_features=0, n_items=20, max_grade=2)
    assert best_fixed(build("PairwiseLoss", "measure"), graded) is None
