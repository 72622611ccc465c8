"""The small quadratic program against its optimality conditions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop.batch.cutting_planes import minimise_on_simplex


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
