"""Distributions are those of SciPy; sequential tests are wrong in at most 5 of 100, and find true effects."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from rankloop.core.statistics import (
    ERROR_PROBABILITY,
    MIN_USERS,
    VariantSums,
    beta_cdf,
    beta_quantile,
    chi_square_tail,
    normal_cdf,
    normal_quantiles,
    share_interval,
    sign_p_value,
    student_cdf,
    student_quantile,
)

PROBABILITIES = [1e-300, 1e-17, 1e-9, 1e-3, 0.025, 0.07, 0.3, 0.5, 0.6, 0.925, 0.975, 0.999999, 1 - 1e-15]
N_TESTS = 400
MARGIN = 3 * math.sqrt(ERROR_PROBABILITY * (1 - ERROR_PROBABILITY) / N_TESTS)


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


def test_the_sign_test_is_that_of_the_formula() -> None:
    for wins, losses in ((0, 0), (3, 1), (7, 0), (10, 4)):
        n = wins + losses
        assert sign_p_value(wins, losses) == pytest.approx(min(1.0, (n + 1) * math.comb(n, wins) / 2**n))
    assert sign_p_value(60_000, 40_000) == 0.0


def test_the_interval_of_shares_holds_what_is_not_rejected() -> None:
    for wins, losses in ((30, 10), (5, 0), (0, 0), (4, 9)):
        low, high = share_interval(wins, losses)
        assert (low <= 0.5 <= high) == (sign_p_value(wins, losses) >= ERROR_PROBABILITY)
        assert 0.0 <= low <= wins / max(1, wins + losses) <= high <= 1.0 or wins + losses == 0
    assert share_interval(0, 0) == (0.0, 1.0)


def test_wins_and_losses_may_be_looked_at_after_every_list() -> None:
    draws = np.random.default_rng(1).random((N_TESTS, 1500)) < 0.5
    wins = draws.cumsum(axis=1)
    alarms = 0
    for each in wins:
        alarms += any(sign_p_value(int(w), n - int(w)) < ERROR_PROBABILITY for n, w in enumerate(each, 1))
    assert alarms / N_TESTS <= ERROR_PROBABILITY + MARGIN


def _alarms(brought: np.ndarray, is_a: np.ndarray, looks: range) -> float:
    """The share of tests that are ever decided, users being looked at in the order of the second axis."""
    decided = np.zeros(len(brought), bool)
    for n in looks:
        for test in np.flatnonzero(~decided):
            values, variant = brought[test, :n], is_a[test, :n]
            sums = [
                VariantSums(int(s.sum()), float(values[s].sum()), float((values[s] ** 2).sum()))
                for s in (variant, ~variant)
            ]
            result = sums[0].minus(sums[1])
            decided[test] = result is not None and result.p_value < ERROR_PROBABILITY
            if result is not None:
                assert (result.low <= 0.0 <= result.high) == (result.p_value >= ERROR_PROBABILITY)
    return float(decided.mean())


def _revenue(rng: np.random.Generator, shape: tuple[int, int], rate: float = 0.1) -> np.ndarray:
    return (rng.random(shape) < rate) * rng.lognormal(3.0, 0.8, shape)


def test_means_may_be_looked_at_all_the_time() -> None:
    rng = np.random.default_rng(2)
    brought, is_a = _revenue(rng, (N_TESTS, 3000)), rng.random((N_TESTS, 3000)) < 0.5
    assert _alarms(brought, is_a, range(2 * MIN_USERS, 3001, 100)) <= ERROR_PROBABILITY + MARGIN


def test_users_who_come_back_do_not_raise_the_error() -> None:
    """The same users bring more at every look: their differences are correlated, not independent."""
    rng, users = np.random.default_rng(3), 500
    is_a, totals = rng.random((N_TESTS, users)) < 0.5, np.zeros((N_TESTS, users))
    taste, decided = rng.gamma(0.5, 2.0, (N_TESTS, users)), np.zeros(N_TESTS, bool)
    for _ in range(40):
        totals += rng.poisson(taste)
        for test in np.flatnonzero(~decided):
            a, b = totals[test, is_a[test]], totals[test, ~is_a[test]]
            sums = [VariantSums(len(variant), float(variant.sum()), float((variant**2).sum())) for variant in (a, b)]
            result = sums[0].minus(sums[1])
            decided[test] = result is not None and result.p_value < ERROR_PROBABILITY
    assert decided.mean() <= ERROR_PROBABILITY + MARGIN


def test_an_effect_is_found_in_about_the_planned_number_of_users() -> None:
    rng, effect = np.random.default_rng(4), 0.3
    pilot = _revenue(rng, (1, 20_000))[0]
    variant = VariantSums(len(pilot), float(pilot.sum()), float((pilot**2).sum()))
    planned = int(variant.users_needed(variant, effect))
    brought, is_a = _revenue(rng, (60, planned)), rng.random((60, planned)) < 0.5
    brought[is_a] += effect * variant.mean
    assert 0.6 <= _alarms(brought, is_a, range(planned, planned + 1)) <= 0.97
    assert variant.users_needed(variant, effect / 2) > 3 * planned
    assert variant.users_needed(VariantSums(1000, 0.0, 0.0), effect) == math.inf


def test_few_or_equal_users_are_not_compared() -> None:
    assert VariantSums(1000, 1000.0, 1000.0).minus(VariantSums(1000, 0.0, 0.0)) is None
    assert VariantSums(MIN_USERS - 1, 5.0, 5.0).minus(VariantSums(1000, 5.0, 5.0)) is None
