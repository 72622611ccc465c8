"""The small quadratic program against its optimality conditions; wide cuts beside narrow ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop.data.dataset import Dataset
from rankloop.engine import Here
from rankloop.training import bundle
from rankloop.training.cutting_planes import WideModel, minimise_on_simplex
from rankloop.training.objective import objective_on
from rankloop.training.risks.base import risk_of


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_no_cut_would_lower_the_quadratic_further(n_cuts: int, n_features: int, seed: int):
    rng = default_rng(seed)
    slopes, offsets = rng.normal(size=(n_cuts, n_features)), rng.normal(size=n_cuts)
    slopes[rng.random(n_cuts) < 0.2] = slopes[0]  # cuts that depend on each other
    start = np.zeros(n_cuts)
    start[rng.integers(n_cuts)] = 1.0
    gram = slopes @ slopes.T
    alpha = minimise_on_simplex(gram, offsets, start, 1e-9, 10_000)
    assert alpha.min() >= 0.0
    assert abs(alpha.sum() - 1.0) < 1e-12
    slope = gram @ alpha - offsets
    assert alpha @ slope - slope.min() < 1e-7  # the duality gap over the simplex


def data(n_features: int = 40) -> Dataset:
    rng = default_rng(0)
    features = rng.normal(size=(600, n_features))
    grades = np.clip(np.round(features @ rng.normal(size=n_features) / 3 + rng.normal(size=600)), 0, 2)
    return Dataset.of(features, grades, np.arange(101) * 6)


@pytest.mark.parametrize("loss", ["ordinal", "list_net", "clicked_items", "clicked_pairs"])
def test_wide_cuts_lead_to_the_same_optimum(loss: str, monkeypatch: pytest.MonkeyPatch):
    dataset = data()
    with objective_on(dataset, risk_of(loss), Here()) as objective:
        found = []
        for wide in (10_000, 1):
            monkeypatch.setattr(bundle, "WIDE", wide)
            found.append(bundle.minimise(objective, np.zeros(40), regularisation=0.01, tolerance=1e-9))
    assert all(one.converged for one in found)
    assert found[0].objective == pytest.approx(found[1].objective, abs=2e-9)


@pytest.mark.parametrize(("loss", "tolerance"), [("list_net", 1e-7), ("clicked_items", 1e-7), ("ordinal", 2e-3)])
def test_merged_cuts_keep_the_bound(loss: str, tolerance: float):
    """With at most eight cuts the bound still only rises, and stays below the optimum."""
    with objective_on(data(), risk_of(loss), Here()) as objective:
        exact = bundle.minimise(objective, np.zeros(40), regularisation=1e-2, tolerance=1e-9)
        search = bundle._Search(objective, WideModel(40, 1e-2, max_cuts=8), 1e-2, tolerance, None)
        search.evaluate(np.zeros(40))
        bounds = []
        while search.gap > tolerance and search.iterations < 400:
            search.lower_bound()
            bounds.append(search.bound)
            search.line_search(search.stabilised())
            assert len(search.model.slopes) <= 8
    assert search.gap <= tolerance
    assert bounds == sorted(bounds)
    assert bounds[-1] <= exact.objective + 1e-9
    assert search.objective == pytest.approx(exact.objective, abs=tolerance)
