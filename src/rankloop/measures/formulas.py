"""The formulas of all measures, compiled: one kernel judges one ranking, another one many queries."""

import math
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discount, exponential_gain, kernel, ranking_of
from rankloop.core.types import Floats, Ints

MAX_SELECTED_POSITIONS = 32  # up to this cutoff, selecting from a list twelve times as long is faster than sorting it
MAX_COUNTED_GRADE = 64  # integer grades below this are sorted by counting


@kernel
def rankings_of(scores: Floats, offsets: Ints, cutoff: int) -> Ints:
    """Sort the items of every query by descending score, ties by item number.

    Args:
      scores: One score per item, query after query.
      offsets: Query q has the entries from offsets[q] to offsets[q + 1].
      cutoff: The number of positions that must be sorted; below them the order may be that of the item numbers.
    """
    rankings = np.empty(len(scores), np.int64)
    for q in range(len(offsets) - 1):
        items = slice(offsets[q], offsets[q + 1])
        n_items = offsets[q + 1] - offsets[q]
        if cutoff <= min(MAX_SELECTED_POSITIONS, n_items // 12):
            _select(scores[items], rankings[items], cutoff)
        else:
            rankings[items] = ranking_of(scores[items])
    return rankings


@kernel
def _select(scores: Floats, ranking: Ints, cutoff: int) -> None:
    """Write the first `cutoff` positions of `ranking_of(scores)`, then the other items by number."""
    chosen = np.zeros(len(scores), np.bool_)
    for item in range(len(scores)):
        position = min(item, cutoff)
        if position == cutoff:
            if scores[item] <= scores[ranking[cutoff - 1]]:
                continue
            position -= 1
            chosen[ranking[position]] = False
        while position > 0 and scores[ranking[position - 1]] < scores[item]:
            ranking[position] = ranking[position - 1]
            position -= 1
        ranking[position] = item
        chosen[item] = True
    position = cutoff
    for item in range(len(scores)):
        if not chosen[item]:
            ranking[position] = item
            position += 1


@kernel
def _grades_in_shown_order(ranking: Ints, relevance: Floats) -> Floats:
    """Return the grades by position; negative grades, which TREC gives to junk, count as 0."""
    shown = np.empty(len(relevance))
    taken = np.zeros(len(relevance), np.bool_)
    for position in range(len(ranking)):
        item = ranking[position]
        if item < 0 or item >= len(relevance) or taken[item]:
            raise InvalidInput("the ranking must name every item once; one is named twice or unknown")
        taken[item] = True
        grade = relevance[item]
        if not np.isfinite(grade):
            raise InvalidInput("relevance holds a grade that is not finite; every grade must be a finite number")
        shown[position] = max(grade, 0.0)
    return shown


@kernel
def _descending(grades: Floats) -> Floats:
    """Return the grades of the ideal ranking, by counting where they are small integers."""
    counts = np.zeros(MAX_COUNTED_GRADE, np.int64)
    for grade in grades:
        if not 0.0 <= grade < MAX_COUNTED_GRADE or grade != np.floor(grade):
            return grades[ranking_of(grades)]
        counts[int(grade)] += 1
    ideal = np.zeros(len(grades))
    position = 0
    for grade in range(MAX_COUNTED_GRADE - 1, 0, -1):
        for _ in range(counts[grade]):
            ideal[position] = grade
            position += 1
    return ideal


NO_CUTOFF = 2**62  # below the end of every list
MAX_EXPONENT = 1000.0  # a sum of larger powers of 2 may overflow
LOGARITHMIC_DISCOUNT = math.inf  # as a half-life: the discount is 1 / log₂(position + 2)
DISCOUNTED_GAIN, NORMALISED_GAIN, RECIPROCAL_RANK_EXPECTED = range(3)
PRECISION, RECALL, AVERAGE_PRECISION, RECIPROCAL_RANK = range(3, 7)
AUC_GAIN, AUC_LOSS, WRONG_PAIRS, POSITION_SUM = range(7, 11)


class MeasureOptions(NamedTuple):
    """The formula of a measure and its parameters; each formula reads those that it has."""

    formula: int
    cutoff: int
    empty: float  # the value of a query without a relevant item
    relevant_from: float
    max_grade: int
    half_life: float
    neutral: float  # grades up to this are worth nothing
    exponential: bool  # the gain is 2^grade − 1, not the grade


@kernel
def _gain_sum(grades: Floats, n_positions: int, options: MeasureOptions) -> float:
    """Return Σ gain · discount over the first positions; ERU halves the discount every `half_life` − 1 positions."""
    total, attention, decay = 0.0, 1.0, 2.0 ** (-1.0 / (options.half_life - 1.0))
    for position in range(min(n_positions, len(grades))):
        worth = grades[position] - options.neutral
        if worth > 0.0:
            gain = exponential_gain(worth) if options.exponential else worth
            total += gain * (discount(position) if options.half_life == LOGARITHMIC_DISCOUNT else attention)
        attention *= decay
    return total


@kernel
def _discounted_gain(grades: Floats, shown: int, options: MeasureOptions) -> float:
    """DCG, nDCG, ERU and NERU."""
    ideal = _descending(grades)
    if options.exponential and len(ideal) and ideal[0] > MAX_EXPONENT:
        raise InvalidInput("a grade is too large for the exponential gain 2^grade; use gain='linear'")
    best = _gain_sum(ideal, options.cutoff, options)
    if best == 0.0:
        return options.empty
    total = _gain_sum(grades, min(shown, options.cutoff), options)
    return total / best if options.formula == NORMALISED_GAIN else total


@kernel
def _expected_reciprocal_rank(grades: Floats, shown: int, options: MeasureOptions) -> float:
    """Return Σ_p P(satisfied at p, at no position above) / p, with P(satisfied) = (2^grade − 1) / 2^max_grade."""
    last = min(shown, options.cutoff)
    total, still_reading, any_relevant = 0.0, 1.0, False
    for position in range(len(grades)):
        grade = grades[position]
        if grade > options.max_grade:
            raise InvalidInput("a grade is above max_grade; name the highest of the scale, as in ERR(max_grade=5)")
        any_relevant |= grade > 0.0
        if grade > 0.0 and position < last:
            satisfied = exponential_gain(grade) / 2.0**options.max_grade
            total += still_reading * satisfied / (position + 1)
            still_reading *= 1.0 - satisfied
    return total if any_relevant else options.empty


@kernel
def _relevant_near_top(grades: Floats, shown: int, options: MeasureOptions) -> float:
    """P, Recall, AP and RR."""
    last = min(shown, options.cutoff, len(grades))
    hits, n_relevant, precisions, first = 0, 0, 0.0, 0.0
    for position in range(len(grades)):
        if grades[position] >= options.relevant_from:
            n_relevant += 1
            if position < last:
                hits += 1
                precisions += n_relevant / (position + 1)
                if hits == 1:
                    first = 1.0 / (position + 1)
    if n_relevant == 0:
        return options.empty
    if options.formula == RECIPROCAL_RANK:
        return first
    if options.formula == AVERAGE_PRECISION:
        return precisions / n_relevant
    if options.formula == RECALL:
        return hits / n_relevant
    return hits / (max(last, 1) if options.cutoff == NO_CUTOFF else options.cutoff)


@kernel
def _full_order(grades: Floats, shown: int, options: MeasureOptions) -> float:
    """AUC, AUCLoss, PairwiseLoss and SumLoss, which are undefined where some items were not shown."""
    if shown < len(grades):
        raise InvalidInput("this measure judges the order of all items, but some were not shown; use one with a cutoff")
    if options.formula == POSITION_SUM:
        total = 0.0
        for position in range(len(grades)):
            total += (position + 1) * grades[position]
        return total if total > 0.0 else options.empty
    if options.formula == WRONG_PAIRS:
        wrong, any_relevant = 0, False
        for lower in range(len(grades)):
            any_relevant |= grades[lower] > 0.0
            for upper in range(lower):
                wrong += grades[upper] < grades[lower]
        return float(wrong) if any_relevant else options.empty
    wrong, n_relevant, n_others = 0, 0, 0
    for grade in grades:
        if grade >= options.relevant_from:
            n_relevant += 1
            wrong += n_others
        else:
            n_others += 1
    pairs = n_relevant * n_others
    if n_relevant == 0:
        return options.empty
    if pairs == 0:
        return 0.0 if options.formula == AUC_LOSS else 1.0
    return wrong / pairs if options.formula == AUC_LOSS else (pairs - wrong) / pairs


@kernel
def value_of(ranking: Ints, relevance: Floats, shown: int, options: MeasureOptions) -> float:
    """Judge one ranking.

    Args:
      ranking: The items, best first.
      relevance: One grade per item.
      shown: The number of positions that were shown.
      options: The formula and its parameters.
    """
    grades = _grades_in_shown_order(ranking, relevance)
    if options.formula <= NORMALISED_GAIN:
        return _discounted_gain(grades, shown, options)
    if options.formula == RECIPROCAL_RANK_EXPECTED:
        return _expected_reciprocal_rank(grades, shown, options)
    if options.formula <= RECIPROCAL_RANK:
        return _relevant_near_top(grades, shown, options)
    return _full_order(grades, shown, options)


@kernel
def values_of(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: MeasureOptions) -> Floats:
    """Judge one ranking per query.

    Args:
      rankings: The rankings one after another, each counting its items from 0.
      relevance: One grade per item.
      offsets: Query q has the entries from offsets[q] to offsets[q + 1].
      shown: The number of positions that were shown, by query.
      options: The formula and its parameters.
    """
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = value_of(rankings[items], relevance[items], shown[q], options)
    return values
