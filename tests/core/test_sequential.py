"""Sequential tests: looking after every user or list is wrong in at most 5 of 100 tests, and true effects are found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankloop.core.sequential import (
    ERROR_PROBABILITY,
    MIN_USERS,
    SideSums,
    compare_means,
    share_interval,
    sign_p_value,
    users_needed,
)

N_TESTS = 400
MARGIN = 3 * math.sqrt(ERROR_PROBABILITY * (1 - ERROR_PROBABILITY) / N_TESTS)


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
    assert share_interval(0, 0) == pytest.approx((0.0, 1.0))


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
            values, side = brought[test, :n], is_a[test, :n]
            sums = [
                SideSums(int(s.sum()), float(values[s].sum()), float((values[s] ** 2).sum())) for s in (side, ~side)
            ]
            result = compare_means(sums[0], sums[1])
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
            sums = [SideSums(len(side), float(side.sum()), float((side**2).sum())) for side in (a, b)]
            result = compare_means(sums[0], sums[1])
            decided[test] = result is not None and result.p_value < ERROR_PROBABILITY
    assert decided.mean() <= ERROR_PROBABILITY + MARGIN


def test_an_effect_is_found_in_about_the_planned_number_of_users() -> None:
    rng, effect = np.random.default_rng(4), 0.3
    pilot = _revenue(rng, (1, 20_000))[0]
    side = SideSums(len(pilot), float(pilot.sum()), float((pilot**2).sum()))
    planned = int(users_needed(side, side, effect))
    brought, is_a = _revenue(rng, (60, planned)), rng.random((60, planned)) < 0.5
    brought[is_a] += effect * side.mean
    assert 0.6 <= _alarms(brought, is_a, range(planned, planned + 1)) <= 0.97
    assert users_needed(side, side, effect / 2) > 3 * planned
    assert users_needed(side, SideSums(1000, 0.0, 0.0), effect) == math.inf


def test_few_users_are_not_compared() -> None:
    assert compare_means(SideSums(MIN_USERS - 1, 5.0, 5.0), SideSums(1000, 5.0, 5.0)) is None
