"""Buying grades: the estimate is unbiased, the bounds hold, one grade of many lists is worth more than all of few."""

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from research.bounds.grade_sampling import (
    Lists,
    all_grades_excess,
    averaged_descent,
    logistic_risk,
    one_grade_excess,
    selective_run,
)

RADIUS, N_ITEMS, N_FEATURES = 4.0, 20, 6
TRUE = np.array([2.0, -2.0, 1.0, 0.0, 0.0, 0.0])


def lists_of(n_lists, rng):
    """Items of a list resemble each other, as those of a query do."""
    topic = rng.normal(size=(n_lists, 1, N_FEATURES))
    features = 0.9 * topic + 0.45 * rng.normal(size=(n_lists, N_ITEMS, N_FEATURES))
    features /= np.maximum(1.0, np.linalg.norm(features, axis=2, keepdims=True))
    grades = (rng.random((n_lists, N_ITEMS)) < 1.0 / (1.0 + np.exp(-features @ TRUE))).astype(float)
    return Lists(features, grades)


def test_a_random_grade_gives_the_gradient_on_average():
    rng = np.random.default_rng(0)
    lists, weights, step = lists_of(1, rng), rng.normal(size=N_FEATURES), 1e-6
    singles = [Lists(lists.features[:, [i]], lists.grades[:, [i]]) for i in range(N_ITEMS)]
    for direction in np.eye(N_FEATURES):
        slopes = [
            (logistic_risk(each, weights + step * direction) - logistic_risk(each, weights - step * direction))
            / (2 * step)
            for each in (lists, *singles)
        ]
        assert slopes[0] == pytest.approx(np.mean(slopes[1:]), abs=1e-8)


def test_one_grade_of_many_lists_is_worth_more_than_all_of_few():
    rng = np.random.default_rng(1)
    new = lists_of(4000, rng)
    best = min(
        logistic_risk(new, TRUE), logistic_risk(new, averaged_descent(lists_of(20_000, rng), RADIUS, False, rng))
    )
    n_grades, excess = 1000, {True: [], False: []}
    for _ in range(12):
        for one in (True, False):
            lists = lists_of(n_grades if one else n_grades // N_ITEMS, rng)
            excess[one].append(logistic_risk(new, averaged_descent(lists, RADIUS, one, rng)) - best)
    assert np.mean(excess[True]) < 0.6 * np.mean(excess[False])
    assert np.mean(excess[True]) <= one_grade_excess(1.0, RADIUS, 1.0, n_grades)
    assert np.mean(excess[False]) <= all_grades_excess(1.0, RADIUS, 1.0, n_grades, N_ITEMS)


def test_bounds_differ_by_the_root_of_the_length():
    assert all_grades_excess(1.0, 2.0, 3.0, 500, 16) == pytest.approx(4.0 * one_grade_excess(1.0, 2.0, 3.0, 500))
    assert one_grade_excess(1.0, 2.0, 3.0, 500) == pytest.approx(6.0 * np.sqrt(2 / 500))
    with pytest.raises(InvalidInput, match="n_grades"):
        one_grade_excess(1.0, 1.0, 1.0, 0)


def separable_pairs(rng, n_pairs, margin):
    direction = np.ones(5) / np.sqrt(5.0)
    pairs = rng.normal(size=(n_pairs, 5))
    pairs /= np.linalg.norm(pairs, axis=1, keepdims=True)
    pairs *= np.where(pairs @ direction < 0.0, -1.0, 1.0)[:, None]
    return pairs[pairs @ direction >= margin]


def test_selective_sampling_keeps_the_bound_and_asks_less():
    margin = 0.1
    runs, n_pairs = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pairs = separable_pairs(rng, 3000, margin)
        runs.append(selective_run(pairs, 0.5, rng))
        n_pairs.append(len(pairs))
    mistakes, asked = np.mean(runs, axis=0)
    assert mistakes <= 1.0 / margin**2  # ‖u‖ = 1/margin, ‖z‖ = 1, b = ½
    assert asked < 0.5 * np.mean(n_pairs)


def test_one_step_of_the_proof_of_selective_sampling():
    """E[asked·(2b + 2|p|)] = 2b on a mistake, and an asked mistake moves w by at most that towards a·u."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        w, u = rng.normal(size=3), rng.normal(size=3) * 3
        z = rng.normal(size=3)
        z /= np.linalg.norm(z)
        if w @ z > 0.0 or u @ z < 1.0:
            continue
        b, p = rng.uniform(0.1, 2.0), abs(w @ z)
        a = b + 0.5
        moved = np.sum((w + z - a * u) ** 2) - np.sum((w - a * u) ** 2)
        assert moved <= -(2 * b + 2 * p) + 1e-9
        assert b / (b + p) * (2 * b + 2 * p) == pytest.approx(2 * b)
