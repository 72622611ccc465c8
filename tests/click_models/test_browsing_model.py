"""Position bias found again in simulated clicks."""

import math

import numpy as np
import pytest

from rankloop.click_models.base import Prior
from rankloop.click_models.browsing_model import PositionBasedModel, bias_from_swaps, position_bias
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ranking_of
from rankloop.core.registry import build
from rankloop.logs.list_log import click_arrays
from rankloop.simulate.play import play

EXAMINED = np.array([1.0, 0.6, 0.35, 0.2])


def test_position_bias_of_shuffled_rankings():
    rng = np.random.default_rng(0)
    attractive = rng.uniform(0.1, 0.9, 40)
    pair, position = rng.integers(0, 40, 60_000), rng.integers(0, 4, 60_000)
    clicked = (rng.random(60_000) < EXAMINED[position] * attractive[pair]).astype(float)
    np.testing.assert_allclose(position_bias(pair, position, clicked), EXAMINED, atol=0.02)


def test_position_bias_needs_a_pair_at_two_positions():
    clicked = np.array([1.0, 0.0, 0.0])
    assert position_bias(np.array([0, 1, 0]), np.array([0, 1, 0]), clicked) is None
    assert position_bias(np.array([0, 1, 0]), np.array([0, 1, 1]), clicked) is not None
    assert position_bias(np.array([0, 1, 0]), np.array([0, 0, 0]), clicked).tolist() == [1.0]


def test_one_round_by_hand():
    """Two pages of two rows: e = (1, 0.6), a = (0.5, 0.5); page 1 clicks pair 0 on top, page 2 nothing."""
    log = click_arrays(
        np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.array([1.0, 0, 0, 0]), ["q"] * 4, ["a", "b", "b", "a"]
    )
    fitted = PositionBasedModel.fit(log, Prior(np.array([0.5, 0.5]), 0.0), max_rounds=1)
    hidden = 0.3 * 0.5 / (1 - 0.3 * 0.5)  # examined though not clicked, at the second position: e starts at 0.3
    assert fitted.attraction.tolist() == pytest.approx([1 / (1 + hidden), 1e-6])
    assert fitted.examination[:, 0].tolist() == pytest.approx([1.0, (2 * hidden + 0.5) / (2 + 1)])
    expected = math.log(0.5) + math.log(0.5) + 2 * math.log(1 - 0.15) + 0.5 * (math.log(0.3) + math.log(0.7))
    assert fitted.evidence.objectives == (pytest.approx(expected),)


def swap_entries(rounds, n_positions):
    """The positions, clicks and probabilities of the pairs of `3pr`: what stayed had 1 − swap, what moved swap."""
    for _, decision, feedback in (arrival for each in rounds for arrival in each.arrived):
        receipt, before = decision.receipt, ranking_of(decision.receipt.scores)
        if receipt.first < 0:
            continue
        for upper in range(receipt.first, min(receipt.end, n_positions) - 1, 2):
            for position in (upper, upper + 1):
                item = decision.ranking[position]
                probability = 1.0 - receipt.swap if before[position] == item else receipt.swap
                yield (upper, position), item in feedback.items, probability


@pytest.mark.parametrize("swap", [0.5, 0.3])
def test_swaps_of_3pr_find_the_bias_while_it_learns(swap):
    users, n_positions = build("position_based(max_grade=1, shown=5)", "feedback"), 5
    stream, learner = build("linear_gaussian(n_items=8, n_features=4)", "stream"), build({"kind": "3pr", "swap": swap})
    entries = list(swap_entries(play(learner, stream, users, horizon=12_000, seed=0), n_positions))
    positions, clicked, probabilities = zip(*entries)
    examined = bias_from_swaps(positions, clicked, probabilities, n_positions)
    np.testing.assert_allclose(examined, users.propensities(8)[:n_positions], atol=0.06)


def test_swaps_by_hand():
    positions = [(0, 0), (0, 1), (0, 0), (1, 1), (1, 2)]
    examined = bias_from_swaps(positions, [1, 1, 1, 1, 0], [0.5, 0.5, 0.25, 0.5, 0.5], 3, smoothing=0.5)
    # upper clicks 1/.5 + 1/.25 = 6, lower 2; then 2 and 0
    np.testing.assert_allclose(examined, [1, 2.5 / 6.5, (2.5 / 6.5) * (0.5 / 2.5)])
    with pytest.raises(InvalidInput, match="row 1: the probability is 0"):
        bias_from_swaps([(0, 0), (0, 1)], [1, 1], [0.5, 0.0], 2)
