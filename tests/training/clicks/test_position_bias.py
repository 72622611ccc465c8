"""Position bias found again in simulated clicks, and propensity weights that undo it."""

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.types import Arrival, Decision, Query, clicks
from rankloop.simulate.play import play
from rankloop.training.clicks.ips_weights import click_weights, clicked_pairs, weighted_relevance
from rankloop.training.clicks.position_bias import bias_by_em, bias_from_swaps, impressions, swap_entries

EXAMINED = np.array([1.0, 0.6, 0.35, 0.2])


def test_em_finds_the_bias_of_shuffled_rankings():
    rng = np.random.default_rng(0)
    attractive = rng.uniform(0.1, 0.9, 40)
    pair, position = rng.integers(0, 40, 60_000), rng.integers(0, 4, 60_000)
    clicked = (rng.random(60_000) < EXAMINED[position] * attractive[pair]).astype(float)
    found = bias_by_em(impressions(pair, position, clicked))
    np.testing.assert_allclose(found.examined, EXAMINED, atol=0.02)
    assert found.rounds < 1000


@pytest.mark.parametrize("swap", [0.5, 0.3])
def test_swaps_of_3pr_find_the_bias_while_it_learns(swap):
    people, positions = build("position_based(max_grade=1, shown=5)", "feedback"), 5
    stream, learner = build("linear_gaussian(n_items=8, n_features=4)", "stream"), build({"kind": "3pr", "swap": swap})
    rounds = play(learner, stream, people, horizon=12_000, seed=0)
    found = bias_from_swaps(
        *swap_entries((arrival for each in rounds for arrival in each.arrived), positions), positions
    )
    np.testing.assert_allclose(found.examined, people.propensities(8)[:positions], atol=0.06)


def test_swaps_by_hand():
    positions = [(0, 0), (0, 1), (0, 0), (1, 1), (1, 2)]
    found = bias_from_swaps(positions, [1, 1, 1, 1, 0], [0.5, 0.5, 0.25, 0.5, 0.5], 3, smoothing=0.5)
    # upper clicks 1/.5 + 1/.25 = 6, lower 2; then 2 and 0
    np.testing.assert_allclose(found.examined, [1, 2.5 / 6.5, (2.5 / 6.5) * (0.5 / 2.5)])
    with pytest.raises(InvalidInput, match="row 1: the probability is 0"):
        bias_from_swaps([(0, 0), (0, 1)], [1, 1], [0.5, 0.0], 2)
    shown = Arrival(Query.of([[1.0], [2.0]]), Decision(np.arange(2), 0.0, ()), clicks([0]))
    with pytest.raises(InvalidInput, match="receipts of 3pr"):
        swap_entries([shown], 2)


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
    with pytest.raises(InvalidInput, match="0 or 1"):
        impressions([0], [0], [2.0])
