"""The user browsing model: whether a position is examined depends on it and on the way back to the last click."""

import numpy as np

from rankloop.click_models.base import MAX_ROUNDS, SMALLEST, TOLERANCE, Fitted, Prior
from rankloop.click_models.page_log import PageLog
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.simulate.users.fitted_users import ModelName

CELL_ROWS = 1.0  # the belief about how a cell of the table is examined: one row, one half


@kernel
def _round(
    offsets: Ints,
    pair: Ints,
    position: Ints,
    clicked: Floats,
    table: Floats,
    attraction: Floats,
    hits: Floats,
    rows: Floats,
    mean: Floats,
    prior_rows: float,
) -> float:
    """One round in place; returns the log-likelihood and prior before it. Only examination is hidden:

    P(examined | no click) = e (1 − a)/(1 − e a). The first position is always examined, which fixes the scale of both.
    """
    width = table.shape[1]
    seen, shown = np.zeros(table.shape), np.zeros(table.shape)
    hits[:], rows[:] = 0.0, 0.0
    total = 0.0
    for page in range(len(offsets) - 1):
        last = -1
        for row in range(offsets[page], offsets[page + 1]):
            p, i = position[row], pair[row]
            way = min(p - last, width - 1) if last >= 0 else 0
            e, a = table[p, way], attraction[i]
            both = min(e * a, 1.0 - 1e-12)
            if clicked[row] > 0.0:
                total += np.log(both)
                examined = 1.0
                hits[i] += 1.0
                last = p
            else:
                total += np.log(1.0 - both)
                examined = e * (1.0 - a) / (1.0 - both)
            seen[p, way] += examined
            shown[p, way] += 1.0
            rows[i] += examined
    for i in range(len(attraction)):
        total += prior_rows * (mean[i] * np.log(attraction[i]) + (1.0 - mean[i]) * np.log(1.0 - attraction[i]))
        if rows[i] + prior_rows > 0.0:
            share = (hits[i] + prior_rows * mean[i]) / (rows[i] + prior_rows)
            attraction[i] = min(max(share, SMALLEST), 1.0 - SMALLEST)
    for p in range(1, len(table)):
        for way in range(width):
            if shown[p, way] > 0.0:
                total += 0.5 * CELL_ROWS * (np.log(table[p, way]) + np.log(1.0 - table[p, way]))
                share = (seen[p, way] + 0.5 * CELL_ROWS) / (shown[p, way] + CELL_ROWS)
                table[p, way] = min(max(share, SMALLEST), 1.0 - SMALLEST)
    return float(total)


def fit_ubm(log: PageLog, prior: Prior, max_rounds: int = MAX_ROUNDS, tolerance: float = TOLERANCE) -> Fitted:
    """Expectation maximisation of P(click) = examination[position, way back to the last click] · attraction[pair].

    Reference: Dupret and Piwowarski (2008), A User Browsing Model to Predict Search Engine Click Data from Past
    Observations.
    """
    return fit_browsing("ubm", log, prior, log.n_positions, max_rounds, tolerance)


def fit_browsing(model: ModelName, log: PageLog, prior: Prior, width: int, max_rounds: int, tolerance: float) -> Fitted:
    """With so many columns of ways back; one: by the position alone."""
    table = np.full((log.n_positions, width), 0.5)
    table[:] = np.linspace(0.9, 0.3, log.n_positions)[:, None]
    table[0] = 1.0
    attraction = np.clip(prior.mean.copy(), SMALLEST, 1.0 - SMALLEST)
    hits, rows = np.zeros(log.n_pairs), np.zeros(log.n_pairs)
    objectives: list[float] = []
    arrays = log.offsets, log.pair, log.position, log.clicked, table, attraction, hits, rows
    while len(objectives) < max_rounds:
        objectives.append(_round(*arrays, prior.mean, prior.rows))
        if len(objectives) > 1 and objectives[-1] - objectives[-2] < tolerance * len(log.pair):
            break
    none = np.zeros(log.n_pairs)
    return Fitted(model, attraction, none, table, np.zeros(log.n_positions), 1.0, hits, rows, prior, tuple(objectives))
