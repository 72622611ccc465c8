"""The assignment costs as little as that of scipy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.optimize import linear_sum_assignment

from rankloop.training.risks.structured_loss import _assign


@given(st.integers(1, 12), st.integers(0, 12), st.booleans(), st.integers(0, 10_000))
@settings(max_examples=200, deadline=None)
def test_assignments_cost_as_little_as_scipys(n_rows: int, more: int, whole: bool, seed: int):
    cost = default_rng(seed).normal(size=(n_rows, n_rows + more))
    cost = np.round(cost) if whole else cost  # whole numbers: many optima
    columns = _assign(cost)
    assert len(set(columns.tolist())) == n_rows
    np.testing.assert_allclose(cost[np.arange(n_rows), columns].sum(), cost[linear_sum_assignment(cost)].sum())
