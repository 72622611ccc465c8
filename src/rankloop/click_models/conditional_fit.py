"""Effects of positions on clicks by the conditional likelihood, in which the attraction of items cancels.

With E[clicks of unit u in cell s] = n_us · θ_s · γ_u, conditioning on the clicks of the unit removes γ_u (fixed-effects
Poisson). θ = exp(design · β) maximises Σ_u Σ_s c_us log(n_us θ_s / Σ_t n_ut θ_t). Only units that occur in two or more
cells carry information. The estimate is consistent under the assumption on the mean alone.
References: Hausman, Hall and Griliches (1984), Econometric Models for Count Data with an Application to the Patents-R&D
Relationship; Wooldridge (1999), Distribution-Free Estimation of Some Nonlinear Panel Data Models.
"""

from typing import NamedTuple

import numpy as np

from rankloop.core.types import Floats, Ints

MAX_NEWTON_STEPS = 50
MAX_STEP = 2.0  # of a coefficient in one Newton step
MAX_LEVERAGE = 0.9  # of a cluster, above which its score is not scaled up further


class UnitCells(NamedTuple):
    """Rows of a log that belong to units in several cells, summed by unit, cell and cluster.

    Attributes:
      unit: By entry, sorted; numbered from 0 without gaps.
      cell: By entry.
      cluster: By entry.
      rows: By entry, how many rows it stands for.
      clicks: By entry.
      n_clusters: How many clusters the log has.
    """

    unit: Ints
    cell: Ints
    cluster: Ints
    rows: Floats
    clicks: Floats
    n_clusters: int

    @property
    def n_units(self) -> int:
        """The number of units that carry information."""
        return int(self.unit[-1]) + 1 if len(self.unit) else 0


def count_cells(
    unit: Ints, cell: Ints, cluster: Ints, clicked: Floats, n_clusters: int, weight: Floats | None = None
) -> UnitCells:
    """Sum rows by unit, cell and cluster, and drop units without a click or with a single cell.

    Args:
      unit: By row, whose attraction is constant.
      cell: By row.
      cluster: By row, what is resampled together.
      clicked: By row.
      n_clusters: How many clusters the log has.
      weight: By row, for how many it stands; 1 unless given.

    Returns:
      The entries, sorted by unit.
    """
    n_units, n_cells = int(unit.max()) + 1, int(cell.max()) + 1
    clicks_of_unit = np.bincount(unit, clicked, n_units)
    lowest, highest = np.full(n_units, n_cells), np.full(n_units, -1)
    np.minimum.at(lowest, unit, cell)
    np.maximum.at(highest, unit, cell)
    rows = np.flatnonzero(((clicks_of_unit > 0.0) & (lowest < highest))[unit])
    key = (unit[rows] * n_cells + cell[rows]) * n_clusters + cluster[rows]
    keys, entry = np.unique(key, return_inverse=True)
    n_entries, weights = len(keys), np.ones(len(rows)) if weight is None else weight[rows]
    units = keys // (n_cells * n_clusters)
    return UnitCells(
        unit=np.unique(units, return_inverse=True)[1].astype(np.int64),
        cell=(keys // n_clusters) % n_cells,
        cluster=keys % n_clusters,
        rows=np.bincount(entry, weights, n_entries).astype(np.float64),
        clicks=np.bincount(entry, weights * clicked[rows], n_entries).astype(np.float64),
        n_clusters=n_clusters,
    )


class GaussianPrior(NamedTuple):
    """A normal prior of the coefficients.

    Attributes:
      mean: By coefficient.
      precision: (n, n), the inverse of its covariance.
    """

    mean: Floats
    precision: Floats


class ConditionalFit(NamedTuple):
    """Coefficients at the maximum of the penalised conditional likelihood.

    Attributes:
      coefficients: β.
      influence: (n_clusters, n), by how much each cluster moves the coefficients.
      prior_covariance: (n, n), the part of the variance that the prior leaves.
      log_likelihood: Of the clicks, without the prior.
      information: (n, n), of the clicks, without the prior.
      prior: The prior.
    """

    coefficients: Floats
    influence: Floats
    prior_covariance: Floats
    log_likelihood: float
    information: Floats
    prior: GaussianPrior

    @property
    def covariance(self) -> Floats:
        """The sandwich covariance, clustered, with the part that the prior leaves."""
        covariance: Floats = self.influence.T @ self.influence + self.prior_covariance
        return covariance


def inverse_of(matrix: Floats) -> Floats:
    """Return the inverse of a matrix."""
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


class _Moments(NamedTuple):
    """The conditional likelihood at some coefficients, with what its derivatives need."""

    log_likelihood: float
    residual: Floats  # by entry: clicks less those that the unit's total lets expect
    expected: Floats  # by entry
    centred: Floats  # (n_entries, n): the design less its mean within the unit


def _moments(cells: UnitCells, design: Floats, coefficients: Floats, offset: Floats | float) -> _Moments:
    linear = design @ coefficients + offset
    weight = cells.rows * np.exp(linear)
    n_units = cells.n_units
    total, clicks = np.bincount(cells.unit, weight, n_units), np.bincount(cells.unit, cells.clicks, n_units)
    share = weight / total[cells.unit]
    starts = np.flatnonzero(np.diff(cells.unit, prepend=-1))
    mean = np.add.reduceat(share[:, None] * design, starts, axis=0)
    expected = clicks[cells.unit] * share
    log_likelihood = float((cells.clicks * np.log(np.maximum(share, 1e-300))).sum())
    return _Moments(log_likelihood, cells.clicks - expected, expected, design - mean[cells.unit])


def fit_conditional(
    cells: UnitCells, cell_design: Floats, prior: GaussianPrior, offset: Floats | float = 0.0
) -> ConditionalFit:
    """Maximise the conditional likelihood and the prior by Newton's method.

    Args:
      cells: Clicks by unit and cell.
      cell_design: (n_cells, n), log θ = cell_design · β.
      prior: Keeps coefficients finite about which the log says nothing.
      offset: By entry, what is added to log θ.

    Returns:
      The fit; without any unit in two cells it is the prior.
    """
    n = cell_design.shape[1]
    coefficients = prior.mean.copy()
    if not cells.n_units:
        covariance = inverse_of(prior.precision)
        nothing = np.zeros((cells.n_clusters, n))
        return ConditionalFit(coefficients, nothing, covariance, 0.0, np.zeros((n, n)), prior)
    design = cell_design[cells.cell]

    def penalty(at: Floats) -> float:
        return 0.5 * float((at - prior.mean) @ prior.precision @ (at - prior.mean))

    now = _moments(cells, design, coefficients, offset)
    for _ in range(MAX_NEWTON_STEPS):
        gradient = design.T @ now.residual - prior.precision @ (coefficients - prior.mean)
        information = (now.centred * now.expected[:, None]).T @ now.centred
        step = np.linalg.solve(information + prior.precision, gradient)
        step *= min(1.0, MAX_STEP / max(float(np.abs(step).max()), 1e-12))
        value, scale = now.log_likelihood - penalty(coefficients), 1.0
        while True:
            moved = _moments(cells, design, coefficients + scale * step, offset)
            if moved.log_likelihood - penalty(coefficients + scale * step) >= value - 1e-9 or scale < 1e-4:
                break
            scale /= 2.0
        coefficients, now = coefficients + scale * step, moved
        if float(np.abs(scale * step).max()) < 1e-8:
            break
    information = (now.centred * now.expected[:, None]).T @ now.centred
    inverse = inverse_of(information + prior.precision)
    scores = _sums_by_cluster(now.residual[:, None] * now.centred, cells)
    return ConditionalFit(
        coefficients=coefficients,
        influence=_without_leverage(scores, now, cells, inverse) @ inverse,
        prior_covariance=inverse @ prior.precision @ inverse,
        log_likelihood=now.log_likelihood,
        information=information,
        prior=prior,
    )


def _sums_by_cluster(values: Floats, cells: UnitCells) -> Floats:
    """Return the sums of the columns over the entries of each cluster."""
    columns = [np.bincount(cells.cluster, column, cells.n_clusters) for column in values.T]
    return np.stack(columns, axis=1).astype(np.float64)


def _without_leverage(scores: Floats, now: _Moments, cells: UnitCells, inverse: Floats) -> Floats:
    """Scale the score of each cluster up by what it pulled the fit towards itself (the jackknife's correction)."""
    n = scores.shape[1]
    by_cluster = np.zeros((cells.n_clusters, n, n))
    for column in range(n):
        product = now.expected[:, None] * now.centred[:, [column]] * now.centred
        by_cluster[:, column] = _sums_by_cluster(product, cells)
    leverage = by_cluster @ inverse
    largest = np.trace(leverage, axis1=1, axis2=2)
    leverage *= np.minimum(1.0, MAX_LEVERAGE / np.maximum(largest, 1e-12))[:, None, None]
    return np.asarray(np.linalg.solve(np.eye(n) - leverage, scores[:, :, None])[:, :, 0], dtype=np.float64)


def row_scores(unit: Ints, theta: Floats, clicked: Floats, covariate: Floats) -> Floats:
    """Return the score of each row for a further covariate: (c − γ θ)(x − mean of x in the unit).

    Args:
      unit: By row.
      theta: By row, the fitted effect of its cell.
      clicked: By row.
      covariate: By row.

    Returns:
      By row; the sum is 0 in expectation where the covariate has no effect.
    """
    n_units = int(unit.max()) + 1
    total = np.maximum(np.bincount(unit, theta, n_units), 1e-300)
    rate, mean = np.bincount(unit, clicked, n_units) / total, np.bincount(unit, theta * covariate, n_units) / total
    scores: Floats = (clicked - rate[unit] * theta) * (covariate - mean[unit])
    return scores
