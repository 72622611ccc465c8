"""Every measure once more, in plain NumPy, as a function of the grades in shown order."""

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rankloop.measures.base import RankedMeasure
from rankloop.measures.kinds import DCG, NDCG

GRADES = st.sampled_from([-2.0, -1.0, 0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])
EMPTY = {"zero": 0.0, "one": 1.0, "skip": math.nan}


def twin(measure: RankedMeasure, grades: np.ndarray, shown: int | None = None) -> float:
    """The value by the written definition; sums of empty queries are 0 under `one` too."""
    name, cutoff = type(measure).__name__, getattr(measure, "cutoff", None)
    y = np.maximum(grades, 0.0)
    n = len(y)
    seen = min(n, n if shown is None else shown, n if cutoff is None else cutoff)
    if name in TWINS_OF_SUMS:
        gains = gains_of(measure, y)
        value = TWINS_OF_SUMS[name](measure, y, seen, n if cutoff is None else min(cutoff, n))
        empty = gains.sum() == 0
        rule = EMPTY | {"one": 0.0} if not name.startswith("N") and name != "ERR" else EMPTY
    else:
        relevant = (y >= measure.relevant_from).astype(float)  # type: ignore[attr-defined]
        value = TWINS_OF_BINARY[name](relevant, seen, cutoff)
        empty = relevant.sum() == 0
        rule = {"zero": 1.0, "one": 0.0, "skip": math.nan} if name == "AUCLoss" else EMPTY
    return rule[measure.empty] if empty else float(value)


def gains_of(measure: Any, y: np.ndarray) -> np.ndarray:
    if isinstance(measure, DCG | NDCG):
        return y if measure.gain == "linear" else 2.0**y - 1.0
    return np.maximum(y - getattr(measure, "neutral", 0.0), 0.0)


def discounts_of(measure: Any, n: int) -> np.ndarray:
    if isinstance(measure, DCG | NDCG):
        return 1 / np.log2(np.arange(n) + 2)
    return 2.0 ** (-np.arange(n) / (measure.half_life - 1))


def _discounted(measure: Any, y: np.ndarray, seen: int, _ideal: int) -> float:
    return float((gains_of(measure, y) * discounts_of(measure, len(y)))[:seen].sum())


def _normalised(measure: Any, y: np.ndarray, seen: int, ideal: int) -> float:
    best = _discounted(measure, np.sort(y)[::-1], ideal, ideal)
    return _discounted(measure, y, seen, ideal) / best if best else math.nan


def _err(measure: Any, y: np.ndarray, seen: int, _ideal: int) -> float:
    stops = (2.0**y - 1) / 2.0**measure.max_grade
    return float(sum(stops[p] / (p + 1) * np.prod(1 - stops[:p]) for p in range(seen)))


def _ap(relevant: np.ndarray, seen: int, _cutoff: int | None) -> float:
    precisions = np.cumsum(relevant) / (np.arange(len(relevant)) + 1)
    return float((precisions * relevant)[:seen].sum() / max(relevant.sum(), 1))


def _auc(relevant: np.ndarray) -> float:
    pairs = [(i, j) for i in np.flatnonzero(relevant) for j in np.flatnonzero(relevant == 0)]
    return sum(i < j for i, j in pairs) / len(pairs) if pairs else 1.0


def _rr(relevant: np.ndarray, seen: int, _cutoff: int | None) -> float:
    found = np.flatnonzero(relevant[:seen])
    return 1 / (found[0] + 1) if len(found) else 0.0


TWINS_OF_SUMS = {
    "DCG": _discounted,
    "NDCG": _normalised,
    "ERU": _discounted,
    "NERU": _normalised,
    "ERR": _err,
    "SumLoss": lambda m, y, seen, ideal: (np.arange(1, len(y) + 1) * y).sum(),
    "PairwiseLoss": lambda m, y, seen, ideal: sum(y[i] < y[j] for j in range(len(y)) for i in range(j)),
}
TWINS_OF_BINARY = {
    "Precision": lambda r, seen, cutoff: r[:seen].sum() / max(cutoff or seen, 1),
    "Recall": lambda r, seen, cutoff: r[:seen].sum() / max(r.sum(), 1),
    "AveragePrecision": _ap,
    "ReciprocalRank": _rr,
    "AUC": lambda r, seen, cutoff: _auc(r),
    "AUCLoss": lambda r, seen, cutoff: 1 - _auc(r),
}
