"""The dynamic Bayesian network: as the simplified one, and people may lose patience anywhere."""

import numpy as np

from rankloop.click_models.base import MAX_ROUNDS, SMALLEST, TOLERANCE, Fitted, Prior, estimated_prior, shares
from rankloop.click_models.page_log import PageLog
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints


@kernel
def _expect(
    offsets: Ints,
    pair: Ints,
    clicked: Floats,
    attraction: Floats,
    satisfaction: Floats,
    persistence: float,
    sums: Floats,
) -> tuple[float, float, float]:
    """Add up what the pages tell: log-likelihood, times that people could go on, and that they did.

    Rows of `sums`, by pair: clicks, examinations, clicks after which more was shown, satisfied ones of these. With
    below = P(clicks from this row on | examined) and above = P(clicks before it, examined), from bottom and top; who
    has stopped clicks nothing more.
    """
    total, could, did = 0.0, 0.0, 0.0
    for page in range(len(offsets) - 1):
        start, end = offsets[page], offsets[page + 1]
        below, silent = np.ones(end - start + 1), np.ones(end - start + 1)
        for row in range(end - 1, start - 1, -1):
            r, i = row - start, pair[row]
            a, s, on = attraction[i], satisfaction[i], persistence
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
            a, s, on = attraction[i], satisfaction[i], persistence
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


def fit_dbn(log: PageLog, prior: Prior, max_rounds: int = MAX_ROUNDS, tolerance: float = TOLERANCE) -> Fitted:
    """Expectation maximisation, by going up and down each page, twice: the first time tells how alike pairs satisfy.

    What comes after the last row of a page is not seen, so it tells nothing of satisfaction and patience.
    Reference: Chapelle and Zhang (2009), A Dynamic Bayesian Network Click Model for Web Search Ranking, appendix.
    """
    first = _maximised(log, prior, Prior(np.full(log.n_pairs, 0.5), 1.0), None, max_rounds, tolerance)
    sums = np.zeros((4, log.n_pairs))
    _expect(log.offsets, log.pair, log.clicked, first.attraction, first.satisfaction, first.persistence, sums)
    return _maximised(log, prior, estimated_prior(sums[3], sums[2]), first, max_rounds, tolerance)


def _maximised(
    log: PageLog, prior: Prior, belief: Prior, begin: Fitted | None, max_rounds: int, tolerance: float
) -> Fitted:
    attraction = prior.mean if begin is None else begin.attraction
    persistence = 0.9 if begin is None else begin.persistence
    attraction, satisfaction = _clipped(attraction), _clipped(belief.mean)
    objectives: list[float] = []
    while True:
        sums = np.zeros((4, log.n_pairs))
        total, could, did = _expect(log.offsets, log.pair, log.clicked, attraction, satisfaction, persistence, sums)
        objectives.append(total + _penalty(attraction, prior) + _penalty(satisfaction, belief))
        grown = len(objectives) < 2 or objectives[-1] - objectives[-2] >= tolerance * len(log.pair)
        if len(objectives) >= max_rounds or not grown:
            break
        attraction = shares(sums[0], sums[1], prior)
        satisfaction = shares(sums[3], sums[2], belief)
        persistence = float(np.clip(did / could, SMALLEST, 1.0 - SMALLEST)) if could > 0.0 else persistence
    table, stop = np.ones((log.n_positions, 1)), np.zeros(log.n_positions)
    own = attraction, satisfaction, table, stop, persistence, sums[0], sums[1], prior
    return Fitted("dbn", *own, tuple(objectives), belief)


def _penalty(values: Floats, prior: Prior) -> float:
    logs = prior.mean * np.log(values) + (1.0 - prior.mean) * np.log1p(-values)
    return float(prior.rows * logs.sum())


def _clipped(values: Floats) -> Floats:
    found: Floats = np.clip(values, SMALLEST, 1.0 - SMALLEST)
    return found
