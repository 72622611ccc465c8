"""Propensity weights that undo position bias."""

import numpy as np
import pytest

from rankloop.click_models.examination import checked_examined
from rankloop.core.errors import InvalidInput
from rankloop.training.clicks.weights import held_out_lists, weighted_clicks

EXAMINED = np.array([1.0, 0.6, 0.35, 0.2])


def test_weighted_clicks_are_unbiased_by_enumeration():
    """E[weighted click] over looking and clicking is the relevance, whatever the positions."""
    relevance, positions = np.array([0.9, 0.2, 0.5]), np.array([2, 0, 1])
    expected = np.zeros(3)
    for examinations in np.ndindex(2, 2, 2):
        probability = np.prod([EXAMINED[p] if look else 1 - EXAMINED[p] for look, p in zip(examinations, positions)])
        for likes in np.ndindex(2, 2, 2):
            liked = np.prod([r if like else 1 - r for like, r in zip(likes, relevance)])
            clicked = np.array(examinations) * np.array(likes)
            expected += probability * liked * weighted_clicks(clicked, positions, EXAMINED, np.inf)
    np.testing.assert_allclose(expected, relevance, atol=1e-12)


def test_clipping_and_clicks_of_other_weights():
    np.testing.assert_allclose(weighted_clicks(np.ones(2), np.array([0, 3]), EXAMINED, 2.0), [1.0, 2.0])
    weights = weighted_clicks(np.array([0, 2.0, 0, 0, 1]), np.array([0, 1, 0, 1, 2]), EXAMINED, np.inf)
    np.testing.assert_allclose(weights, [0, 2 / 0.6, 0, 0, 1 / 0.35])


def test_refusals():
    with pytest.raises(InvalidInput, match="row 1: position 1 has a click, but is examined with probability 0"):
        weighted_clicks(np.ones(2), np.array([0, 1]), [1.0, 0.0], 2.0)
    with pytest.raises(InvalidInput, match="outside"):
        weighted_clicks(np.ones(1), np.array([7]), EXAMINED, 2.0)
    with pytest.raises(InvalidInput, match="clip = nan must be a weight above 0"):
        weighted_clicks(np.ones(1), np.array([0]), EXAMINED, float("nan"))
    with pytest.raises(InvalidInput, match="position_bias needs 5 probabilities above 0"):
        checked_examined(EXAMINED, 5)
    with pytest.raises(InvalidInput, match="at least two"):
        held_out_lists(1, 0)
