"""Propensity weights that undo position bias."""

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.training.clicks.ips_weights import click_weights, clicked_pairs, weighted_relevance

EXAMINED = np.array([1.0, 0.6, 0.35, 0.2])


def test_weighted_clicks_are_unbiased_by_enumeration():
    """E[weighted relevance] over looking and clicking is the relevance, whatever the places."""
    relevance, positions = np.array([0.9, 0.2, 0.5]), [2, 0, 1]
    expected = np.zeros(3)
    for examinations in np.ndindex(2, 2, 2):
        probability = np.prod([EXAMINED[p] if look else 1 - EXAMINED[p] for look, p in zip(examinations, positions)])
        for likes in np.ndindex(2, 2, 2):
            liked = np.prod([r if like else 1 - r for like, r in zip(likes, relevance)])
            clicked = np.array(examinations) * np.array(likes)
            expected += probability * liked * weighted_relevance([0, 3], positions, clicked, EXAMINED)
    np.testing.assert_allclose(expected, relevance, atol=1e-12)


def test_clipping_and_pairs():
    np.testing.assert_allclose(click_weights([0, 3], EXAMINED, clip=2.0), [1.0, 2.0])
    grades = weighted_relevance([0, 2, 5], [0, 1, 0, 1, 2], [0, 1, 0, 0, 1], EXAMINED)
    np.testing.assert_allclose(grades, [0, 1 / 0.6, 0, 0, 1 / 0.35])
    pairs, costs = clicked_pairs([0, 2, 5], grades)
    assert pairs.tolist() == [[0, 1], [2, 4], [3, 4]]
    np.testing.assert_allclose(costs, [1 / 0.6, 1 / 0.35, 1 / 0.35])
    assert clicked_pairs([0, 2], [0.0, 0.0]).pairs.shape == (0, 2)


def test_refusals():
    with pytest.raises(InvalidInput, match="row 1: position 1 is examined with probability 0"):
        click_weights([0, 1], [1.0, 0.0])
    with pytest.raises(InvalidInput, match="outside"):
        click_weights([7], EXAMINED)
