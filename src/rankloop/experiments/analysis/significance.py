"""Arms against each other, seed by seed: the same seed is the same queries and the same people."""

import math

import numpy as np
from msgspec import Struct
from scipy.special import stdtr, stdtrit

from rankloop.core.types import Floats

CONFIDENCE = 0.95


class Difference(Struct, frozen=True):
    """A paired difference: mean over seeds, confidence interval, two p-values; nan with fewer than 2 seeds."""

    n: int
    mean: float
    low: float
    high: float
    t_test: float
    wilcoxon: float


def paired(left: Floats, right: Floats | float) -> Difference:
    """left − right, one value per seed; Student's t for the interval, Wilcoxon's signed ranks beside it."""
    differences = np.asarray(left - right)
    differences = differences[~np.isnan(differences)]
    n = len(differences)
    if n < 2:
        mean = float(differences.mean()) if n else math.nan
        return Difference(n, mean, math.nan, math.nan, math.nan, math.nan)
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(n)
    reach = float(stdtrit(n - 1, (1.0 + CONFIDENCE) / 2.0)) * error
    return Difference(n, mean, mean - reach, mean + reach, _t_test(mean, error, n), _wilcoxon(differences))


def holm(p_values: list[float]) -> list[float]:
    """p-values of several comparisons, raised so that together they err with the probability of one (Holm, 1979)."""
    known = [position for position, p in enumerate(p_values) if not math.isnan(p)]
    adjusted, floor = list(p_values), 0.0
    for rank, position in enumerate(sorted(known, key=lambda position: p_values[position])):
        floor = max(floor, min(1.0, p_values[position] * (len(known) - rank)))
        adjusted[position] = floor
    return adjusted


def _t_test(mean: float, error: float, n: int) -> float:
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * stdtr(n - 1, -abs(mean) / error))


def _wilcoxon(differences: Floats) -> float:
    counted = differences[differences != 0.0]
    if not len(counted):
        return 1.0
    from scipy.stats import wilcoxon  # takes a second, for which nobody else should wait

    distinct = len(np.unique(np.abs(counted))) == len(counted)
    return float(wilcoxon(counted, method="exact" if distinct and len(counted) <= 50 else "asymptotic").pvalue)
