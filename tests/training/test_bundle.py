"""The bundle method reaches the optimum, whichever way that is known."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.optimize import minimize

from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset
from rankloop.engine import Here, Threads
from rankloop.training import bundle
from rankloop.training.bundle import RidgeModel, _minimise_on_simplex, minimise
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import objective_on


def sample(n_queries: int, n_items: int, n_features: int, seed: int = 0, noise: float = 1.0) -> Dataset:
    rng = default_rng(seed)
    features = rng.normal(size=(n_queries * n_items, n_features))
    grades = features @ rng.normal(size=n_features) + noise * rng.normal(size=len(features))
    return Dataset.of(features, np.clip(np.round(grades), 0, 2), np.arange(n_queries + 1) * n_items)


def solved(dataset: Dataset, loss: str, regularisation: float, **options):
    with objective_on(dataset, risk_of(loss), Threads(workers=1)) as objective:
        return minimise(objective, np.zeros(dataset.n_features), regularisation=regularisation, **options)


@pytest.mark.parametrize("regularisation", [1.0, 1e-3])
def test_least_squares_has_a_closed_form(regularisation: float):
    data = sample(20, 5, 6)
    found = solved(data, "least_squares", regularisation, tolerance=1e-7)
    X, y, n = data.features, data.relevance, data.n_queries
    best = np.linalg.solve(X.T @ X / n + regularisation * np.eye(6), X.T @ y / n)
    objective = 0.5 * np.sum((X @ best - y) ** 2) / n + 0.5 * regularisation * best @ best
    assert 0 <= found.objective - objective + 1e-12 <= 1e-5
    np.testing.assert_allclose(found.weights, best, atol=2e-2 * np.sqrt(1e-7 / regularisation) * 100 + 1e-3)


def test_ordinal_agrees_with_liblinear_on_all_pairs():
    svm = pytest.importorskip("sklearn.svm", reason="LIBLINEAR comes with scikit-learn, which is not installed")
    data, regularisation = sample(15, 6, 5), 0.05
    differences, weights = [], []
    for first, end in zip(data.offsets[:-1], data.offsets[1:]):
        pairs = [(i, j) for i in range(first, end) for j in range(first, end) if data.relevance[i] < data.relevance[j]]
        differences += [data.features[j] - data.features[i] for i, j in pairs]
        weights += [1 / (len(pairs) * data.n_queries * regularisation)] * len(pairs)
    rows, signs = np.array(differences), np.resize([1.0, -1.0], len(differences))
    machine = svm.LinearSVC(loss="hinge", fit_intercept=False, C=1.0, tol=1e-9, max_iter=1_000_000)
    machine.fit(rows * signs[:, None], signs, sample_weight=weights)
    theirs = machine.coef_[0]
    hinge = np.sum(np.array(weights) * np.maximum(0, 1 - rows @ theirs))
    found = solved(data, "ordinal", regularisation, tolerance=1e-6)
    assert found.objective == pytest.approx(regularisation * (0.5 * theirs @ theirs + hinge), abs=1e-5)


@pytest.mark.parametrize("loss", ["ndcg", "nDCG@2", "P@2", "neru"])
def test_structured_losses_agree_with_one_constraint_for_every_ranking(loss: str):
    data, regularisation, risk = sample(4, 4, 3, noise=0.1), 0.02, risk_of(loss)
    n = 4
    k = risk.cutoff or n
    a, c = np.zeros(n), np.zeros(n)
    a[:k], c[:k] = risk._discounts(k), (1.0 + np.arange(k)) ** -0.25
    slopes, offsets, owner = [], [], []
    for q in range(data.n_queries):
        own = slice(q * n, q * n + n)
        X, b = data.features[own], risk._gains(data.relevance[own])
        ideal = np.sort(b)[::-1] @ a
        ref = risk.ideal_anchors(data.relevance[own], np.array([0, n]))
        for order in permutations(range(n)) if ideal > 0 else ():
            position = np.argsort(order)
            slopes.append(X.T @ (c[position] - ref))
            offsets.append(1 - a[position] @ b / ideal)
            owner.append(q)
    S, o, rows = np.array(slopes), np.array(offsets), np.eye(data.n_queries)[owner]
    exact = minimize(  # over weights and one slack per query
        lambda z: 0.5 * regularisation * z[:3] @ z[:3] + z[3:].mean(),
        np.concatenate([np.zeros(3), np.ones(4)]),
        jac=lambda z: np.concatenate([regularisation * z[:3], np.full(4, 0.25)]),
        constraints=[
            {"type": "ineq", "fun": lambda z: rows @ z[3:] - S @ z[:3] - o, "jac": lambda z: np.hstack([-S, rows])},
            {"type": "ineq", "fun": lambda z: z[3:], "jac": lambda z: np.hstack([np.zeros((4, 3)), np.eye(4)])},
        ],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert exact.success
    assert solved(data, loss, regularisation, tolerance=1e-6).objective == pytest.approx(exact.fun, abs=1e-5)


def test_the_gap_is_proved_all_the_way_and_objectives_never_rise():
    found = solved(sample(30, 8, 10), "ordinal", 1e-3, tolerance=1e-6)
    assert found.converged
    assert found.gap <= 1e-6
    optimum = found.objective
    for before, after in zip(found.history, found.history[1:]):
        assert after.objective <= before.objective
        assert before.bound <= after.bound <= optimum + 1e-12


def test_a_warm_start_at_the_optimum_needs_little():
    data = sample(30, 8, 10)
    cold = solved(data, "ordinal", 1e-3, tolerance=1e-5)
    with objective_on(data, risk_of("ordinal"), Threads(workers=1)) as objective:
        warm = minimise(objective, cold.weights, regularisation=1e-3, tolerance=1e-5)
    assert warm.evaluations < cold.evaluations
    assert warm.objective <= cold.objective


def test_iterations_end_and_say_so():
    found = solved(sample(30, 8, 10), "ordinal", 1e-4, tolerance=1e-9, max_iterations=3)
    assert not found.converged
    assert found.iterations == 3
    assert found.gap > 1e-9


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"regularisation": 0.0}, "regularisation = .* must be"),
        ({"regularisation": 1.0, "tolerance": 0.0}, "tolerance = .* must be .* above 0"),
        ({"regularisation": 1.0, "tolerance": np.nan}, "tolerance = .* must be .* above 0"),
    ],
)
def test_wrong_settings_are_named(options: dict[str, float], complaint: str):
    with pytest.raises(InvalidInput, match=complaint):
        minimise(lambda w: (0.0, w), np.ones(2), **options)


@pytest.mark.parametrize("regularisation", [1e-10, 1e-14, 1e-16])
def test_cuts_that_numbers_cannot_tell_apart_end_the_search(regularisation: float):
    """The best so far stands, with the gap that is proved."""
    data = sample(4, 10, 5)
    found = solved(data, "least_squares", regularisation, tolerance=1e-9)
    X, y, n = data.features, data.relevance, data.n_queries
    best = 0.5 * np.sum((X @ np.linalg.lstsq(X, y, rcond=None)[0] - y) ** 2) / n
    assert best - 1e-9 <= found.objective <= 0.5 * np.sum(y**2) / n
    assert found.converged == (found.gap <= 1e-9 * (found.at_zero - found.objective + found.gap))
    assert found.objective - found.gap <= best + 1e-9


def test_a_risk_that_overflows_is_named():
    with pytest.raises(InvalidInput, match="scale the features"):
        minimise(lambda w: (np.inf, w), np.ones(2), regularisation=1.0)


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_no_cut_would_lower_the_quadratic_further(n_cuts: int, n_features: int, seed: int):
    rng = default_rng(seed)
    slopes, offsets = rng.normal(size=(n_cuts, n_features)), rng.normal(size=n_cuts)
    slopes[rng.random(n_cuts) < 0.2] = slopes[0]  # cuts that depend on each other
    slopes[0] *= seed % 2  # a cut without slope, as risk(w) ≥ 0 is one
    start = np.zeros(n_cuts)
    start[rng.integers(n_cuts)] = 1.0
    gram = slopes @ slopes.T
    alpha = _minimise_on_simplex(gram, offsets, start, 1e-9)
    assert alpha.min() >= 0.0
    assert abs(alpha.sum() - 1.0) < 1e-12
    slope = gram @ alpha - offsets
    assert alpha @ slope - slope.min() < 1e-7  # the duality gap over the simplex


def data(n_features: int = 40) -> Dataset:
    rng = default_rng(0)
    features = rng.normal(size=(600, n_features))
    grades = np.clip(np.round(features @ rng.normal(size=n_features) / 3 + rng.normal(size=600)), 0, 2)
    return Dataset.of(features, grades, np.arange(101) * 6)


@pytest.mark.parametrize(("loss", "tolerance"), [("list_net", 1e-7), ("clicked_items", 1e-7), ("ordinal", 2e-3)])
def test_merged_cuts_keep_the_bound(loss: str, tolerance: float):
    """With at most eight cuts the bound still only rises, and stays below the optimum."""
    with objective_on(data(), risk_of(loss), Here()) as objective:
        exact = bundle.minimise(objective, np.zeros(40), regularisation=1e-2, tolerance=1e-9)
        search = bundle._Search(objective, RidgeModel(40, 1e-2, max_cuts=8), tolerance, None)
        search.begin(np.zeros(40))
        bounds = []
        while not search.converged and search.iterations < 400:
            search.raise_bound()
            bounds.append(search.bound)
            search.search_line()
            assert len(search.model.slopes) <= 8
    assert search.converged
    assert bounds == sorted(bounds)
    assert bounds[-1] <= exact.objective + 1e-9
    assert search.objective == pytest.approx(exact.objective, abs=tolerance)
