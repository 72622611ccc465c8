"""Losses that bound a measure of the form Σ over positions of discount × gain, by the worst ranking."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, positions_of, ranking_of
from rankloop.core.types import Floats, Ints
from rankloop.surrogates.base import levels_of
from rankloop.training.risks.assignment import assign


@kernel
def _candidates(scores: Floats, levels: Ints, n_levels: int, n_positions: int) -> Ints:
    """The n_positions best items by score of each gain: among equal gains a higher score fits better everywhere."""
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
    """The items of the first positions in the ranking that maximises Σ (weights · scores − discounts · gains)."""
    n_positions = len(weights)
    if n_positions == len(scores):  # square: faster with items as rows
        return positions_of(assign(np.outer(gains, discounts) - np.outer(scores, weights)))
    items = _candidates(scores, levels, n_levels, n_positions)
    return items[assign(np.outer(discounts, gains[items]) - np.outer(weights, scores[items]))]


@kernel
def _ideal(gains: Floats, levels: Ints, n_levels: int, values: Floats) -> tuple[Floats, float]:
    """The mean of values[position] for each level in the ideal ranking, and Σ values · gains there."""
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
    value, grad = 0.0, np.empty(len(scores))
    for q in range(len(offsets) - 1):
        own, k = slice(offsets[q], offsets[q + 1]), min(len(weights), offsets[q + 1] - offsets[q])
        value += _one_list(scores[own], gains[own], discounts[:k], weights[:k], normalised, grad[own])
    return value, grad


@kernel
def _anchors(scores: Floats, gains: Floats, offsets: Ints, weights: Floats, ideal: bool) -> Floats:
    """For lists with a gain: weights[position], in the ideal ranking or in the one by score."""
    anchors = np.zeros(len(scores))
    for q in range(len(offsets) - 1):
        own, k = slice(offsets[q], offsets[q + 1]), min(len(weights), offsets[q + 1] - offsets[q])
        levels, n_levels = levels_of(gains[own])
        shares, worth = _ideal(gains[own], levels, n_levels, weights[:k])
        if worth > 0.0 and ideal:
            anchors[own] = shares[levels]
        elif worth > 0.0:
            anchors[own][ranking_of(scores[own])[:k]] = weights[:k]
    return anchors


@dataclass(frozen=True, kw_only=True)
class PositionLoss(ABC):
    """max over rankings of 1 − Σ_i a_pos(i) · b_i + Σ_i (c_pos(i) − ref_i) · scores[i], by linear assignment.

    a are the discounts of the measure, b the gains by their ideal total, c_p = (p + 1)^{−1/4} what a position asks of
    the scores, and ref_i the c of item i in an ideal ranking, which items of equal gain share. With a cutoff both a
    and c end there, and only that many positions are assigned. A list without gain costs nothing.
    Reference: Le and Smola (2007), Direct Optimization of Ranking Measures.
    """

    cutoff: int | None = None

    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.cutoff is not None and self.cutoff < 1:
            raise InvalidInput(f"cutoff = {self.cutoff}: at least the first position has to count (cutoff = 1)")

    @abstractmethod
    def gains(self, relevance: Floats) -> Floats:
        """b, before it is divided by its ideal total."""

    @abstractmethod
    def discounts(self, n_positions: int) -> Floats:
        """a, from 1 downwards."""

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        n_positions = self._n_positions(offsets)
        discounts, weights = self.discounts(n_positions), _position_weights(n_positions)
        return _of_lists(scores, self.gains(relevance), offsets, discounts, weights, self.normalised)

    def anchors(self, scores: Floats, relevance: Floats, offsets: Ints) -> Floats:
        return _anchors(scores, self.gains(relevance), offsets, _position_weights(self._n_positions(offsets)), False)

    def ideal_anchors(self, relevance: Floats, offsets: Ints) -> Floats:
        return _anchors(relevance, self.gains(relevance), offsets, _position_weights(self._n_positions(offsets)), True)

    def _n_positions(self, offsets: Ints) -> int:
        longest = int(np.diff(offsets).max(initial=0))
        return longest if self.cutoff is None else min(self.cutoff, longest)


def _position_weights(n_positions: int) -> Floats:
    weights: Floats = np.power(np.arange(1.0, n_positions + 1.0), -0.25)
    return weights
