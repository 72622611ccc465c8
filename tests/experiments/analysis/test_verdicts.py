"""A verdict follows the numbers: the data are flipped and the verdict flips."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from rankloop.core.types import Floats
from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.analysis.verdicts import growth, holm, judge, paired
from rankloop.experiments.run.runner import Run
from rankloop.experiments.run.tasks import checkpoint_rounds
from rankloop.experiments.spec.model import Claim
from tests.experiments.cases import small

ROUNDS = checkpoint_rounds(small()).tolist()


def _curves(left: Floats, right: Floats, streams: tuple[str, ...] = ("small",)) -> Curves:
    """Runs whose DCG ends at these values, one per seed; with several streams, the second has the arms exchanged."""
    experiment = small(seeds=len(left))
    runs = []
    for position, stream in enumerate(streams):
        values = {"leader": right, "still": left} if position else {"leader": left, "still": right}
        for arm, ends in values.items():
            for seed, end in enumerate(ends):
                series = (np.full(len(ROUNDS), end)).tolist()
                runs.append(
                    Run(
                        version="0",
                        experiment=experiment,
                        stream=stream,
                        arm=arm,
                        seed=seed,
                        checkpoints=ROUNDS,
                        values={"DCG": {"average": series, "regret": series}},
                        reports={},
                        seconds=0.0,
                    )
                )
    return Curves(experiment, runs)


def _claim(check: str, **fields: Any) -> Claim:
    named = {"text": "It is so.", "left": "leader", "measure": "DCG", "check": check}
    return msgspec.convert(named | fields, Claim)  # type: ignore[arg-type]


HIGH, LOW = np.array([0.9, 0.8, 0.85, 0.9]), np.array([0.5, 0.45, 0.5, 0.4])


@pytest.mark.parametrize(
    ("claim", "left", "right"),
    [
        (_claim("above", right="still"), HIGH, LOW),
        (_claim("above", right="still", by=0.2), HIGH, LOW),
        (_claim("above", value=0.7), HIGH, LOW),
        (_claim("below", right="still"), LOW, HIGH),
        (_claim("below", value=0.6), LOW, HIGH),
        (_claim("near", value=0.86, within=0.05), HIGH, LOW),
    ],
)
def test_flipped_data_flip_the_verdict(claim: Claim, left: Floats, right: Floats) -> None:
    assert judge(claim, _curves(left, right)).word == "holds"
    assert judge(claim, _curves(right, left)).word == "does not hold"


def test_a_difference_within_probability_holds_partly() -> None:
    verdict = judge(_claim("above", right="still"), _curves(np.array([0.6, 0.4, 0.7]), np.array([0.5, 0.5, 0.5])))
    assert verdict.word == "partly"
    assert "not significant" in verdict.because


def test_what_holds_on_one_stream_of_two_holds_partly() -> None:
    verdict = judge(_claim("above", right="still"), _curves(HIGH, LOW, ("one", "two")))
    assert verdict.word == "partly"
    assert "one: holds" in verdict.because
    assert "two: does not hold" in verdict.because


def test_one_seed_says_so() -> None:
    verdict = judge(_claim("above", right="still"), _curves(HIGH[:1], LOW[:1]))
    assert (verdict.word, verdict.because) == ("holds", "0.9000 against 0.5000: difference 0.4000, from one seed")


def test_near_counts_standard_errors() -> None:
    error = HIGH.std(ddof=1) / 2.0
    for times, holds in [(2.9, False), (3.1, True)]:
        claim = _claim("near", value=float(HIGH.mean() + 3.0 * error), standard_errors=times)
        assert (judge(claim, _curves(HIGH, LOW)).word == "holds") is holds


def test_the_exponent_is_that_of_the_sum() -> None:
    rounds = np.unique(np.geomspace(10, 10**5, 30).astype(np.int64))
    for exponent in (0.5, 2 / 3, 1.0):
        assert growth(rounds, 3.0 * rounds ** (exponent - 1.0)) == pytest.approx(exponent)
    assert growth(np.array([1, 10, 100]), np.array([5.0, 1.0, 0.1]), since=10) is not None
    assert math.isnan(growth(np.array([1, 10]), np.array([1.0, 1.0])))


def test_an_exponent_claim_flips_with_its_bounds() -> None:
    curves = _curves(HIGH, LOW)  # a constant average: the sum grows as t¹
    assert judge(_claim("exponent", quantity="regret", low=0.9, high=1.1), curves).word == "holds"
    assert judge(_claim("exponent", quantity="regret", low=0.4, high=0.6), curves).word == "does not hold"


def test_the_paired_difference_by_hand() -> None:
    left, right = np.array([3.0, 5.0, 4.0]), np.array([1.0, 2.0, 3.0])
    difference = paired(left, right)  # 2, 3, 1: mean 2, deviation 1
    assert difference.mean == 2.0
    assert difference.low == pytest.approx(2.0 - 4.302652729911275 * 1.0 / math.sqrt(3.0))
    assert difference.t_test == pytest.approx(0.07417990022744853)  # t = 2·√3 with 2 degrees of freedom


def test_pairs_matter_not_the_spread_between_seeds() -> None:
    worlds = np.array([0.1, 0.5, 0.9, 0.3])
    assert paired(worlds + np.array([0.010, 0.011, 0.012, 0.010]), worlds).t_test < 0.001


@pytest.mark.parametrize("values", [np.zeros(4), np.full(4, 0.25), np.array([0.0, 1.0, 1.0, -1.0])])
def test_ties_and_constants_are_no_trouble(values: Floats) -> None:
    difference = paired(values, np.zeros(4))
    assert 0.0 <= difference.t_test <= 1.0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert math.isnan(holm([math.nan, 0.01])[0])
