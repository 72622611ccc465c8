"""Batch training: its losses beside their slow forms, and the bundle method beside LIBLINEAR on the same objective."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from benchmarks.bench_folds import MAX_PAIRS, n_pairs, pairs_with_weights
from benchmarks.datasets import available_folds
from benchmarks.measurement import Row, alone, best_of, in_turn, row
from rankloop.core.types import Floats, Rows
from rankloop.data import Dataset
from rankloop.data.dataset import Collection
from rankloop.engine.base import usable_cores
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import SolverSettings, fit

REPEATS, REGULARISATION, CLOSE = 7, 1e-2, 1e-3
TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)


def run() -> list[Row]:
    trained = [each for name, folds in available_folds() for each in _liblinear(name, folds[0].train)]
    return [_ordinal(), _rectangular(), _click_regression(), *trained]


def _ordinal() -> Row:
    rng = np.random.default_rng(0)
    m, risk = 100_000, risk_of("ordinal")
    scores, grades, offsets = rng.normal(size=m), rng.integers(0, 5, m).astype(float), np.array([0, m])
    seconds = best_of(lambda: risk.of_lists(scores, grades, offsets), REPEATS)
    return alone("ordinal loss and slope, 100,000 items", seconds, target="≤ 150 ms")


def _rectangular() -> Row:
    """The same loss by an assignment of all 500 items to all 500 positions, those beyond the cutoff worth nothing."""
    rng = np.random.default_rng(0)
    m, k = 500, 10
    risk: Any = risk_of("nDCG@10")
    scores, grades, offsets = rng.normal(size=m), rng.integers(0, 3, m).astype(float), np.array([0, m])
    a, c = np.zeros(m), np.zeros(m)
    a[:k], c[:k] = 1.0 / np.log2(np.arange(k) + 2.0), (np.arange(k) + 1.0) ** -0.25
    gains = 2.0**grades - 1.0
    ideal = np.sort(gains)[::-1] @ a
    anchors = risk.ideal_anchors(grades, offsets)

    def square() -> float:
        worth = np.outer(scores, c) - np.outer(gains / ideal, a)
        return float(1.0 + worth[linear_sum_assignment(worth, maximize=True)].sum() - anchors @ scores)

    value = risk.of_lists(scores, grades, offsets)[0]
    if abs(square() - value) > 1e-9 * value:
        raise AssertionError("the two assignments disagree")
    times = in_turn(lambda: risk.of_lists(scores, grades, offsets), square, REPEATS)
    return row("nDCG@10 loss and slope, 500 items", times, target="≥ 50×", note="peer: scipy's square assignment")


def _click_regression() -> Row:
    """The logistic loss of 30,000 shown items with 20 of 2^17 columns each, to 0.1 % of the optimum."""
    rng = np.random.default_rng(0)
    n_lists, n_columns, liking = 3_000, 2**17, rng.normal(size=2**17)
    collection, clicked = Collection(n_columns), []
    for _ in range(n_lists):
        picked = (n_columns * rng.random((10, 20)) ** 3).astype(np.int64)  # some columns are frequent, most are rare
        columns, positions = np.unique(picked, return_inverse=True)
        rows = Rows(np.arange(11) * 20, positions.ravel(), np.full(200, 20**-0.5), columns, np.empty((10, 0)))
        collection.add("", rows)
        clicked.append(rng.random(10) < 1.0 / (1.0 + np.exp(1.5 - liking[picked].sum(axis=1) * 20**-0.5)))
    data = collection.dataset(np.concatenate(clicked).astype(np.float64))
    n, strength = len(data.relevance), 1e-4
    matrix = csr_matrix((data.features.values, data.features.positions, data.features.starts), (n, data.n_features))
    signs, settings = np.where(data.relevance > 0, 1.0, -1.0), SolverSettings(tolerance=CLOSE)

    def objective(weights: Floats) -> float:
        return float(np.log1p(np.exp(-signs * (matrix @ weights))).mean() + strength / 2 * weights @ weights)

    def theirs() -> Floats:
        model = LogisticRegression(C=1.0 / (strength * n), fit_intercept=False, tol=1e-4, max_iter=1000)
        return np.asarray(model.fit(matrix, signs).coef_[0])

    def ours() -> Floats:
        return fit(data, risk_of("clicked_items"), strength, settings=settings, per=n).weights

    ahead = objective(ours()) - objective(theirs())
    if ahead > CLOSE:
        raise AssertionError(f"the optimum is missed by {ahead}")
    note = f"peer: scikit-learn's L-BFGS on one thread, ours on {usable_cores()}; objectives differ by {ahead:.1g}"
    return row("click regression, 30,000 items in 2^17 columns", in_turn(ours, theirs, 3), note=note)


def _liblinear(name: str, data: Dataset) -> Iterator[Row]:
    """Seconds until the objective is within 0.1 % of the optimum; LIBLINEAR is given its pairs for nothing."""
    risk = risk_of("ordinal")
    if n_pairs(data) > MAX_PAIRS:
        return
    exact = fit(data, risk, REGULARISATION, settings=SolverSettings(tolerance=1e-6))
    optimum, at_zero = exact.solution.objective, exact.at_zero
    near = SolverSettings(tolerance=CLOSE * optimum / (at_zero - optimum))
    rows, shares = pairs_with_weights(data)
    signs = np.resize([1.0, -1.0], len(rows))
    signed = rows * signs[:, None]

    def fitted(tolerance: float) -> Floats:
        options = {"fit_intercept": False, "tol": tolerance, "max_iter": 100_000, "random_state": 0}
        machine = LinearSVC(loss="hinge", C=1 / REGULARISATION, **options)
        weights: Floats = machine.fit(signed, signs, sample_weight=shares).coef_[0]
        return weights

    def objective(weights: Floats) -> float:
        hinge = np.sum(shares * np.maximum(0.0, 1.0 - rows @ weights))
        return float(0.5 * REGULARISATION * weights @ weights + hinge)

    enough = (tolerance for tolerance in TOLERANCES if objective(fitted(tolerance)) <= optimum * (1 + CLOSE))
    chosen = next(enough, TOLERANCES[-1])
    times = in_turn(lambda: fit(data, risk, REGULARISATION, settings=near), lambda: fitted(chosen), 3)
    note = f"{len(rows):,} pairs, {rows.nbytes / 1e6:.0f} MB, made beforehand; hinge, tol={chosen:g}"
    yield row(f"{name}: ordinal loss to 0.1 %", times, peer="LIBLINEAR", judged="the same objective", note=note)
