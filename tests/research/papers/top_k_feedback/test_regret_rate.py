"""The regret-rate reproduction: verdicts follow from the numbers, and flip with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.engine import Here
from research.options import Options
from research.papers.top_k_feedback.regret_rate import RATES, Task, finding, regret_of, regret_rate
from research.registry import Setting

HORIZONS = np.array([10**3, 10**4, 10**5, 10**6])


def regrets(exponents: list[float]) -> np.ndarray:
    return np.array([[3.0 * HORIZONS**exponent, 2.5 * HORIZONS**exponent] for exponent in exponents])


def words(exponents: list[float]) -> list[str]:
    return [claim.word for claim in finding(HORIZONS, regrets(exponents)).claims]


def test_verdicts_follow_the_exponents() -> None:
    assert words([2 / 3, 0.5, 2 / 3, 0.5]) == ["holds"] * 4
    assert words([0.5, 2 / 3, 1.0, 2 / 3]) == ["does not hold"] * 4


def test_one_seed_of_two_is_partly() -> None:
    rows = regrets([2 / 3, 0.5, 2 / 3, 0.5])
    rows[0, 0] = 3.0 * HORIZONS**0.9
    assert finding(HORIZONS, rows).claims[0].word == "partly"


def test_tables_and_charts() -> None:
    found = finding(HORIZONS, regrets([2 / 3, 0.5, 2 / 3, 0.5]))
    assert [chart.name for chart in found.charts] == ["DCG", "P5"]
    measured, bounds = found.tables
    assert [row[0] for row in measured.rows] == [rate.name for rate in RATES]
    assert all(row[-1].startswith("useful from") for row in bounds.rows)


def test_fewer_rounds_may_be_asked_for(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Here(), lambda finished, of: None, quick=True, options=Options(rounds=10**4))
    assert regret_rate(setting).tables[0].header[2:-1] == ("T = 1,000", "T = 10,000")
    with pytest.raises(InvalidInput, match="at least 10000"):
        regret_rate(setting._replace(options=Options(rounds=5000)))


def test_the_published_learner_is_judged() -> None:
    kinds = {rate.learner["kind"]: rate.learner.get("estimator") for rate in RATES}
    assert kinds == {"rtopk": "exploration", "ftpl": None, "precision_bandit": None}


@pytest.mark.parametrize("rate", range(len(RATES)))
def test_one_run(rate: int) -> None:
    assert 0 < regret_of(Task(rate, 1000, 0)) < RATES[rate].bound(1000).worst
