"""Bounds for a fixed set of items: their constants by brute force, their parts as arithmetic."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discounts
from rankloop.measures import parse_measure
from research.bounds.fixed_items import (
    Bound,
    constants,
    ftpl_regret,
    generic_forecaster_regret,
    mirror_descent_regret,
    precision_bandit_regret,
    rtopk_regret,
    useful_from,
)


@pytest.mark.parametrize("name", ["DCG", "DCG@2", "SumLoss", "P@1", "P@2"])
@pytest.mark.parametrize("max_grade", [1, 2])
def test_constants_by_brute_force(name: str, max_grade: int) -> None:
    measure, items = parse_measure(name), range(3)
    rankings = [np.array(ranking) for ranking in permutations(items)]
    unit = measure(np.arange(3), np.array([1.0, 0.0, 0.0]))  # a gain of 1 in the first place
    worth = np.array([[measure(ranking, np.eye(3)[item]) for item in items] for ranking in rankings])
    diameter = max(np.abs(a - b).sum() for a in worth for b in worth)
    losses, gains = 0.0, 0.0
    for grades in product(range(max_grade + 1), repeat=3):
        relevance = np.array(grades, dtype=np.float64)
        values = [measure(ranking, relevance) for ranking in rankings]
        losses = max(losses, max(values) - min(values))
        gains = max(gains, sum(measure(np.arange(3), grade * np.eye(3)[0]) for grade in grades) / unit)
    assert constants(name, 3, max_grade) == pytest.approx((diameter, losses, gains))


def test_ftpl_bound() -> None:
    diameter, loss, gains = constants("DCG", 10, 2)
    noise = (2**2 - 1) * math.sqrt(10 * 5000)
    bound = ftpl_regret("DCG", 10, 5000, 2)
    assert bound.regret == pytest.approx(loss * gains * 5000 / noise + diameter * noise)
    assert bound.regret == pytest.approx(1.5 * 3 * diameter * math.sqrt(10 * 5000))
    best = 2 * math.sqrt(diameter * loss * gains * 5000)
    assert best <= bound.regret <= 1.07 * best


def test_mirror_descent_bound_is_the_best_over_its_step() -> None:
    worth = discounts(10)
    radius = np.sqrt(np.sum((worth - worth.mean()) ** 2))
    found = mirror_descent_regret("DCG", 10, 5000).regret
    steps = np.geomspace(1e-5, 1, 2000)
    assert found == pytest.approx(np.min(radius**2 / (2 * steps) + steps * 5000 * 10 / 8), rel=1e-4)
    assert found < ftpl_regret("DCG", 10, 5000).regret


def test_rtopk_bound() -> None:
    _, loss, _ = constants("SumLoss", 7)
    exploring = loss * math.ceil(7 / 2) * 60
    for inner, full in (("ftpl", ftpl_regret), ("mirror_descent", mirror_descent_regret)):
        bound = rtopk_regret("SumLoss", 7, 2, 1000, blocks=60, inner=inner)
        assert bound.regret == pytest.approx(
            exploring + 1000 // 60 * full("SumLoss", 7, 60).regret + loss * (1000 % 60)
        )
        assert bound.worst == pytest.approx(1000 * loss)
    with pytest.raises(InvalidInput, match="no bound"):
        rtopk_regret("DCG", 7, 2, 1000, inner="perceptron")


@pytest.mark.parametrize("depth", [1, 20])
def test_rtopk_bound_grows_as_two_thirds(depth: int) -> None:
    low, high = (rtopk_regret("DCG", 20, depth, 10**power).regret for power in (12, 15))
    assert math.log(high / low) / math.log(10**3) == pytest.approx(2 / 3, abs=0.02)


def test_precision_bandit_bound_is_the_best_over_its_rate() -> None:
    n, m, k, horizon = 3, 12, 2, 4000
    rates = np.geomspace(1e-5, 1, 4000)
    parts = n * math.log(m / n) / rates + rates * horizon * n * m / (2 * k)
    assert n * precision_bandit_regret(n, m, k, horizon).regret == pytest.approx(parts.min(), rel=1e-4)
    assert precision_bandit_regret(n, m, 9, horizon) == precision_bandit_regret(n, m, n, horizon)
    assert precision_bandit_regret(3, 3, 1, horizon).regret == 0


def test_generic_forecaster_bound_is_the_sum_of_its_parts() -> None:
    largest, groups, spread, horizon = 0.2, 4, 0.7, 10**6
    log_actions, size = math.log(math.factorial(4)), largest * groups
    gamma = (size / spread) ** (2 / 3) * (log_actions / horizon) ** (1 / 3)
    eta = math.sqrt(gamma * log_actions / horizon) / size
    parts = gamma * spread * horizon + log_actions / eta + eta * horizon * size**2 / gamma
    assert generic_forecaster_regret(largest, groups, spread, 4, horizon).regret == pytest.approx(parts)
    assert generic_forecaster_regret(largest, groups, spread, 4, 2).vacuous


def test_where_a_bound_stops_being_vacuous() -> None:
    assert useful_from(lambda t: Bound(10 * math.sqrt(t), float(t))) == 101
    assert useful_from(lambda t: Bound(1.0 * t, 1.0 * t)) is None
    start = useful_from(lambda t: ftpl_regret("DCG", 20, t))
    assert start is not None
    assert ftpl_regret("DCG", 20, start - 1).vacuous
    assert not ftpl_regret("DCG", 20, start).vacuous
