"""Distribution functions and quantiles, checked against SciPy."""

import numpy as np
import pytest
from scipy import special, stats

from rankloop.core.distributions import (
    beta_cdf,
    beta_quantile,
    chi_square_tail,
    normal_cdf,
    normal_quantiles,
    student_cdf,
    student_quantile,
)

PROBABILITIES = [1e-300, 1e-17, 1e-9, 1e-3, 0.025, 0.07, 0.3, 0.5, 0.6, 0.925, 0.975, 0.999999, 1 - 1e-15]


def test_normal_quantiles_are_those_of_scipy() -> None:
    assert normal_quantiles(np.array(PROBABILITIES)) == pytest.approx(
        special.ndtri(PROBABILITIES), rel=1e-13, abs=1e-15
    )


def test_normal_probabilities_are_those_of_scipy() -> None:
    for x in (-9.0, -1.3, 0.0, 0.4, 6.0):
        assert normal_cdf(x) == pytest.approx(special.ndtr(x), rel=1e-14)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (1, 1), (3, 7), (40, 2), (500, 800), (12_000, 9), (0.5, 30)])
def test_beta_is_that_of_scipy(a: float, b: float) -> None:
    for x in (0.0, 1e-6, 0.01, 0.2, 0.385, 0.5, 0.9, 0.999, 1.0):
        assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-12)
    for p in (0.005, 0.025, 0.5, 0.975, 0.999):
        assert beta_quantile(p, a, b) == pytest.approx(special.betaincinv(a, b, p), rel=1e-9)


@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 60])
def test_chi_square_is_that_of_scipy(degrees: int) -> None:
    for x in (0.0, 1e-3, 0.7, 3.84, 12.0, 40.0, 150.0):
        assert chi_square_tail(x, degrees) == pytest.approx(stats.chi2.sf(x, degrees), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("degrees", [1, 2, 4, 19, 199, 5000])
def test_student_is_that_of_scipy(degrees: int) -> None:
    for t in (-40.0, -2.5, -0.1, 0.0, 1.3, 8.0):
        assert student_cdf(t, degrees) == pytest.approx(stats.t.cdf(t, degrees), rel=1e-9, abs=1e-14)
    for p in (0.005, 0.025, 0.4, 0.6, 0.975, 0.9995):
        assert student_quantile(p, degrees) == pytest.approx(stats.t.ppf(p, degrees), rel=1e-9)
