"""A p-value that may be looked at after every list: by enumeration, and for somebody who always looks."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

from rankloop.interleaving import Comparison


def evidence(path: tuple[int, ...]) -> Fraction:
    """Laplace's rule bets on each list by the ones before it: its likelihood of the path over that of a fair coin."""
    found, wins = Fraction(1), 0
    for n, won in enumerate(path):
        expected = Fraction(wins + 1, n + 2)
        found *= 2 * (expected if won else 1 - expected)
        wins += won
    return found


@pytest.mark.parametrize("n", range(11))
def test_it_is_one_over_the_evidence_of_every_path(n: int) -> None:
    total = Fraction(0)
    for path in product((0, 1), repeat=n):
        found = Comparison(sum(path), 3, n - sum(path)).p_value_at_any_time
        assert found == pytest.approx(float(min(Fraction(1), 1 / evidence(path))), rel=1e-12)
        total += evidence(path) / 2**n
    assert total == 1  # a fair game: nobody gains evidence on average where there is nothing to find


def test_by_hand() -> None:
    assert Comparison(0, 0, 0).p_value_at_any_time == 1.0
    assert Comparison(0, 7, 0).p_value_at_any_time == 1.0
    assert Comparison(8, 0, 0).p_value_at_any_time == pytest.approx(9 / 2**8)
    assert Comparison(8, 5, 2).p_value_at_any_time == pytest.approx(11 * comb(10, 2) / 2**10)
    assert Comparison(2, 0, 8).p_value_at_any_time == Comparison(8, 0, 2).p_value_at_any_time
    assert Comparison(10**6, 0, 0).p_value_at_any_time == 0.0
    assert Comparison(10**9, 0, 10**9).p_value_at_any_time == 1.0


def ever_below(level: float, win_rate: float, horizon: int) -> float:
    """The exact probability that somebody who looks after every list sees a value below the level."""
    undecided, stopped = np.array([1.0]), 0.0
    for n in range(1, horizon + 1):
        following = np.zeros(n + 1)
        following[1:] += undecided * win_rate
        following[:-1] += undecided * (1 - win_rate)
        sure = np.array([Comparison(wins, 0, n - wins).p_value_at_any_time < level for wins in range(n + 1)])
        stopped += float(following[sure].sum())
        undecided = np.where(sure, 0.0, following)
    return stopped


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_who_always_looks_is_misled_no_more_often_than_promised(level: float) -> None:
    assert level / 4 < ever_below(level, 0.5, 400) <= level


def test_who_looks_after_every_list_of_a_plain_test_is_misled() -> None:
    """Why it is needed: the same look at the usual p-value errs far more often than it says."""
    rng = np.random.default_rng(0)
    wins = np.cumsum(rng.random((200, 150)) < 0.5, axis=1)
    known: dict[tuple[int, int], float] = {}
    misled = 0
    for study in wins.tolist():
        for n, won in enumerate(study, 1):
            if (won, n) not in known:
                known[won, n] = Comparison(won, 0, n - won).p_value
            if known[won, n] < 0.05:
                misled += 1
                break
    assert misled / len(wins) > 0.15


def test_two_thousand_studies_that_are_always_looked_at() -> None:
    rng = np.random.default_rng(1)
    wins = np.cumsum(rng.random((2_000, 300)) < 0.5, axis=1)
    n = np.arange(1, 301)
    table = np.array(
        [[Comparison(min(won, m), 0, max(m - won, 0)).p_value_at_any_time for won in range(301)] for m in range(301)]
    )
    share = float((table[n[None, :], wins] < 0.05).any(axis=1).mean())
    assert 0.01 < share <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2_000)


def test_a_difference_is_found() -> None:
    assert ever_below(0.05, 0.65, 400) > 0.99
