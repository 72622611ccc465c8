"""The position-based model, which is position bias: whether a position is examined depends on it alone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop.click_models.base import MIN_PROBABILITY, ModelName, Prior
from rankloop.click_models.ubm import UserBrowsingModel
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.logs.list_log import ClickArrays


@dataclass(frozen=True, kw_only=True, eq=False)
class PositionBasedModel(UserBrowsingModel):
    """P(click) = examination[position] · attraction[pair]; the first position is always examined.

    `fit` needs pairs that stand at several positions: otherwise the two factors cannot be told apart.
    References: Richardson, Dominowska and Ragno (2007), Predicting Clicks; Craswell, Zoeter, Taylor and Ramsey (2008),
    An Experimental Comparison of Click Position-Bias Models.
    """

    name: ClassVar[ModelName] = "pbm"
    by_distance: ClassVar[bool] = False


def position_bias(pair: Ints, position: Ints, clicked: Floats) -> Floats | None:
    """Estimate position bias by maximum likelihood of P(click) = examined[position] · attractive[pair].

    Reference: Wang, Golbandi, Bendersky, Metzler and Najork (2018), Position Bias Estimation for Unbiased Learning to
    Rank in Personal Search (without its regression).

    Args:
      pair: By shown row, the number of its (query, item) pair.
      position: By shown row, from 0.
      clicked: By shown row, 1 or 0.

    Returns:
      The probability that each position is examined, relative to the first; None where no pair stands at two positions,
      so that nothing tells it.
    """
    n_pairs = int(pair.max()) + 1
    last_position = np.zeros(n_pairs, dtype=np.int64)
    last_position[pair] = position
    if position.max() > 0 and (last_position[pair] == position).all():
        return None
    names, n_rows = ("",) * n_pairs, len(pair)
    log = ClickArrays(  # a row is a page of its own, since the model does not look at other rows
        offsets=np.arange(n_rows + 1),
        pair=pair,
        position=position,
        clicked=clicked,
        session=np.zeros(n_rows, np.int64),
        query_ids=names,
        items=names,
    )
    # A belief that pulls pairs together would take for position bias what is due to an order by attraction.
    return PositionBasedModel.fit(log, Prior(np.full(n_pairs, 0.5), 0.0)).examination[:, 0]


def bias_from_swaps(
    positions: ArrayLike, clicked: ArrayLike, probabilities: ArrayLike, n_positions: int, smoothing: float = 1.0
) -> Floats:
    """Estimate position bias from neighbours that were swapped at random, as `3pr` does anyway.

    Every pair of neighbouring positions p, p + 1 compares the same items, so examined[p + 1] / examined[p] =
    Σ_(at p+1) clicked / probability ÷ Σ_(at p) clicked / probability, and the ratios multiply up from the top.
    Reference: Agarwal, Zaitsev, Wang, Li, Najork and Joachims (2019), Estimating Position Bias without Intrusive
    Interventions.

    Args:
      positions: (n, 2): the upper position of the pair, and the position of the item; one row per item of a pair.
      clicked: Whether each item was clicked.
      probabilities: How likely each item stood there rather than in the other position of its pair.
      n_positions: How many positions the answer has.
      smoothing: Clicks that are added to either side.

    Returns:
      Relative probabilities of examination; that of the first position is 1.

    Raises:
      InvalidInput: If the lengths differ, or a probability is not above 0 and at most 1.
    """
    both = np.asarray(positions, dtype=np.int64)
    hits, chances = finite_floats(clicked, 1, "clicked"), finite_floats(probabilities, 1, "probabilities")
    if both.ndim != 2 or both.shape[1] != 2 or not len(both) == len(hits) == len(chances):
        raise InvalidInput(
            "positions holds (upper position of the pair, own position) for each entry of clicked and probabilities"
        )
    faults = np.flatnonzero(~((chances > 0) & (chances <= 1)))
    if len(faults):
        row = int(faults[0])
        raise InvalidInput(f"row {row}: the probability is {chances[row]}; what happened had one above 0 and at most 1")
    step = both[:, 1] - both[:, 0]
    upper, lower = (np.bincount(both[step == side, 0], (hits / chances)[step == side], n_positions) for side in (0, 1))
    ratios = (lower[: n_positions - 1] + smoothing) / (upper[: n_positions - 1] + smoothing)
    examined = np.ones(n_positions)
    for position, ratio in enumerate(ratios):
        examined[position + 1] = max(MIN_PROBABILITY, examined[position] * ratio)
    return examined
