"""The user browsing model, and the position-based one, which is position bias: examination by position."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from rankloop.click_models.base import MIN_EM_GAIN, MIN_PROBABILITY, ClickModel, Evidence, ModelName, Prior
from rankloop.click_models.examination import Examination, estimate_examination
from rankloop.click_models.kernels import ClickRows, rows_of
from rankloop.click_models.reading import fit_memory, probabilities_by_distance
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats
from rankloop.logs.list_log import ClickArrays


@kernel
def _round(rows: ClickRows, table: Floats, attraction: Floats, prior: Prior, hits: Floats, examined: Floats) -> float:
    """Do one round in place and return log-likelihood and prior before it.

    Only examination is hidden: P(examined | no click) = e (1 − a)/(1 − e a). The table stays as it is.
    """
    width = table.shape[1]
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
                hits[i] += 1.0
                examined[i] += 1.0
                last = p
            else:
                total += np.log(1.0 - both)
                examined[i] += e * (1.0 - a) / (1.0 - both)
    for i in range(len(attraction)):
        mean = prior.mean[i]
        total += prior.rows * (mean * np.log(attraction[i]) + (1.0 - mean) * np.log(1.0 - attraction[i]))
        if examined[i] + prior.rows > 0.0:
            share = (hits[i] + prior.rows * mean) / (examined[i] + prior.rows)
            attraction[i] = min(max(share, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
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

    @classmethod
    def examination_table(cls, log: ClickArrays, examination: Examination | None = None) -> Floats:
        """Return the table of the reading with memory for clicks above."""
        examination = examination or estimate_examination(log)
        return probabilities_by_distance(fit_memory(log, examination), log.n_positions)

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats, max_rounds: int) -> Self:
        """Fit attraction by expectation maximisation over what was examined, given the table."""
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

    Examination is the shared estimate, which needs pairs that stand at several positions.
    References: Richardson, Dominowska and Ragno (2007), Predicting Clicks; Craswell, Zoeter, Taylor and Ramsey (2008),
    An Experimental Comparison of Click Position-Bias Models.
    """

    name: ClassVar[ModelName] = "pbm"

    @classmethod
    def examination_table(cls, log: ClickArrays, examination: Examination | None = None) -> Floats:
        """Return the shared curve."""
        curve = (examination or estimate_examination(log)).curve
        return np.clip(curve, MIN_PROBABILITY, 1.0)[:, None]
