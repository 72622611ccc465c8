"""Fair pairs: the step of a logistic regression, the same whichever way a pair was shown, and better rankings."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop import InvalidInput, build, parse_measure, play
from rankloop.core.kernels import ALL_POSITIONS
from rankloop.learners.fair_pairs import FairPairs, _pair_gradient
from rankloop.learners.three_pr import ThreePR
from rankloop.simulate.streams.simulated_queries import WebSearch
from rankloop.simulate.users.readers import GaussianGrader


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def orders(scores, swap):
    """Every pairing and every choice of swaps: the ranking, where the pairs begin, and the probability."""
    best = list(np.argsort(-scores, kind="stable"))
    for first in (0, 1):
        pairs = list(range(first, len(best) - 1, 2))
        for flips in itertools.product((0, 1), repeat=len(pairs)):
            ranking = best.copy()
            for j, flip in zip(pairs, flips):
                if flip:
                    ranking[j], ranking[j + 1] = best[j + 1], best[j]
            probability = math.prod(swap if flip else 1 - swap for flip in flips)
            yield np.array(ranking), first, 0.5 * probability


def expected_step(scores, newest, swap, click, bias, either=False):
    """Over orders and clicks: item i at place p is clicked with probability click[i] · bias[p]."""
    total = np.zeros(len(scores))
    for ranking, first, p_order in orders(scores, swap):
        probabilities = click[ranking] * bias
        for pattern in itertools.product((0.0, 1.0), repeat=len(ranking)):
            p_clicks = math.prod(c if hit else 1 - c for hit, c in zip(pattern, probabilities))
            clicked = np.zeros(len(scores))
            clicked[ranking] = pattern
            total += p_order * p_clicks * _pair_gradient(newest, scores, ranking, first, swap, clicked, either)
    return total


@pytest.mark.parametrize("either", [False, True])
@pytest.mark.parametrize("swap", [0.1, 0.5, 0.8])
def test_the_step_is_unbiased(swap, either):
    """Equally good items that the newest weights score alike get no step, wherever they were shown and how often."""
    scores, bias = np.array([0.4, 1.0, -0.3, 0.0]), np.array([1.0, 0.7, 0.4, 0.2])
    step = expected_step(scores, np.zeros(4), swap, np.full(4, 0.6), bias, either)
    np.testing.assert_allclose(step, 0.0, atol=1e-14)
    better = expected_step(scores, np.zeros(4), swap, np.array([0.6, 0.6, 0.9, 0.6]), bias, either)
    assert better[2] > 0


def test_the_swap_probability_does_not_change_the_expected_step():
    scores, newest = np.array([0.4, 1.0, -0.3]), np.array([0.2, -1.0, 0.5])
    click, bias = np.array([0.5, 0.2, 0.7]), np.array([1.0, 0.6, 0.3])
    steps = [expected_step(scores, newest, swap, click, bias) for swap in (0.05, 0.3, 0.5, 0.9)]
    for step in steps[1:]:
        np.testing.assert_allclose(step, steps[0], atol=1e-14)


@given(st.integers(2, 7), st.data(), st.floats(0.05, 0.95))
def test_pair_gradient_twin(n_items, data, swap):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    scores, newest = rng.normal(size=n_items).round(1), rng.normal(size=n_items)
    best = np.argsort(-scores, kind="stable").tolist()
    ranking, first, _ = data.draw(st.sampled_from(list(orders(scores, swap))))
    clicked = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=n_items, max_size=n_items)))
    wanted = np.zeros(n_items)
    for j in range(first, n_items - 1, 2):
        upper, lower = ranking[j], ranking[j + 1]
        probability = swap if best[j] != upper else 1 - swap
        step = max(0.0, clicked[lower] - clicked[upper]) * sigmoid(newest[upper] - newest[lower]) / 2 / probability
        wanted[lower] += step
        wanted[upper] -= step
    np.testing.assert_allclose(_pair_gradient(newest, scores, ranking, first, swap, clicked), wanted, atol=1e-12)


@given(st.integers(2, 7), st.data(), st.sampled_from([ALL_POSITIONS, 1, 3, 4, 9]))
def test_pair_gradient_of_either_click_twin(n_items, data, shown):
    """A pair counts for whichever item was clicked more, unless one of the two is not seen."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    scores, newest, swap = rng.normal(size=n_items).round(1), rng.normal(size=n_items), 0.2
    best = np.argsort(-scores, kind="stable").tolist()
    ranking, first, _ = data.draw(st.sampled_from(list(orders(scores, swap))))
    seen = n_items if shown == ALL_POSITIONS else min(shown, n_items)
    clicked = np.zeros(n_items)
    clicked[ranking[:seen]] = rng.integers(0, 3, seen)
    wanted = np.zeros(n_items)
    for j in range(first, seen - 1, 2):
        loser, winner = sorted((ranking[j], ranking[j + 1]), key=lambda item: clicked[item])
        probability = swap if best[j] != ranking[j] else 1 - swap
        step = (clicked[winner] - clicked[loser]) * sigmoid(newest[loser] - newest[winner]) / 2 / probability
        wanted[winner] += step
        wanted[loser] -= step
    gradient = _pair_gradient(newest, scores, ranking[:seen], first, swap, clicked, True)
    np.testing.assert_allclose(gradient, wanted, atol=1e-12)
    upward = _pair_gradient(newest, scores, ranking, first, swap, clicked)
    assert np.array_equal(_pair_gradient(newest, scores, ranking[:seen], first, swap, clicked, False), upward)


def test_the_list_is_sorted_by_the_mean_of_all_weights():
    rounds = list(play(FairPairs(), WebSearch(n_queries=30), GaussianGrader(), horizon=150, seed=0))
    newest = [rounds[0].state.newest] + [round.learned.newest for round in rounds]
    np.testing.assert_allclose(rounds[-1].learned.weights, np.mean(newest, axis=0), rtol=1e-10, atol=1e-12)


def test_the_mean_forgets_what_is_older_than_its_memory():
    rounds = list(play(FairPairs(memory=8), WebSearch(n_queries=30), GaussianGrader(), horizon=40, seed=0))
    mean = rounds[0].state.weights
    for round in rounds:
        mean = mean + (round.learned.newest - mean) / (min(round.t, 8) + 2)
        np.testing.assert_allclose(round.learned.weights, mean, rtol=1e-10, atol=1e-12)


def test_it_shows_better_rankings_than_3pr():
    ndcg, late = parse_measure("nDCG@5"), {}
    for learner in (FairPairs(), ThreePR(), build("random_order", "learner")):
        values = [
            ndcg(round.decision.ranking, round.relevance)
            for round in play(learner, WebSearch(), GaussianGrader(), horizon=6000, seed=1)
        ]
        late[type(learner).__name__] = np.mean(values[-1500:])
    assert late["FairPairs"] > late["ThreePR"] > late["RandomOrder"] + 0.1


def test_bad_parameters_are_refused():
    for wrong in ({"swap": 0.0}, {"swap": 1.0}, {"swap": math.nan}, {"memory": -1}, {"learning_rate": 0.0}):
        with pytest.raises(InvalidInput):
            FairPairs(**wrong)
