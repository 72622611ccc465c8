import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankloop.core.kernels import (
    discount,
    discounts,
    exponential_gain,
    is_permutation,
    positions_of,
    random_ranking,
    ranking_of,
)

# few distinct values, so that ties are common; lengths on both sides of the switch between the two sorts
scores = arrays(
    np.float64, st.integers(1, 60) | st.integers(395, 405), elements=st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0])
)


@given(scores)
def test_best_first_and_ties_by_item_number(scores):
    expected = sorted(range(len(scores)), key=lambda item: (-scores[item], item))
    assert ranking_of(scores).tolist() == expected


@given(scores)
def test_positions_invert_a_ranking(scores):
    ranking = ranking_of(scores)
    assert positions_of(ranking)[ranking].tolist() == list(range(len(scores)))
    assert is_permutation(ranking, len(scores))


def test_scores_that_are_not_numbers_still_give_a_permutation():
    for n_items in (5, 80, 500):
        scores = np.where(np.arange(n_items) % 2 == 0, np.nan, 1.0)
        assert is_permutation(ranking_of(scores), n_items)


@pytest.mark.parametrize("ranking", [[0, 0], [0, 2], [-1, 0], [0], [0, 1, 2]])
def test_what_is_no_permutation_of_two(ranking):
    assert not is_permutation(np.array(ranking, dtype=np.int64), 2)


def test_gains_and_discounts():
    assert discount(0) == 1.0
    assert discount(2) == 0.5
    assert exponential_gain(3.0) == 7.0
    assert discounts(4, cutoff=3).tolist() == [1.0, 1 / np.log2(3), 0.5, 0.0]


def test_a_random_ranking_is_uniform_and_takes_one_double_per_item():
    used, fresh = np.random.default_rng(1), np.random.default_rng(1)
    counts = dict.fromkeys([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)], 0)
    n = 6000
    for _ in range(n):
        counts[tuple(random_ranking(3, used).tolist())] += 1
    fresh.random(3 * n)
    assert used.random() == fresh.random()
    standard_error = np.sqrt(n * (1 / 6) * (5 / 6))
    assert max(abs(count - n / 6) for count in counts.values()) < 4 * standard_error
