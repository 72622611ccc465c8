"""Bounds: their formulas, their coverage by simulation, and warnings where a log cannot answer."""

import math

import numpy as np
import pytest
from scipy import stats

from rankloop.core.errors import InvalidInput
from rankloop.evaluation import (
    Options,
    doubly_robust,
    estimate,
    ips,
    pseudo_inverse,
    rows_of,
    snips,
)
from rankloop.evaluation.off_policy.estimators import _half_width
from rankloop.evaluation.off_policy.running_sums import MIN_REWARDS
from rankloop.evaluation.propensity_evaluation import report_of_rows
from rankloop.evaluation.report import verdict
from rankloop.logs.choice_log import ChoiceLog

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
    of_few, of_many = _half_width(0.0, 100, "hoeffding", 0.95, 1.0), _half_width(3e-5, 100_000, "bernstein", 0.95, 1.0)
    assert of_few > of_many


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


HALF = {100: np.full(100, 0.5), 300: np.full(300, 0.5)}
RANGED = ("bernstein", "hoeffding")


def logged(reward, **options):
    """A target that is the logging policy, so that weights are 1."""
    half = np.full(len(reward), 0.5)
    return ips(reward, half, half, **options)


@pytest.mark.parametrize(
    ("rewards", "n", "truth"),
    [((0.0, 1.0), 100, 0.99), ((-10.0, 1.0), 300, 0.89), ((0.0, 1.0), 100, 0.95)],
)
def test_a_lower_bound_that_misses_too_often_has_warned(rewards, n, truth):
    """Among the logs without a warning the bound holds as often as it promises, less three standard errors."""
    rng, (low, high) = np.random.default_rng(1), rewards
    rare = (high - truth) / (high - low)
    found = [logged(np.where(rng.random(n) < rare, low, high)) for _ in range(400)]
    missed = np.array([each.lower > truth for each in found])
    silent = np.array([not each.warnings for each in found])
    assert missed.mean() > 0.07  # by itself the bound does not hold
    assert (missed & silent).mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    assert (missed & silent).sum() <= 0.05 * max(silent.sum(), 1) + 3


@pytest.mark.parametrize("bound", ["t", "bootstrap"])
def test_self_normalised_bounds_warn_of_rare_losses_too(bound):
    rng = np.random.default_rng(3)
    reward, target = (rng.random(300) < 0.99).astype(float), np.where(rng.random(300) < 0.5, 1.0, 0.0)
    found = snips(reward, HALF[300], target, bound=bound)
    assert any("earned much less" in warning for warning in found.warnings)
    assert "too small to tell" in verdict("new one", found)


def test_losses_are_counted():
    """15 rows of 1,000 earn nothing: the skewness of so rare a loss is that of about 15."""
    reward = np.where(np.arange(1000) < 15, 0.0, 1.0)
    rate = 0.985
    skewness = (1 - 2 * rate) / math.sqrt(rate * (1 - rate) * 1000)
    assert logged(reward).overlap.effective_losses == pytest.approx(1 / skewness**2)
    assert logged(1 - reward).overlap.effective_losses == 1000  # rare clicks lean upwards
    assert logged(np.tile([1.0, 2.0, 3.0], 50)).overlap.effective_losses == 150
    assert logged(np.full(50, 0.1)).overlap.effective_losses == 0


def test_rows_that_all_earned_the_same_prove_nothing():
    for bound in ("t", "bootstrap"):
        assert any("too small to tell" in warning for warning in logged(np.ones(50), bound=bound).warnings)
    for bound in RANGED:  # these do not rest on how the rows differ
        assert logged(np.ones(50), bound=bound).warnings == ()


def test_plenty_of_losses_and_rewards_are_not_warned_of():
    rng = np.random.default_rng(5)
    assert logged((rng.random(200) < 0.5).astype(float)).warnings == ()
    assert logged(rng.normal(5.0, 1.0, 100)).warnings == ()
    many = (np.arange(500) % 10 > 0).astype(float)  # 50 losses
    assert logged(many).overlap.effective_losses > MIN_REWARDS
    assert logged(many).warnings == ()


def test_one_row_has_no_bootstrap_bound():
    found = ips([1.0], [0.5], [0.5], bound="bootstrap")
    assert (found.lower, found.upper, found.gain_lower) == (-math.inf, math.inf, -math.inf)


@pytest.mark.parametrize("bound", RANGED)
def test_the_largest_weight_must_be_one(bound):
    reward = np.repeat([0.0, 1.0], 50)
    for wrong in (-1.0, 0.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="max_weight"):
            ips(reward, HALF[100], HALF[100], bound=bound, max_weight=wrong)
    with pytest.raises(InvalidInput, match=r"max_weight = 0.001 must be the largest .* the log has 50"):
        ips(reward, np.full(100, 0.01), HALF[100], bound=bound, max_weight=0.001)
    rows = rows_of(np.ones((2, 2)), [[0.5, 0.1], [0.5, 0.5]], np.full((2, 2), 0.5), ndim=2)
    with pytest.raises(InvalidInput, match="the log has 5"):  # per place, and whatever the sign
        estimate([rows], "position_wise", Options(bound=bound, max_weight=3.0))
    with pytest.raises(InvalidInput, match="the log has 5"):
        pseudo_inverse([1.0, 0.0], [-5.0, 1.0], bound=bound, max_weight=3.0)
    assert ips(reward, HALF[100], HALF[100], bound=bound, max_weight=1.0).lower < 0.5


@pytest.mark.parametrize("bound", RANGED)
def test_the_range_holds_for_reward_models_and_positions(bound):
    reward, model = np.repeat([0.0, 1.0], 50), np.repeat([-50.0, 50.0], 50)
    with pytest.raises(InvalidInput, match=r"from -50.0 to 50.0"):
        estimate([rows_of(reward, HALF[100], HALF[100], None, model)], "direct_method", Options(bound=bound))
    with pytest.raises(InvalidInput, match=r"to 1000.0"):
        doubly_robust(reward, HALF[100], HALF[100], predicted=model + 950, expected=reward, bound=bound)
    for by_position in ("position_wise", "cascade_ips"):
        rewards, half = np.tile(reward[:, None], 2), np.full((100, 2), 0.5)
        with pytest.raises(InvalidInput, match=r"to 100.0"):
            estimate([rows_of(100 * rewards, half, half, ndim=2)], by_position, Options(bound=bound))
        with pytest.raises(InvalidInput, match=r"from -1.0"):
            estimate([rows_of(-rewards, half, half, ndim=2)], by_position, Options(bound=bound))
    plain = ips(reward, HALF[100], HALF[100], bound=bound)
    rows = rows_of(reward, HALF[100], HALF[100], None, reward)
    assert estimate([rows], "direct_method", Options(bound=bound)).lower > plain.lower


def test_the_range_of_a_gain_over_rankings_adds_up_the_positions():
    """Summands from 0 to 2 · 2, rewards from 0 to 2: Hoeffding's width of their difference is 6 · √(ln 20 / 2n)."""
    half, rewards = np.full((50, 2), 0.5), np.ones((50, 2))
    found = estimate([rows_of(rewards, half, half, ndim=2)], "position_wise", Options(bound="hoeffding"))
    assert found.lower == pytest.approx(2 - 4 * math.sqrt(math.log(20) / 100))
    assert found.gain_lower == pytest.approx(-6 * math.sqrt(math.log(20) / 100))


@pytest.mark.parametrize("method", [ips, snips])
def test_weights_beyond_numbers_are_refused(method):
    for propensity in (5e-324, 1e-200):
        with pytest.raises(InvalidInput, match="too large to be summed; the smallest propensity"):
            method([1.0, 1.0], [propensity, 0.5], [0.5, 0.5])
    with pytest.raises(InvalidInput, match=r"rewards \(up to 1e\+308\)"):
        method([1e308, 1e308], [0.5, 0.5], [0.5, 0.5])


def test_long_rankings_of_unlikely_items_have_no_range():
    """The probability of 400 places is below the smallest number: a bound from the range says nothing."""
    tenth = np.full((3, 400), 0.1)
    rows = rows_of(np.zeros((3, 400)), tenth, tenth, ndim=2)
    found = estimate([rows], "cascade_ips")
    assert found.value == 0.0
    assert estimate([rows], "cascade_ips", Options(bound="hoeffding")).lower == -math.inf


def test_settings_are_checked_before_the_log_is_read(tmp_path):
    def unread():
        raise AssertionError("the log was read")
        yield rows_of([1.0], [1.0], [1.0])

    for wrong, name in (
        (Options(limit=math.nan), "limit"),
        (Options(limit=-1.0), "limit"),
        (Options(seed=-1), "seed"),
        (Options(max_reward=math.nan), "max_reward"),
        (Options(level=math.nan), "level"),
    ):
        with pytest.raises(InvalidInput, match=name):
            estimate(unread(), "clipped_ips", wrong)
        path = tmp_path / "log.csv"
        path.write_text("ad,click,propensity,target\na,1,nothing,0.5\n")
        with pytest.raises(InvalidInput, match=name):
            report_of_rows(ChoiceLog(path).rows(), "new", "clipped_ips", wrong)
    with pytest.raises(InvalidInput, match="limit"):
        estimate([rows_of([1.0], [1.0], [1.0])], "clipped_ips", Options(limit=math.nan))


def test_a_warning_alone_does_not_void_an_answer():
    reward = np.tile([1.0, 0.0], 500)
    assert ips(reward, np.full(1000, 0.5), np.full(1000, 0.5)).is_answered
    few_heavy = np.arange(1000) < 48  # rows with a weight of 15; all weights average 1
    weight = np.where(few_heavy, 15.0, 280 / 952)
    careful = ips(reward, np.full(1000, 0.05), 0.05 * weight)
    assert careful.is_answered
    assert any("count as only" in warning for warning in careful.warnings)
    few = ips(np.arange(1000) < 5, np.full(1000, 0.5), np.full(1000, 0.5))
    off = ips(reward, np.full(1000, 0.5), np.ones(1000))
    assert off.gain_lower > 0  # a number, which nobody should read
    assert not few.is_answered
    assert not off.is_answered
    assert few.warnings
    assert off.warnings
