"""The conditional likelihood: closed forms, derivatives, and the spread of its estimates."""

import numpy as np
import pytest
from scipy.optimize import minimize

from rankloop.click_models.conditional_fit import GaussianPrior, UnitCells, fit_conditional

NO_PRIOR = GaussianPrior(np.zeros(1), np.full((1, 1), 1e-9))


def cells_of(seed=0, n_units=40, n_cells=3, n_rows=2000):
    rng = np.random.default_rng(seed)
    unit, cell = rng.integers(0, n_units, n_rows), rng.integers(0, n_cells, n_rows)
    rate = rng.uniform(0.1, 0.6, n_units)[unit] * np.array([1.0, 0.5, 0.25])[cell]
    return unit, cell, (rng.random(n_rows) < rate).astype(float)


def test_two_cells_that_were_shown_equally_often_compare_their_clicks():
    unit = np.repeat([0, 1, 2], 20)
    cell = np.tile([0, 1], 30)
    clicked = np.zeros(60)
    clicked[[0, 2, 4, 1, 20, 22, 23]] = 1.0  # five clicks in cell 0 and two in cell 1; the third unit has none
    cells = UnitCells.of_rows(unit, cell, unit, clicked, 3)
    assert cells.n_units == 2
    fit = fit_conditional(cells, np.array([[0.0], [1.0]]), NO_PRIOR)
    assert np.exp(fit.coefficients[0]) == pytest.approx(2 / 5)


def test_the_maximum_is_that_of_a_general_optimiser():
    unit, cell, clicked = cells_of()
    design, prior = np.eye(3)[:, 1:], GaussianPrior(np.array([-0.3, -0.6]), np.diag([2.0, 3.0]))
    fit = fit_conditional(UnitCells.of_rows(unit, cell, unit, clicked, 40), design, prior)
    shown, hits = np.zeros((40, 3)), np.zeros((40, 3))
    np.add.at(shown, (unit, cell), 1.0)
    np.add.at(hits, (unit, cell), clicked)

    def negative(coefficients):
        weight = shown * np.exp(design @ coefficients)
        likelihood = (hits * np.log(weight / weight.sum(axis=1, keepdims=True))).sum()
        return 0.5 * (coefficients - prior.mean) @ prior.precision @ (coefficients - prior.mean) - likelihood

    best = minimize(negative, np.zeros(2), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(fit.coefficients, best.x, atol=1e-4)
    step = 1e-4
    second = [
        [
            (
                negative(fit.coefficients + step * (a + b))
                - negative(fit.coefficients + step * (a - b))
                - negative(fit.coefficients - step * (a - b))
                + negative(fit.coefficients - step * (a + b))
            )
            / (4 * step**2)
            for a in np.eye(2)
        ]
        for b in np.eye(2)
    ]
    inverse = np.linalg.inv(second)
    np.testing.assert_allclose(fit.prior_covariance, inverse @ prior.precision @ inverse, rtol=2e-3)


def test_standard_errors_are_those_of_repeated_logs():
    fits = []
    for seed in range(60):
        unit, cell, clicked = cells_of(seed)
        fits.append(
            fit_conditional(
                UnitCells.of_rows(unit, cell, unit, clicked, 40),
                np.eye(3)[:, 1:],
                GaussianPrior(np.zeros(2), 1e-6 * np.eye(2)),
            )
        )
    spread = np.std([fit.coefficients for fit in fits], axis=0)
    claimed = np.mean([np.sqrt(np.diag(fit.covariance)) for fit in fits], axis=0)
    np.testing.assert_allclose(claimed / spread, 1.0, atol=0.25)
    np.testing.assert_allclose(np.mean([fit.coefficients for fit in fits], axis=0), np.log([0.5, 0.25]), atol=0.05)


def test_without_a_unit_in_two_cells_the_fit_is_the_prior():
    unit = np.array([0, 0, 1, 1])
    cells = UnitCells.of_rows(unit, unit, unit, np.ones(4), 2)
    fit = fit_conditional(cells, np.array([[0.0], [1.0]]), GaussianPrior(np.array([-0.5]), np.array([[4.0]])))
    assert fit.coefficients.tolist() == [-0.5]
    assert fit.covariance.tolist() == [[0.25]]


def test_clicks_are_counted_as_they_are_whatever_rows_weigh():
    unit, cell = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    cells = UnitCells.of_rows(unit, cell, unit, np.array([1.0, 0.0, 1.0, 1.0]), 2, np.array([40.0, 1.0, 3.0, 0.0]))
    assert cells.n_clicks == 2
    assert cells.clicks.sum() == 43.0
