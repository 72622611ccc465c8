"""The user browsing model, and the position-based one, which is position bias: examination by position."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from rankloop.click_models.base import MIN_EM_GAIN, MIN_PROBABILITY, ClickModel, Evidence, ModelName, Prior
from rankloop.click_models.kernels import ClickRows, rows_of
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats
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
