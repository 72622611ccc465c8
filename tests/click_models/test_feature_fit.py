"""The click model: its likelihood by enumeration of who left, its optimum, and known parameters found again."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from rankloop.click_models.feature_fit import (
    AttractionFit,
    FeatureRows,
    attractive,
    cells_by_last_click,
    cells_by_position,
    fit_attraction,
    fit_clicks,
    last_clicks,
    logistic,
    reading_posterior,
)


def shown(clicked: Any, sessions: Any = None, browsing: bool = False) -> FeatureRows:
    """Pages of the same length."""
    clicks = np.asarray(clicked, dtype=np.float64)
    n, k = clicks.shape
    page = np.repeat(np.arange(n), k)
    going = np.column_stack([np.ones(n * k), np.zeros(n * k)])
    own = page if sessions is None else np.repeat(sessions, k)
    position = np.tile(np.arange(k), n)
    cells = cells_by_last_click(k) if browsing else cells_by_position(k)
    cell = cells.at[position, last_clicks(position, clicks.ravel(), page) + 1]
    return FeatureRows(position, clicks.ravel(), page, own, going, cell, n, int(own.max()) + 1, cells)


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
        assert np.exp(reading_posterior(shown([clicks]), p, odds).likelihood) == pytest.approx(by_hand)
    assert total == pytest.approx(1.0)


def test_who_is_still_there_follows_from_the_clicks_above() -> None:
    """P(click at i | clicks above) = P(there | clicks above) · p[i]."""
    rng = np.random.default_rng(1)
    p, odds = rng.random(4), rng.normal(size=4)
    for clicks in product((0, 1), repeat=4):
        there = reading_posterior(shown([clicks]), p, odds).from_above
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
        held = weights @ weights + 0.02 * odds[0] ** 2 + odds[1] ** 2 + 2.0 * np.sum(np.diff(log_e) ** 2)
        return reading_posterior(pages, p, pages.going @ odds).likelihood - 0.5 * held

    best = value(found)
    for entry in range(1, len(found)):
        for step in (-1e-2, 1e-2):
            moved = found.copy()
            moved[entry] += step
            if entry < 4 and moved[entry] > 0.0:
                continue  # no position is examined more than the first
            assert value(moved) < best + 1e-5


def simulated(rng: Any, n: int, examined: Any, going_on: float) -> tuple[Any, FeatureRows]:
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
    twice = FeatureRows(
        *(np.concatenate([column, column[again]]) for column in pages[:6]), pages.n_pages, 1500, pages.cells
    )
    rows = np.concatenate([features, features[again]])
    new = fit_attraction(rows, twice, log_e + step, np.ones(len(rows))).weights
    moved = fit.moved(counts - 1.0, step)
    assert np.abs(moved - new).max() < 0.15 * np.abs(new - fit.weights).max()


def test_the_last_click_is_the_nearest_above_on_the_same_page() -> None:
    clicks = (np.random.default_rng(5).random((40, 5)) < 0.4).astype(float)
    pages = shown(clicks, browsing=True)
    found = last_clicks(pages.position, pages.clicked, pages.page).reshape(40, 5)
    for page, own in enumerate(clicks):
        for position in range(5):
            above = [i for i in range(position) if own[i]]
            assert found[page, position] == (above[-1] if above else -1)
    at = pages.cells.at
    reached = [at[i, j] for i in range(5) for j in range(i + 1)]
    assert sorted(reached) == list(range(pages.cells.n)) == list(range(15))
    assert pages.cells.position[at[3, 2]] == 3


def test_examination_by_the_last_click_is_found_again() -> None:
    rng, n = np.random.default_rng(6), 6000
    table = np.array([[1.0, 0, 0, 0], [0.6, 0.9, 0, 0], [0.4, 0.5, 0.8, 0]])  # column 0: no click above
    features = np.column_stack([np.ones(3 * n), rng.normal(size=3 * n)])
    attraction = attractive(features, np.array([-0.3, 1.0])).reshape(n, 3)
    clicks, last = np.zeros((n, 3)), np.zeros(n, dtype=np.int64)
    for position in range(3):
        clicks[:, position] = rng.random(n) < table[position, last] * attraction[:, position]
        last = np.where(clicks[:, position] > 0, position + 1, last)
    pages = shown(clicks, browsing=True)
    fit, blind = fit_clicks(features, pages), fit_clicks(features, shown(clicks))
    for position in range(3):
        found = np.exp(fit.log_examined[pages.cells.at[position, : position + 1]])
        assert found == pytest.approx(table[position, : position + 1], abs=0.06)
    lead = fit.held_out - blind.held_out
    assert lead.sum() > 4 * np.sqrt(n) * lead.std()


def test_held_out_is_what_leaving_a_session_out_gives() -> None:
    """Each session's likelihood under a fit to the others, against one step from the fit to all."""
    rng, n = np.random.default_rng(7), 60
    features = rng.normal(size=(3 * n, 2))
    clicks = (rng.random((n, 3)) < attractive(features, np.array([1.0, -1.0])).reshape(n, 3) * [1.0, 0.7, 0.5]) * 1.0
    pages = shown(clicks)
    fit = fit_clicks(features, pages)
    left_out = 0.0
    for page in range(n):
        rest = np.delete(np.arange(n), page)
        own = fit_clicks(features.reshape(n, 3, 2)[rest].reshape(-1, 2), shown(clicks[rest]))
        p = np.exp(own.log_examined) * attractive(features[3 * page : 3 * page + 3], own.weights)
        left_out += float(np.log(np.where(clicks[page] > 0, p, 1 - p)).sum())
    optimism = fit.likelihood - left_out
    assert optimism > 1.0
    assert fit.likelihood - fit.held_out.sum() == pytest.approx(optimism, rel=0.25)
