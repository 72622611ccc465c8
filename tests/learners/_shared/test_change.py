"""The watch over people: the sums of Page and Hinkley by hand, and when they are an alarm."""

import numpy as np
import pytest

from rankloop.learners._shared.change import N_NUMBERS, first_click, has_changed, is_watch, watched

NOTHING = np.zeros(N_NUMBERS)


def after(values):
    watch = NOTHING
    for value in values:
        watch = watched(watch, value)
    return watch


def test_where_people_click_first():
    ranking, clicked = np.array([2, 0, 1, 3]), np.array([0.0, 1.0, 0.0, 0.5])
    assert first_click(ranking, 4, clicked) == 1 / 3
    assert first_click(ranking, 2, clicked) == 0.0  # beyond what is seen
    assert first_click(ranking, 4, np.ones(4)) == 1.0
    assert first_click(ranking, 4, np.zeros(4)) == 0.0


def test_the_sums_by_hand():
    mean, above, below, count = after([1.0, 0.0, 0.0])
    assert mean == pytest.approx(1 / 3)
    assert count == 3
    assert above == 0.0
    assert below == pytest.approx((1 / 2 - 0.1) + (1 / 3 - 0.1))
    assert after([0.0, 1.0, 1.0])[1] == pytest.approx((1 - 1 / 2 - 0.1) + (1 - 2 / 3 - 0.1))
    assert not NOTHING.any()


def test_small_departures_do_not_add_up():
    assert after([0.5] * 100 + [0.59] * 1000)[1:3].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("before", "later"), [(0.2, 0.9), (0.9, 0.2)])
def test_a_change_in_either_direction_is_noticed_soon(before, later):
    watch = after([before] * 1000)
    assert not has_changed(watch, 15.0)
    n = 0
    while not has_changed(watch, 15.0):
        watch, n = watched(watch, later), n + 1
    assert 15 / (0.7 - 0.1) < n < 15 / (0.7 - 0.1) + 3  # the mean follows a little
    assert not has_changed(watch, 0.0)


def test_what_is_no_watch():
    assert is_watch(NOTHING)
    assert is_watch(after([1.0, 0.0]))
    for wrong in ([2.0, 0.0, 0.0, 1.0], [0.5, -1.0, 0.0, 1.0], [0.5, 0.0, 0.0, -1.0]):
        assert not is_watch(np.array(wrong))
