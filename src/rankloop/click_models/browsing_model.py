"""The user browsing model, and the position-based one, which is position bias: examination by position."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from rankloop.click_models.base import MIN_EM_GAIN, MIN_PROBABILITY, ClickModel, Evidence, ModelName, Prior
from rankloop.click_models.kernels import ClickRows, rows_of
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.logs.list_log import ClickArrays

CELL_ROWS = 1.0  # the belief about how a cell of the table is examined: one row, one half


@kernel
def _round(rows: ClickRows, table: Floats, attraction: Floats, prior: Prior, hits: Floats, examined: Floats) -> float:
    """Do one round in place and return log-likelihood and prior before it. Only examination is hidden:

    P(examined | no click) = e (1 − a)/(1 − e a). The first position is always examined, which fixes the scale of both.
    """
    width = table.shape[1]
    examined_at, shown_at = np.zeros(table.shape), np.zeros(table.shape)
    hits[:], examined[:] = 0.0, 0.0
    total = 0.0
    for page in range(len(rows.offsets) - 1):
        last = -1
        for row in range(rows.offsets[page], rows.offsets[page + 1]):
            p, i = rows.position[row], rows.pair[row]
            distance = min(p - last, width - 1) if last >= 0 else 0
            e, a = table[p, distance], attraction[i]
            both = min(e * a, 1.0 - 1e-12)
            if rows.clicked[row] > 0.0:
                total += np.log(both)
                expected = 1.0
                hits[i] += 1.0
                last = p
            else:
                total += np.log(1.0 - both)
                expected = e * (1.0 - a) / (1.0 - both)
            examined_at[p, distance] += expected
            shown_at[p, distance] += 1.0
            examined[i] += expected
    for i in range(len(attraction)):
        mean = prior.mean[i]
        total += prior.rows * (mean * np.log(attraction[i]) + (1.0 - mean) * np.log(1.0 - attraction[i]))
        if examined[i] + prior.rows > 0.0:
            share = (hits[i] + prior.rows * mean) / (examined[i] + prior.rows)
            attraction[i] = min(max(share, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
    for p in range(1, len(table)):
        for distance in range(width):
            if shown_at[p, distance] > 0.0:
                total += 0.5 * CELL_ROWS * (np.log(table[p, distance]) + np.log(1.0 - table[p, distance]))
                share = (examined_at[p, distance] + 0.5 * CELL_ROWS) / (shown_at[p, distance] + CELL_ROWS)
                table[p, distance] = min(max(share, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
    return float(total)


@dataclass(frozen=True, kw_only=True, eq=False)
class UserBrowsingModel(ClickModel):
    """P(click) = examination[position, distance to the last click] · attraction[pair].

    Reference: Dupret and Piwowarski (2008), A User Browsing Model to Predict Search Engine Click Data from Past
    Observations.
    """

    name: ClassVar[ModelName] = "ubm"
    numbers: ClassVar[tuple[str, ...]] = ("examination",)
    browsing: ClassVar[bool] = True
    by_distance: ClassVar[bool] = True

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, max_rounds: int) -> Self:
        """Expectation maximisation over what was examined; the first position always is."""
        table = np.empty((log.n_positions, log.n_positions if cls.by_distance else 1))
        table[:] = np.linspace(0.9, 0.3, log.n_positions)[:, None]
        table[0] = 1.0
        attraction = np.clip(prior.mean, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
        hits, examined, objectives = np.zeros(log.n_pairs), np.zeros(log.n_pairs), list[float]()
        while len(objectives) < max_rounds:
            objectives.append(_round(rows_of(log), table, attraction, prior, hits, examined))
            if len(objectives) > 1 and objectives[-1] - objectives[-2] < MIN_EM_GAIN * len(log.pair):
                break
        evidence = Evidence(hits, examined, prior, tuple(objectives))
        return cls(attraction=attraction, examination=table, evidence=evidence)


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
