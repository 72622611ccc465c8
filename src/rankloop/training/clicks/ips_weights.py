"""Clicks as grades and as pairs, each counting as much as its position was unlikely to be examined."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints, finite_floats, item_indices


class ClickPairs(NamedTuple):
    """Preferences for a batch risk: row (worse, better) of `pairs`, with its cost; items are numbered through."""

    pairs: Ints
    costs: Floats


def click_weights(position: ArrayLike, examined: ArrayLike, clip: float = np.inf) -> Floats:
    """min(clip, 1 / examined[position]) for each click; `clip` trades a little bias for much less noise.

    A position that is never examined cannot be clicked: the row is refused.
    Reference: Joachims, Swaminathan and Schnabel (2017), Unbiased Learning-to-Rank with Biased Feedback.
    """
    positions, probabilities = item_indices(position, "position"), finite_floats(examined, 1, "examined")
    if len(positions) and (positions.min() < 0 or positions.max() >= len(probabilities)):
        raise InvalidInput(f"a position is outside 0 … {len(probabilities) - 1}, for which examined is known")
    faults = np.flatnonzero(~(probabilities[positions] > 0.0))
    if len(faults):
        row = int(faults[0])
        raise InvalidInput(
            f"row {row}: position {positions[row]} is examined with probability {probabilities[positions[row]]}"
        )
    return np.minimum(clip, 1.0 / probabilities[positions])


def weighted_relevance(
    offsets: ArrayLike, shown: ArrayLike, clicked: ArrayLike, examined: ArrayLike, clip: float = np.inf
) -> Floats:
    """Grades for an nDCG or any other additive risk: each clicked item its weight, every other 0.

    `offsets` (n_queries + 1) cut the rows into queries, `shown` is the position where each item stood. With linear
    gains the expected risk is that of the true relevance.
    """
    borders, positions = item_indices(offsets, "offsets"), item_indices(shown, "shown")
    hits = finite_floats(clicked, 1, "clicked") > 0
    if len(borders) < 2 or borders[0] != 0 or borders[-1] != len(positions) or len(hits) != len(positions):
        raise InvalidInput("offsets begin at 0 and end at the number of rows; shown and clicked have an entry per row")
    grades = np.zeros(len(positions))
    grades[hits] = click_weights(positions[hits], examined, clip)
    return grades


def exponential_grades(weights: ArrayLike) -> Floats:
    """log₂(1 + weight): the grades whose gain 2^grade − 1, as nDCG counts, is the weight."""
    return np.log2(1.0 + finite_floats(weights, 1, "weights"))


def clicked_pairs(offsets: ArrayLike, relevance: ArrayLike) -> ClickPairs:
    """Counterfactual RankSVM: every clicked item above every other of its list, at the cost of its weight.

    Σ over clicks i of weight_i · Σ_j max(0, 1 + score_j − score_i) bounds the weighted sum of the ranks of the clicked
    items from above; `relevance` is that of `weighted_relevance`.
    """
    borders, weights = item_indices(offsets, "offsets"), finite_floats(relevance, 1, "relevance")
    pairs: list[Ints] = []
    for start, end in pairwise(borders.tolist()):
        for better in np.flatnonzero(weights[start:end] > 0) + start:
            others = np.setdiff1d(np.arange(start, end), [better])
            pairs.append(np.column_stack([others, np.full(len(others), better)]))
    rows = np.concatenate(pairs) if pairs else np.empty((0, 2), np.int64)
    return ClickPairs(rows, weights[rows[:, 1]])
