"""Losses that bound a measure of the form Σ over positions of discount × gain, by a maximum over rankings."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.core.checks import Positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discounts as log_discounts
from rankloop.core.kernels import kernel, positions_of, ranking_of
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats, Ints
from rankloop.surrogates.base import levels_of


@kernel
def _assign(cost: Floats) -> Ints:
    """Return the column of each row that minimises the summed cost, no column twice; needs rows ≤ columns."""
    # O(rows² · columns) by augmenting paths: Crouse (2016), On Implementing 2D Rectangular Assignment Algorithms.
    n_rows, n_columns = cost.shape
    row_price, column_price = np.zeros(n_rows), np.zeros(n_columns)
    column_of, row_of = np.full(n_rows, -1), np.full(n_columns, -1)
    shortest, predecessor, remaining = np.empty(n_columns), np.empty(n_columns, np.int64), np.empty(n_columns, np.int64)
    for entering in range(n_rows):
        shortest[:] = np.inf
        for j in range(n_columns):
            remaining[j] = j
        n_remaining, row, length, sink = n_columns, entering, 0.0, -1
        while sink < 0:
            lowest, position = np.inf, -1
            base = length - row_price[row]
            for index in range(n_remaining):
                j = remaining[index]
                reach = base + cost[row, j] - column_price[j]
                if reach < shortest[j]:
                    shortest[j], predecessor[j] = reach, row
                if shortest[j] < lowest or (shortest[j] == lowest and row_of[j] < 0):
                    lowest, position = shortest[j], index
            length, j = lowest, remaining[position]
            if row_of[j] < 0:
                sink = j
            else:
                row = row_of[j]
            n_remaining -= 1
            remaining[position], remaining[n_remaining] = remaining[n_remaining], j
        row_price[entering] += length
        for index in range(n_remaining, n_columns):
            j = remaining[index]
            if j != sink:
                row_price[row_of[j]] += length - shortest[j]
            column_price[j] -= length - shortest[j]
        while True:
            row = predecessor[sink]
            row_of[sink] = row
            sink, column_of[row] = column_of[row], sink
            if row == entering:
                break
    return column_of


@kernel
def _candidates(scores: Floats, levels: Ints, n_levels: int, n_positions: int) -> Ints:
    """Return the n_positions best items by score of each gain: among equal gains a higher score is better anywhere."""
    best, taken = np.empty((n_levels, n_positions), np.int64), np.zeros(n_levels, np.int64)
    for item in range(len(scores)):
        row, position = best[levels[item]], taken[levels[item]]
        if position < n_positions:
            taken[levels[item]] += 1
        elif scores[row[position - 1]] >= scores[item]:
            continue
        else:
            position -= 1
        while position > 0 and scores[row[position - 1]] < scores[item]:
            row[position] = row[position - 1]
            position -= 1
        row[position] = item
    items, first = np.empty(taken.sum(), np.int64), 0
    for level in range(n_levels):
        items[first : first + taken[level]] = best[level, : taken[level]]
        first += taken[level]
    return items


@kernel
def _worst(scores: Floats, gains: Floats, levels: Ints, n_levels: int, discounts: Floats, weights: Floats) -> Ints:
    """Return the first items of the ranking that maximises Σ (weights · scores − discounts · gains)."""
    n_positions = len(weights)
    if n_positions == len(scores):  # faster with items as rows
        return positions_of(_assign(np.outer(gains, discounts) - np.outer(scores, weights)))
    items = _candidates(scores, levels, n_levels, n_positions)
    return items[_assign(np.outer(discounts, gains[items]) - np.outer(weights, scores[items]))]


@kernel
def _ideal(gains: Floats, levels: Ints, n_levels: int, values: Floats) -> tuple[Floats, float]:
    """Return the mean of values[position] for each level in the ideal ranking, and Σ values · gains there."""
    counts, worth = np.zeros(n_levels, np.int64), np.zeros(n_levels)
    for i in range(len(gains)):
        counts[levels[i]] += 1
        worth[levels[i]] = gains[i]
    shares, first, total = np.zeros(n_levels), 0, 0.0
    for level in range(n_levels - 1, -1, -1):
        if counts[level] > 0:
            sum_of_level = values[first : first + counts[level]].sum()
            shares[level] = sum_of_level / counts[level]
            total += worth[level] * sum_of_level
            first += counts[level]
    return shares, total


@kernel
def _one_list(
    scores: Floats, gains: Floats, discounts: Floats, weights: Floats, normalised: bool, slope: Floats
) -> float:
    """Return max over rankings of Δ(ranking) + Σ_i (weight at i's position − ideal weight of i) · scores[i]."""
    # Δ is the loss of the measure, its ideal value − Σ discount · gain. `slope` receives the gradient in the scores.
    levels, n_levels = levels_of(gains)
    _, best = _ideal(gains, levels, n_levels, discounts)
    slope[:] = 0.0
    if best <= 0.0:
        return 0.0
    scale = 1.0 / best if normalised else 1.0
    items = _worst(scores, gains * scale, levels, n_levels, discounts, weights)
    shares, _ = _ideal(gains, levels, n_levels, weights)
    value = best * scale
    for i in range(len(scores)):
        slope[i] = -shares[levels[i]]
    for p in range(len(weights)):
        slope[items[p]] += weights[p]
        value -= discounts[p] * gains[items[p]] * scale
    for i in range(len(scores)):
        value += slope[i] * scores[i]
    return value


@kernel
def _of_lists(
    scores: Floats, gains: Floats, offsets: Ints, discounts: Floats, weights: Floats, normalised: bool
) -> tuple[float, Floats]:
    """Return Σ over queries of the structured loss, and its gradient in the scores."""
    value, grad = 0.0, np.empty(len(scores))
    for q in range(len(offsets) - 1):
        items, k = slice(offsets[q], offsets[q + 1]), min(len(weights), offsets[q + 1] - offsets[q])
        value += _one_list(scores[items], gains[items], discounts[:k], weights[:k], normalised, grad[items])
    return value, grad


@kernel
def _anchors(scores: Floats, gains: Floats, offsets: Ints, weights: Floats, ideal: bool) -> Floats:
    """Return weights[position] in the ideal ranking or in the ranking by score; 0 for lists without a gain."""
    anchors = np.zeros(len(scores))
    for q in range(len(offsets) - 1):
        items, k = slice(offsets[q], offsets[q + 1]), min(len(weights), offsets[q + 1] - offsets[q])
        levels, n_levels = levels_of(gains[items])
        shares, worth = _ideal(gains[items], levels, n_levels, weights[:k])
        if worth > 0.0 and ideal:
            anchors[items] = shares[levels]
        elif worth > 0.0:
            anchors[items][ranking_of(scores[items])[:k]] = weights[:k]
    return anchors


@dataclass(frozen=True, kw_only=True)
class PositionLoss:
    """max over rankings of 1 − Σ_i a_pos(i) · b_i + Σ_i (c_pos(i) − ref_i) · scores[i], by linear assignment.

    a are the discounts of the measure, b the gains by their ideal total, c_p = (p + 1)^{−1/4} the weight of a position
    for the scores, and ref_i the c of item i in an ideal ranking, which items of equal gain share. With a cutoff both a
    and c end there, and only that many positions are assigned. A list without gain costs nothing.
    Reference: Le and Smola (2007), Direct Optimization of Ranking Measures.
    """

    cutoff: int | None = None

    normalised: ClassVar[bool] = True
    _gains: ClassVar[Callable[..., Floats]]  # b of the grades, not yet divided by its ideal total
    _discounts: ClassVar[Callable[..., Floats]]  # a of so many positions, from 1 downwards

    def __post_init__(self) -> None:
        if self.cutoff is not None and self.cutoff < 1:
            raise InvalidInput(f"cutoff = {self.cutoff}: at least the first position has to count (cutoff = 1)")

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        gains, weights = self._gains(relevance), self._position_weights(offsets)
        return _of_lists(scores, gains, offsets, self._discounts(len(weights)), weights, self.normalised)

    def anchors(self, scores: Floats, relevance: Floats, offsets: Ints) -> Floats:
        return _anchors(scores, self._gains(relevance), offsets, self._position_weights(offsets), False)

    def ideal_anchors(self, relevance: Floats, offsets: Ints) -> Floats:
        return _anchors(relevance, self._gains(relevance), offsets, self._position_weights(offsets), True)

    def _position_weights(self, offsets: Ints) -> Floats:
        longest = int(np.diff(offsets).max(initial=0))
        n_positions = longest if self.cutoff is None else min(self.cutoff, longest)
        return np.power(np.arange(1.0, n_positions + 1.0), -0.25)  # type: ignore[no-any-return]


@register("ndcg", category="risk")
class NDCGLoss(PositionLoss):
    """The structured bound on 1 − nDCG, or on 1 − nDCG@`cutoff`: by the ranking of the largest loss.

    a_p = 1 / log₂(p + 2), b_i = 2^relevance[i] − 1 by its ideal total; see `PositionLoss`. On data that no weights rank
    well its minimum is at w = 0: use `RankBundle(tight=True)`, or `ordinal`. With a cutoff it is much faster.
    Reference: Le and Smola (2007), Direct Optimization of Ranking Measures.
    """

    examples: ClassVar[tuple[Spec, ...]] = ({}, {"cutoff": 2})

    def _gains(self, relevance: Floats) -> Floats:
        return 2.0**relevance - 1.0

    def _discounts(self, n_positions: int) -> Floats:
        return log_discounts(n_positions)


@register("precision", category="risk")
class PrecisionLoss(PositionLoss):
    """The structured bound on 1 − P@`cutoff` / (the best P@`cutoff` that these items allow).

    a_p = 1, b_i = 1 for items from grade `relevant_from` on, by their ideal total; see `PositionLoss`.
    Reference: Joachims (2005), A Support Vector Method for Multivariate Performance Measures.
    """

    relevant_from: Positive = 1.0

    examples: ClassVar[tuple[Spec, ...]] = ({"cutoff": 2}, {"cutoff": 1, "relevant_from": 2.0})

    def _gains(self, relevance: Floats) -> Floats:
        return (relevance >= self.relevant_from).astype(np.float64)

    def _discounts(self, n_positions: int) -> Floats:
        return np.ones(n_positions)


@register("eru", category="risk")
class ERULoss(PositionLoss):
    """The structured bound on (the best expected rank utility) − (that of the ranking), in its own units.

    a_p = 2^{−p / (half_life − 1)}, b_i = max(relevance[i] − neutral, 0), equations (8) and (9) of the supplement of Le
    and Smola; see `PositionLoss`. Lists with more to gain count more; `neru` counts all alike.
    Reference: Breese, Heckerman and Kadie (1998), Empirical Analysis of Predictive Algorithms for Collaborative
    Filtering.
    """

    half_life: float = 5.0
    neutral: float = 0.0

    normalised: ClassVar[bool] = False
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"cutoff": 2, "half_life": 2.0, "neutral": 0.5})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1.0 < self.half_life < math.inf or not 0.0 <= self.neutral < math.inf:
            raise InvalidInput(f"half_life = {self.half_life} must be above 1, and neutral = {self.neutral} at least 0")

    def _gains(self, relevance: Floats) -> Floats:
        return np.maximum(relevance - self.neutral, 0.0)

    def _discounts(self, n_positions: int) -> Floats:
        return 2.0 ** (-np.arange(n_positions) / (self.half_life - 1.0))


@register("neru", category="risk")
class NERULoss(ERULoss):
    """The structured bound on 1 − NERU, the normalised expected rank utility.

    As `eru`, the gains b by their ideal total.
    Reference: Le and Smola (2007), Direct Optimization of Ranking Measures.
    """

    normalised: ClassVar[bool] = True
