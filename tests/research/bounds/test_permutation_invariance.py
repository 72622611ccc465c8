"""Theorem 33: what is left of linear scoring functions when the numbering of the items must not matter."""

from itertools import permutations

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from research.bounds.permutation_invariance import InvariantScores, invariant_dimension, nearest_invariant


@pytest.mark.parametrize("n_items", range(2, 7))
@pytest.mark.parametrize("n_features", [1, 3])
def test_twice_the_features_are_left_for_any_length(n_items, n_features):
    assert invariant_dimension(n_items, n_features) == 2 * n_features
    assert invariant_dimension(1, n_features) == n_features


@pytest.mark.parametrize("n_items", [1, 2, 3, 4])
def test_the_mean_over_all_numberings_is_of_the_printed_form(n_items):
    rng = np.random.default_rng(n_items)
    maps = rng.normal(size=(n_items, n_items, 3))
    mean = np.zeros_like(maps)
    for order in map(np.array, permutations(range(n_items))):
        mean += maps[order][:, order]
    mean /= len(list(permutations(range(n_items))))
    found = nearest_invariant(maps)
    assert found.maps(n_items) == pytest.approx(mean)
    features = rng.normal(size=(n_items, 3))
    assert found(features) == pytest.approx([np.sum(features * row) for row in mean])


def test_scores_change_places_with_the_items_and_v_does_not_change_the_order():
    rng = np.random.default_rng(0)
    scores, features = InvariantScores(rng.normal(size=4), rng.normal(size=4)), rng.normal(size=(6, 4))
    order = rng.permutation(6)
    assert scores(features)[order] == pytest.approx(scores(features[order]))
    assert np.argsort(-scores(features)).tolist() == np.argsort(-(features @ scores.w)).tolist()
    assert nearest_invariant(scores.maps(6)).w == pytest.approx(scores.w)
    assert nearest_invariant(scores.maps(6)).v == pytest.approx(scores.v)


def test_what_is_no_linear_map_is_refused():
    for wrong in (np.zeros((2, 3, 1)), np.zeros((0, 0, 1)), np.zeros(3), np.full((2, 2, 1), np.nan)):
        with pytest.raises(InvalidInput, match="linear map"):
            nearest_invariant(wrong)
    with pytest.raises(InvalidInput, match="an item and a feature"):
        invariant_dimension(0, 2)
