"""Terms of functions of the grades, and what feedback reveals of them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rankloop.core.errors import InvalidInput
from rankloop.games.enumeration import _coefficients, _depth_to_see
from rankloop.games.game import _level_numbers, is_zero
from research.games.exact_proofs import common_integers


def relevances(n_items: int, max_grade: int) -> np.ndarray:
    return np.array(list(itertools.product(range(max_grade + 1), repeat=n_items)))


@given(st.integers(1, 4), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_terms_add_up_to_the_function(n_items: int, max_grade: int, seed: int) -> None:
    outcomes = relevances(n_items, max_grade)
    values = np.random.default_rng(seed).integers(-9, 9, (2, len(outcomes)))
    terms = _coefficients(values, n_items, max_grade)
    for row, relevance in enumerate(outcomes):
        contained = [((term == 0) | (term == relevance)).all() for term in outcomes]
        assert_array_equal(terms[:, contained].sum(axis=1), values[:, row])


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 3), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_inclusion_of_sets_decides_as_the_rank_does(n_items: int, max_grade: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    outcomes = relevances(n_items, max_grade)
    tops = [tuple(np.flatnonzero(rng.random(n_items) < 0.6)) for _ in range(2)]
    columns = [
        (outcomes[:, top] == grades).all(axis=1)
        for top in tops
        for grades in itertools.product(range(max_grade + 1), repeat=len(top))
    ]
    space = np.array(columns, dtype=float).T
    function = space @ rng.integers(-3, 4, space.shape[1])
    if rng.random() < 0.6:
        function += rng.integers(-3, 4) * (outcomes[:, rng.random(n_items) < 0.7] > 0).all(axis=1)
    in_space = np.linalg.matrix_rank(np.column_stack((space, function))) == np.linalg.matrix_rank(space)
    present = ~is_zero(_coefficients(np.rint(function)[None], n_items, max_grade))
    covered = all(any(set(np.flatnonzero(term)) <= set(top) for top in tops) for term in outcomes[present[0]])
    assert covered == in_space


def test_depth_to_see_is_the_position_of_the_last_item() -> None:
    ranks = np.array(list(itertools.permutations(range(3))))
    outcomes = relevances(3, 2)
    depths = _depth_to_see(ranks, outcomes)
    for row, positions in enumerate(ranks):
        for column, grades in enumerate(outcomes):
            assert depths[row, column] == max((1 + positions[item] for item in np.flatnonzero(grades)), default=0)


def test_fractions_are_found_and_irrational_numbers_are_not() -> None:
    assert_array_equal(common_integers(np.array([0.0, 7 / 12, 5 / 6, -1 / 3])), [0, 7, 10, -4])
    assert common_integers(np.array([1.0, 1 / np.log2(3)])) is None
    assert common_integers(np.array([1 / 99_991, 1 / 99_989, 0.123456789])) is None


def test_equal_values_get_equal_numbers() -> None:
    assert_array_equal(_level_numbers(np.array([0.1 + 0.2, 0.3, 0.0, 1.0])), [1, 1, 0, 2])


def test_what_is_too_close_to_zero_is_not_decided() -> None:
    assert_array_equal(is_zero(np.array([0.0, 1e-15, 1e-3])), [True, True, False])
    with pytest.raises(InvalidInput, match="too small to tell from 0"):
        is_zero(np.array([1e-10]))


def test_whole_numbers_keep_the_terms_exact() -> None:
    third = common_integers(np.array([0.0, 1 / 3, 1 / 3, 2 / 3]))
    assert third is not None
    assert_array_equal(_coefficients(third[None], 2, 1)[0], [0, 1, 1, 0])
    assert_allclose(_coefficients(np.array([[0.0, 1 / 3, 1 / 3, 2 / 3]]), 2, 1)[0, 3], 0.0, atol=1e-15)
