"""The dynamic Bayesian network: as the simplified one, and users may lose patience anywhere."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from rankloop.click_models.base import (
    MIN_EM_GAIN,
    ClickModel,
    Evidence,
    ModelName,
    Prior,
    clipped,
    estimate_prior,
    shares,
)
from rankloop.click_models.kernels import ClickParameters, ClickRows, rows_of
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats
from rankloop.logs.list_log import ClickArrays


@kernel
def _expect(parameters: ClickParameters, rows: ClickRows, sums: Floats) -> tuple[float, float, float]:
    """Add up what the pages tell: log-likelihood, times that users could read on, and that they did.

    Rows of `sums`, by pair: clicks, examinations, clicks after which more was shown, satisfied ones of these. With
    below = P(clicks from this row on | examined) and above = P(clicks before it, examined), from bottom and top; who
    has stopped clicks nothing more.
    """
    total, could, did = 0.0, 0.0, 0.0
    offsets, pair, clicked, on = rows.offsets, rows.pair, rows.clicked, parameters.persistence
    for page in range(len(offsets) - 1):
        start, end = offsets[page], offsets[page + 1]
        below, silent = np.ones(end - start + 1), np.ones(end - start + 1)
        for row in range(end - 1, start - 1, -1):
            r, i = row - start, pair[row]
            a, s = parameters.attraction[i], parameters.satisfaction[i]
            if clicked[row] > 0.0:
                silent[r] = 0.0
                goes = (1.0 - s) * on
                below[r] = a * (goes * below[r + 1] + (1.0 - goes) * silent[r + 1])
            else:
                silent[r] = silent[r + 1]
                below[r] = (1.0 - a) * (on * below[r + 1] + (1.0 - on) * silent[r + 1])
        likelihood = max(below[0], 1e-300)
        total += np.log(likelihood)
        above = 1.0
        for row in range(start, end):
            r, i = row - start, pair[row]
            a, s = parameters.attraction[i], parameters.satisfaction[i]
            sums[1, i] += above * below[r] / likelihood
            more = row < end - 1
            if clicked[row] > 0.0:
                sums[0, i] += 1.0
                if more:
                    satisfied = above * a * s * silent[r + 1] / likelihood
                    goes = above * a * (1.0 - s) * on * below[r + 1] / likelihood
                    sums[2, i] += 1.0
                    sums[3, i] += satisfied
                    could += 1.0 - satisfied
                    did += goes
                above *= a * (1.0 - s) * on
            else:
                if more:
                    could += above * below[r] / likelihood
                    did += above * (1.0 - a) * on * below[r + 1] / likelihood
                above *= (1.0 - a) * on
    return total, could, did


@dataclass(frozen=True, kw_only=True, eq=False)
class DbnModel(ClickModel):
    """As the simplified model, but users who are not satisfied read on only with `persistence`.

    Reference: Chapelle and Zhang (2009), A Dynamic Bayesian Network Click Model for Web Search Ranking, appendix.
    """

    name: ClassVar[ModelName] = "dbn"
    numbers: ClassVar[tuple[str, ...]] = ("satisfaction", "persistence")

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats, max_rounds: int) -> Self:
        """Expectation maximisation, up and down each page, twice: the first time tells how alike pairs satisfy.

        What comes after the last row of a page is not seen, so it tells nothing of satisfaction and patience.
        """
        half = np.full(log.n_pairs, 0.5)
        start = cls(attraction=clipped(prior.mean), satisfaction=half, persistence=0.9)
        first = start._maximised(log, prior, Prior(half, 1.0), max_rounds)
        sums = np.zeros((4, log.n_pairs))
        _expect(first.parameters, rows_of(log), sums)
        belief = estimate_prior(sums[3], sums[2])
        start = cls(attraction=first.attraction, satisfaction=clipped(belief.mean), persistence=first.persistence)
        return start._maximised(log, prior, belief, max_rounds)

    def _maximised(self, log: ClickArrays, prior: Prior, belief: Prior, max_rounds: int) -> Self:
        """Climb from these numbers; `prior` is the belief about attraction, `belief` that about satisfaction."""
        now, objectives = self.parameters, list[float]()
        while True:
            sums = np.zeros((4, log.n_pairs))
            total, could, did = _expect(now, rows_of(log), sums)
            objectives.append(total + _penalty(now.attraction, prior) + _penalty(now.satisfaction, belief))
            grown = len(objectives) < 2 or objectives[-1] - objectives[-2] >= MIN_EM_GAIN * len(log.pair)
            if len(objectives) >= max_rounds or not grown:
                break
            persistence = float(clipped(np.array(did / could))) if could > 0.0 else now.persistence
            now = now._replace(
                attraction=shares(sums[0], sums[1], prior),
                satisfaction=shares(sums[3], sums[2], belief),
                persistence=persistence,
            )
        return type(self)(
            attraction=now.attraction,
            satisfaction=now.satisfaction,
            examination=np.ones((log.n_positions, 1)),
            persistence=now.persistence,
            evidence=Evidence(sums[0], sums[1], prior, tuple(objectives)),
        )


def _penalty(values: Floats, prior: Prior) -> float:
    logs = prior.mean * np.log(values) + (1.0 - prior.mean) * np.log1p(-values)
    return float(prior.rows * logs.sum())
