"""Cells, neighbours and neighbourhood sets; witnesses and combinations that wrong numbers do not pass."""

import itertools

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.games import Game
from rankloop.games.enumeration import Combination, border, classes_of
from rankloop.games.game import measure_for
from research.games.exact_proofs import integer_differences, is_proved_combination, is_proved_witness
from research.games.matrices import neighbourhood_of, neighbours_of
from tests.games import brute_force
from tests.games.cases import registered_measures


def game(name: str, n_items: int = 3) -> Game:
    return Game(measure=measure_for(name), n_items=n_items)


@pytest.mark.parametrize("n_items", [3, 4, 5])
@pytest.mark.parametrize("measure", ["SumLoss", "DCG", "nDCG", "AUCLoss"])
def test_neighbours_differ_by_adjacent_positions_when_positions_are_weighed(measure: str, n_items: int) -> None:
    """Lemma 3 of the paper, and that there are no others."""
    found = game(measure, n_items)
    for row in (0, len(found.rankings) - 2):
        swaps = []
        for position in range(n_items - 1):
            order = found.rankings[row].copy()
            order[[position, position + 1]] = order[[position + 1, position]]
            swaps.append(found.action(order))
        assert neighbours_of(found, row) == sorted(swaps)


def test_neighbourhood_of_the_pair_in_the_paper_holds_only_the_two() -> None:
    assert neighbourhood_of(game("SumLoss"), 0, 1) == [0, 1]


def test_neighbourhood_sets_hold_duplicates_and_duplicates_are_not_neighbours() -> None:
    found = game("P@2", n_items=4)
    tops = [frozenset(map(int, order[:2])) for order in found.rankings]
    neighbours = neighbours_of(found)
    assert {tops[row] for row in neighbours} == {frozenset(top) for top in ({0, 2}, {0, 3}, {1, 2}, {1, 3})}
    other = next(row for row in neighbours if tops[row] == {0, 2})
    expected = [row for row, top in enumerate(tops) if top in ({0, 1}, {0, 2})]
    assert neighbourhood_of(found, 0, other) == expected
    with pytest.raises(InvalidInput, match="duplicates are not neighbours"):
        neighbourhood_of(found, 0, found.action([1, 0, 2, 3]))


@pytest.mark.parametrize("measure", registered_measures())
def test_neighbours_by_brute_force(measure: str) -> None:
    found = game(measure)
    losses = found.loss / (np.abs(found.loss).max() or 1.0)
    for row in range(len(losses)):
        slow = [j for j in range(len(losses)) if brute_force.are_neighbours(losses, row, j)]
        assert neighbours_of(found, row) == slow


@pytest.mark.parametrize("measure", ["SumLoss", "nDCG", "AP", "P@1"])
def test_cells_hold_the_distributions_under_which_a_ranking_is_best(measure: str) -> None:
    found = game(measure)
    rng = np.random.default_rng(0)
    cells = [found.loss[neighbours_of(found, row)] - found.loss[row] for row in range(6)]
    met = set()
    for _ in range(300):
        p = rng.dirichlet(np.full(8, 0.4))
        inside = [row for row in range(6) if (cells[row] @ p >= -1e-12).all()]
        assert inside == brute_force.best_under(found, p)
        met.update(inside)
    assert sorted(met) == list(range(6)), "every ranking is best somewhere"


@pytest.mark.parametrize("measure", ["SumLoss", "AP", "ERR", "RR@1", "P@2", "AUCLoss"])
def test_every_answer_is_proved_in_whole_numbers(measure: str) -> None:
    classes, whole = classes_of(game(measure, 4)), integer_differences(game(measure, 4))
    assert whole is not None
    for c in range(1, len(classes.rows)):
        found = border(classes.differences, c, classes.first)
        if not isinstance(found, Combination):
            assert is_proved_witness(whole, c, found)
            assert not is_proved_combination(whole, c, any_combination(whole, c))
        else:
            assert is_proved_combination(whole, c, found)
            n_relevances = whole.shape[1]
            uniform = np.full(n_relevances, 1.0 / n_relevances)
            assert not is_proved_witness(whole, c, uniform)


def any_combination(whole: np.ndarray, c: int) -> Combination:
    """A made-up proof that class c is no neighbour."""
    others = np.array([i for i in range(1, len(whole)) if i != c][:2])
    return Combination(others, np.ones(len(others)), 1.0)


def test_a_witness_for_one_border_is_none_for_another() -> None:
    classes, whole = classes_of(game("SumLoss", 4)), integer_differences(game("SumLoss", 4))
    assert whole is not None
    found = {int(c): border(classes.differences, int(c), classes.first) for c in classes.first}
    for c, other in itertools.permutations(found, 2):
        witness = found[c]
        assert not isinstance(witness, Combination)
        assert is_proved_witness(whole, c, witness)
        assert not is_proved_witness(whole, other, witness)


def test_combinations_follow_from_the_other_inequalities() -> None:
    classes = classes_of(game("nDCG", 4))
    for c in range(1, len(classes.rows)):
        found = border(classes.differences, c, classes.first)
        if isinstance(found, Combination):
            combined = found.weights @ classes.differences[found.classes]
            assert found.factor > 1e-3
            assert (found.weights >= 0).all()
            assert (combined <= found.factor * classes.differences[c] + 1e-9).all()
