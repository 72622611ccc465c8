"""Thresholds against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.bandits.auc_policy import threshold
from rankloop.core.errors import InvalidInput

coarse = st.integers(-4, 4).map(float)


def quality(scores, clicked, s, criterion):
    called = scores >= s
    hits = (called & clicked).sum()
    if criterion == "f1":
        return 2 * hits / (called.sum() + clicked.sum())
    return (called == clicked).mean()


@pytest.mark.parametrize("criterion", ["f1", "accuracy"])
@given(data=st.lists(st.tuples(coarse, st.booleans()), min_size=1, max_size=12))
def test_thresholds_by_brute_force(criterion, data):
    scores, clicked = np.array([d[0] for d in data]), np.array([d[1] for d in data])
    if not clicked.any():
        clicked[0] = True
    s = threshold(scores, clicked, criterion)
    levels = np.unique(scores)
    candidates = [levels[0], *((levels[1:] + levels[:-1]) / 2)]
    found = [quality(scores, clicked, c, criterion) for c in candidates]
    assert quality(scores, clicked, s, criterion) == pytest.approx(max(found))
    assert s == pytest.approx(candidates[int(np.argmax(np.array(found) >= max(found) - 1e-12))])


def test_thresholds_of_means():
    assert threshold([1.0, 3.0, 8.0], [0, 0, 1], "midpoint") == (2 + 8) / 2
    steady = threshold([-1.0, 0.0, 2.0, 3.0], [0, 0, 0, 1], "click_rate")
    assert np.mean(1 / (1 + np.exp(steady - np.array([-1.0, 0.0, 2.0, 3.0])))) == pytest.approx(1 / 4)
    assert threshold(np.zeros(8), np.arange(8) < 2, "click_rate") == pytest.approx(np.log(6 / 2))  # −logit(2/8)
    assert threshold(np.zeros(4), np.ones(4), "click_rate") == pytest.approx(-np.log(3.5 / 0.5))
    assert threshold([1.0, 3.0], [0, 0], "midpoint") == 2.0
    assert threshold([1.0, 3.0], [1, 1], "midpoint") == 1.0
    with pytest.raises(InvalidInput, match=r"there is .*f1"):
        threshold([1.0], [1], "f2")


@given(data=st.lists(st.tuples(st.floats(-5, 5), st.booleans()), min_size=1, max_size=20))
def test_the_mean_probability_at_the_threshold_is_the_click_rate(data):
    scores, clicked = np.array([d[0] for d in data]), np.array([d[1] for d in data])
    rate = min(max(clicked.sum(), 0.5), len(data) - 0.5) / len(data)
    s = threshold(scores, clicked, "click_rate")
    assert np.mean(1 / (1 + np.exp(s - scores))) == pytest.approx(rate, abs=1e-8)
