"""Losses of clicks beside scikit-learn's solvers, on sparse columns."""

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.core.types import Rows
from rankloop.data.dataset import Collection, SparseDataset
from rankloop.engine import Here
from rankloop.training.bundle import minimise
from rankloop.training.risks.base import risk_of
from rankloop.training.risks.pairwise import ClickedPairs, hinge_of_pairs
from rankloop.training.solution_path import objective_on
from tests.sparse_rows import to_array
from tests.training.clicks.test_batch import clicked_pairs

N_COLUMNS = 30


def sample(seed: int = 0) -> SparseDataset:
    """Lists of five items with four of thirty columns each, and their weighted clicks."""
    rng, collection, liking = default_rng(seed), Collection(N_COLUMNS), default_rng(7).normal(size=N_COLUMNS)
    clicks = []
    for q in range(60):
        picked = np.array([rng.permutation(N_COLUMNS)[:4] for _ in range(5)])
        columns, positions = np.unique(picked, return_inverse=True)
        rows = Rows(np.arange(6) * 4, positions.ravel(), np.ones(20), columns, np.empty((5, 0)))
        collection.add(str(q), rows)
        clicks.append((rng.random(5) < 1 / (1 + np.exp(-liking[picked].sum(axis=1)))) * rng.integers(1, 4, 5))
    return collection.dataset(np.concatenate(clicks).astype(float))


def solved(data: SparseDataset, loss: str, regularisation: float, per: int):
    with objective_on(data, risk_of(loss), Here(), per) as objective:
        return minimise(objective, np.zeros(data.n_features), regularisation=regularisation, tolerance=1e-9)


@pytest.mark.parametrize("regularisation", [0.1, 1e-3])
def test_click_regression_agrees_with_scikit_learn(regularisation: float):
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    data = sample()
    array, weights = to_array(data.features), np.maximum(data.relevance, 1.0)
    theirs = linear.LogisticRegression(
        C=1 / (regularisation * len(array)), fit_intercept=False, tol=1e-12, max_iter=10_000
    ).fit(array, data.relevance > 0, sample_weight=weights)
    found = solved(data, "clicked_items", regularisation, len(array))
    np.testing.assert_allclose(found.weights, theirs.coef_[0], atol=1e-4)
    w = theirs.coef_[0]
    signs = np.where(data.relevance > 0, 1.0, -1.0)
    value = np.mean(weights * np.log1p(np.exp(-signs * (array @ w)))) + regularisation / 2 * w @ w
    assert found.objective == pytest.approx(value, abs=1e-9)


def test_clicked_pairs_agree_with_liblinear():
    svm = pytest.importorskip("sklearn.svm", reason="LIBLINEAR comes with scikit-learn, which is not installed")
    data, regularisation = sample(1), 0.02
    array, rows, costs = to_array(data.features), [], []
    for first, end in zip(data.offsets[:-1], data.offsets[1:]):
        for clicked in range(first, end):
            others = [other for other in range(first, end) if other != clicked] if data.relevance[clicked] else []
            rows += [array[clicked] - array[other] for other in others]
            costs += [data.relevance[clicked]] * len(others)
    n_pairs = ClickedPairs.n_pairs(data.relevance, data.offsets)
    assert n_pairs == len(rows)
    signs, prices = np.resize([1.0, -1.0], n_pairs), np.array(costs) / (n_pairs * regularisation)
    machine = svm.LinearSVC(loss="hinge", fit_intercept=False, C=1.0, tol=1e-9, max_iter=1_000_000)
    theirs = machine.fit(np.array(rows) * signs[:, None], signs, sample_weight=prices).coef_[0]
    hinge = np.sum(prices * np.maximum(0, 1 - np.array(rows) @ theirs))
    found = solved(data, "clicked_pairs", regularisation, n_pairs)
    assert found.objective == pytest.approx(regularisation * (0.5 * theirs @ theirs + hinge), abs=1e-6)


def test_the_risk_is_the_hinge_over_all_clicked_pairs() -> None:
    rng = np.random.default_rng(0)
    scores, offsets = rng.normal(size=30), np.array([0, 10, 12, 30])
    weights = np.where(rng.random(30) < 0.3, 1.0 + rng.random(30), 0.0)
    pairs, costs = clicked_pairs(offsets, weights)
    expected, slope = hinge_of_pairs(scores, pairs, costs)
    value, grad = ClickedPairs().of_lists(scores, weights, offsets)
    assert ClickedPairs.n_pairs(weights, offsets) == len(pairs)
    assert value / len(pairs) == pytest.approx(expected, rel=1e-12)
    assert grad / len(pairs) == pytest.approx(slope, abs=1e-12)
