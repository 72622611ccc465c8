"""The click model: its likelihood by enumeration of who left, its optimum, and known parameters found again."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from rankloop.evaluation.off_policy.lists.click_model import (
    AttractionFit,
    Shown,
    attractive,
    chain_of,
    fit_attraction,
    fit_clicks,
    logistic,
)


def shown(clicked: Any, sessions: Any = None) -> Shown:
    """Pages of the same length."""
    clicks = np.asarray(clicked, dtype=np.float64)
    n, k = clicks.shape
    page = np.repeat(np.arange(n), k)
    going = np.column_stack([np.ones(n * k), np.zeros(n * k)])
    own = page if sessions is None else np.repeat(sessions, k)
    return Shown(np.tile(np.arange(k), n), clicks.ravel(), page, own, going, n, k, int(own.max()) + 1)


def probability(clicks: tuple[int, ...], p: Any, go: Any) -> float:
    """Σ over the clicks after which the person may have left, which the last can only be."""
    total = 0.0
    for left in [None, *(i for i, hit in enumerate(clicks) if hit)]:
        path = 1.0
        for i, hit in enumerate(clicks):
            if left is not None and i > left:
                path *= float(not hit)
                continue
            path *= p[i] if hit else 1.0 - p[i]
            if hit:
                path *= 1.0 - go[i] if left == i else go[i]
        total += path
    return total


def test_the_likelihood_is_the_sum_over_who_left() -> None:
    rng = np.random.default_rng(0)
    p, odds = rng.random(4), rng.normal(size=4)
    total = 0.0
    for clicks in product((0, 1), repeat=4):
        by_hand = probability(clicks, p, logistic(odds))
        total += by_hand
        assert np.exp(chain_of(shown([clicks]), p, odds).likelihood) == pytest.approx(by_hand)
    assert total == pytest.approx(1.0)


def test_who_is_still_there_follows_from_the_clicks_above() -> None:
    """P(click at i | clicks above) = P(there | clicks above) · p[i]."""
    rng = np.random.default_rng(1)
    p, odds = rng.random(4), rng.normal(size=4)
    for clicks in product((0, 1), repeat=4):
        there = chain_of(shown([clicks]), p, odds).from_above
        for i in range(4):
            rests = list(product((0, 1), repeat=3 - i))
            above = [sum(probability((*clicks[:i], hit, *rest), p, logistic(odds)) for rest in rests) for hit in (0, 1)]
            assert there[i] * p[i] == pytest.approx(above[1] / sum(above))


def test_no_step_from_the_optimum_is_better() -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(400, 2))
    pages = shown((rng.random((100, 4)) < 0.4).astype(float))
    fit = fit_clicks(features, pages, dependent=True)
    found = np.concatenate([fit.parameters, fit.weights])

    def value(parameters: Any) -> float:
        log_e, odds, weights = parameters[:4], parameters[4:6], parameters[6:]
        p = np.minimum(np.exp(log_e[pages.position]) * attractive(features, weights), 1 - 1e-9)
        held = weights @ weights + odds @ odds + 2.0 * np.sum(np.diff(log_e) ** 2)
        return chain_of(pages, p, pages.going @ odds).likelihood - 0.5 * held

    best = value(found)
    for entry in range(1, len(found)):
        for step in (-1e-2, 1e-2):
            moved = found.copy()
            moved[entry] += step
            if entry < 4 and moved[entry] > 0.0:
                continue  # no position is examined more than the first
            assert value(moved) < best + 1e-5


def simulated(rng: Any, n: int, examined: Any, going_on: float) -> tuple[Any, Shown]:
    k = len(examined)
    features = np.column_stack([np.ones(n * k), rng.normal(size=n * k)])
    attraction = attractive(features, np.array([-0.5, 1.0])).reshape(n, k)
    clicks, there = np.zeros((n, k)), np.ones(n, dtype=bool)
    for position in range(k):
        clicks[:, position] = there & (rng.random(n) < examined[position] * attraction[:, position])
        there &= (clicks[:, position] == 0) | (rng.random(n) < going_on)
    return features, shown(clicks)


@pytest.mark.parametrize("going_on", [1.0, 0.2])
def test_known_parameters_are_found_again(going_on: float) -> None:
    examined = np.array([1.0, 0.7, 0.4, 0.2])
    features, pages = simulated(np.random.default_rng(3), 5000, examined, going_on)
    fit = fit_clicks(features, pages, dependent=going_on < 1.0)
    assert np.exp(fit.log_examined) == pytest.approx(examined, abs=0.05)
    assert fit.weights == pytest.approx([-0.5, 1.0], abs=0.12)
    if going_on < 1.0:
        assert logistic(fit.going[:1]) == pytest.approx(going_on, abs=0.05)


def test_one_step_goes_where_a_new_fit_would() -> None:
    """Sessions that count twice, and examination that falls more steeply."""
    examined = np.array([1.0, 0.6, 0.4])
    features, pages = simulated(np.random.default_rng(4), 1500, examined, 1.0)
    there, log_e = np.ones(len(features)), np.log(examined)
    fit: AttractionFit = fit_attraction(features, pages, log_e, there)
    step = np.array([0.0, -0.05, -0.1])
    counts = np.where(np.arange(1500) < 150, 2.0, 1.0)
    again = np.repeat(counts[pages.page] > 1, 1)
    twice = Shown(
        *(np.concatenate([column, column[again]]) for column in pages[:5]), pages.n_pages, pages.n_positions, 1500
    )
    rows = np.concatenate([features, features[again]])
    new = fit_attraction(rows, twice, log_e + step, np.ones(len(rows))).weights
    moved = fit.moved(counts - 1.0, step)
    assert np.abs(moved - new).max() < 0.15 * np.abs(new - fit.weights).max()
