"""Every measure: one value for one ranking, however it is asked, and a best that enumeration confirms."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.core.kernels import ranking_of
from rankloop.core.registry import Entry, entries
from tests.contracts.examples import examples_of

measures = pytest.mark.parametrize("entry", entries("measure"), ids=lambda entry: entry.kind)
GRADES = [
    [1.0],
    [0.0],
    [0.0, 1.0, 0.0],
    [2.0, 0.0, 1.0, 0.0],
    [0.0, 0.0, 0.0],
    [1.0, 1.0, 1.0],
    [2.0, 1.0, 0.0, 1.0, 2.0],
]


def values_of(measure: Any, relevance: Any) -> list[float]:
    return [measure(np.array(order), relevance) for order in permutations(range(len(relevance)))]


@measures
@pytest.mark.parametrize("grades", GRADES, ids=str)
def test_the_best_value_is_that_of_the_best_ranking(entry: Entry, grades: list[float]):
    for measure in examples_of(entry.cls):
        relevance = np.array(grades)
        values = values_of(measure, relevance)
        best = max(values) if measure.higher_is_better else min(values)
        assert measure.best(relevance) == pytest.approx(best, nan_ok=True)


@measures
def test_values_do_not_depend_on_the_names_of_items(entry: Entry):
    rng = default_rng(0)
    for measure in examples_of(entry.cls):
        for grades in GRADES:
            relevance, ranking = np.array(grades), rng.permutation(len(grades))
            new_of = rng.permutation(len(grades))
            renamed = relevance[np.argsort(new_of)]
            assert measure(ranking, relevance) == pytest.approx(measure(new_of[ranking], renamed), nan_ok=True)


@measures
def test_many_queries_at_once_give_the_same_values(entry: Entry):
    rng = default_rng(1)
    for measure in examples_of(entry.cls):
        scores = [rng.integers(0, 3, len(grades)).astype(float) for grades in GRADES]  # with ties
        offsets = np.cumsum([0, *map(len, GRADES)])
        relevance = np.concatenate([np.array(grades) for grades in GRADES])
        together = measure.of_scores(np.concatenate(scores), relevance, offsets)
        alone = [measure(ranking_of(own), np.array(grades)) for own, grades in zip(scores, GRADES)]
        np.testing.assert_allclose(together, alone, rtol=1e-12)


@measures
def test_measuring_changes_nothing(entry: Entry):
    for measure in examples_of(entry.cls):
        ranking, relevance = np.array([2, 0, 1]), np.array([0.0, 1.0, 2.0])
        measure(ranking, relevance)
        measure.best(relevance)
        measure.of_scores(relevance, relevance, np.array([0, 3]))
        assert ranking.tolist() == [2, 0, 1]
        assert relevance.tolist() == [0.0, 1.0, 2.0]
