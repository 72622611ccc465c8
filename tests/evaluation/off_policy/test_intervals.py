"""Bounds: their formulas, their coverage by simulation, and warnings where a log cannot answer."""

import math

import numpy as np
import pytest
from scipy import stats

from rankloop.evaluation import ips, snips
from rankloop.evaluation.off_policy.intervals import _resampled, bernstein, hoeffding

N_ADS, EXPLORED = 5, 0.2


def a_log(rng, n: int, rate: float):
    """Uniform logging of 5 ads; the target shows one of them with 0.8, and that one is clicked twice as often."""
    action = rng.integers(0, N_ADS, n)
    click = rng.random(n) < np.where(action == 0, 2 * rate, rate)
    target = np.where(action == 0, 1 - EXPLORED, EXPLORED / (N_ADS - 1))
    return click.astype(float), np.full(n, 1 / N_ADS), target


def truth(rate: float) -> float:
    return rate * (2 * (1 - EXPLORED) + EXPLORED)


def test_the_t_bound_is_equation_5_5():
    reward, propensity, target = a_log(np.random.default_rng(0), 300, 0.26)
    summands = reward * target / propensity
    quantile = stats.t.ppf(0.95, 299)
    expected = summands.mean() - quantile * summands.std(ddof=1) / math.sqrt(300)
    assert ips(reward, propensity, target).lower == pytest.approx(expected, rel=1e-12)


def test_hoeffding_and_bernstein_by_hand():
    reward, propensity, target = a_log(np.random.default_rng(0), 300, 0.26)
    summands = reward * target / propensity
    low = ips(reward, propensity, target, bound="hoeffding", max_weight=4.0).lower
    assert low == pytest.approx(summands.mean() - 4 * math.sqrt(math.log(20) / 600))
    low = ips(reward, propensity, target, bound="bernstein", max_weight=4.0).lower
    width = math.sqrt(2 * summands.var(ddof=1) * math.log(40) / 300) + 7 * 4 * math.log(40) / (3 * 299)
    assert low == pytest.approx(summands.mean() - width)
    assert hoeffding(100, 0.95, 1.0) > bernstein(0.01, 100_000, 0.95, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0026, 0.026, 0.26])
@pytest.mark.parametrize(
    ("method", "bound", "repeats"),
    [(ips, "t", 400), (ips, "bernstein", 400), (ips, "hoeffding", 400), (snips, "t", 400), (ips, "bootstrap", 60)],
)
def test_lower_bounds_cover(rate, method, bound, repeats):
    """At least the nominal share of lower bounds is below the truth, less three standard errors of the simulation."""
    level, n = 0.95, 2000
    rng = np.random.default_rng(int(rate * 1e4) + len(bound))
    found = [method(*a_log(rng, n, rate), level=level, bound=bound) for _ in range(repeats)]
    slack = 3 * math.sqrt(level * (1 - level) / repeats)
    assert np.mean([each.lower <= truth(rate) for each in found]) >= level - slack
    assert np.mean([each.gain_lower <= truth(rate) - 1.2 * rate for each in found]) >= level - slack


@pytest.mark.slow
def test_the_t_upper_bound_falls_short_under_skew():
    """Why lower bounds are reported: with few clicks the bound from above misses the truth far too often."""
    rng = np.random.default_rng(1)
    found = [ips(*a_log(rng, 500, 0.0026), level=0.95) for _ in range(1000)]
    above = np.mean([each.upper >= truth(0.0026) for each in found])
    below = np.mean([each.lower <= truth(0.0026) for each in found])
    assert above < 0.9 < below


def test_the_bootstrap_agrees_with_t_where_both_are_right():
    log = a_log(np.random.default_rng(2), 20_000, 0.26)
    by_t, by_bootstrap = ips(*log), ips(*log, bound="bootstrap")
    assert by_bootstrap.lower == pytest.approx(by_t.lower, abs=0.2 * by_t.standard_error)
    assert by_bootstrap.gain_lower == pytest.approx(by_t.gain_lower, abs=0.2 * by_t.standard_error)
    assert ips(*log, bound="bootstrap", seed=1).lower != by_bootstrap.lower
    assert ips(*log, bound="bootstrap").lower == by_bootstrap.lower


def test_resampling_sums_the_drawn_groups():
    rng = np.random.default_rng(4)
    groups, draws = rng.normal(size=(7, 4)), rng.integers(0, 7, (5, 7))
    np.testing.assert_allclose(_resampled(groups, draws), groups[draws].sum(axis=1), atol=1e-12)


def test_a_small_log_is_called_so():
    sparse = ips(*a_log(np.random.default_rng(3), 300, 0.0026))
    assert any("too small to tell" in warning for warning in sparse.warnings)
    plenty = ips(*a_log(np.random.default_rng(3), 20_000, 0.026))
    assert plenty.warnings == ()


def test_poor_overlap_is_called_so():
    n = 1000
    reward = np.ones(n)
    wrong = ips(reward, np.full(n, 0.5), np.full(n, 0.1))
    assert any("should average 1" in warning for warning in wrong.warnings)
    propensity, target = np.full(n, 0.9), np.full(n, 0.02)
    propensity[0], target[0] = 0.001, 0.9
    heavy = ips(reward, propensity, target)
    assert any("a single row carries" in warning for warning in heavy.warnings)
    assert any("count as only" in warning for warning in heavy.warnings)
    assert heavy.overlap.largest_weight == pytest.approx(900)
