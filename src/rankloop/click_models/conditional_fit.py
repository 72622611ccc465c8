"""Effects of positions on clicks by the conditional likelihood, in which the attraction of items cancels.

With E[clicks of unit u in cell s] = n_us · θ_s · γ_u, conditioning on the clicks of the unit removes γ_u (fixed-effects
Poisson). θ = exp(design · β) maximises Σ_u Σ_s c_us log(n_us θ_s / Σ_t n_ut θ_t). Only units that occur in two or more
cells carry information. The estimate is consistent under the assumption on the mean alone.
References: Hausman, Hall and Griliches (1984), Econometric Models for Count Data with an Application to the Patents-R&D
Relationship; Wooldridge (1999), Distribution-Free Estimation of Some Nonlinear Panel Data Models.
"""

from typing import NamedTuple, Self

import numpy as np

from rankloop.core.types import Floats, Ints

MAX_NEWTON_STEPS = 50
MAX_STEP = 2.0  # of a coefficient in one Newton step
MAX_LEVERAGE = 0.9  # of a cluster, above which its score is not scaled up further


class UnitCells(NamedTuple):
    """Rows of a log that belong to units in several cells, summed by unit, cell and cluster; sorted by unit."""

    unit: Ints  # numbered from 0 without gaps
    cell: Ints
    cluster: Ints
    rows: Floats  # how many rows an entry stands for
    clicks: Floats  # weighted as the rows are
    n_clusters: int  # of the log
    n_clicks: int = 0  # without weights

    @classmethod
    def of_rows(
        cls, unit: Ints, cell: Ints, cluster: Ints, clicked: Floats, n_clusters: int, weight: Floats | None = None
    ) -> Self:
        """Sum rows, each standing for `weight`, and drop units without a click or with a single cell."""
        n_units, n_cells = int(unit.max()) + 1, int(cell.max()) + 1
        clicks_of_unit = np.bincount(unit, clicked, n_units)
        lowest, highest = np.full(n_units, n_cells), np.full(n_units, -1)
        np.minimum.at(lowest, unit, cell)
        np.maximum.at(highest, unit, cell)
        rows = np.flatnonzero(((clicks_of_unit > 0.0) & (lowest < highest))[unit])
        keys, entry = np.unique((unit[rows] * n_cells + cell[rows]) * n_clusters + cluster[rows], return_inverse=True)
        weights = np.ones(len(rows)) if weight is None else weight[rows]
        return cls(
            unit=np.unique(keys // (n_cells * n_clusters), return_inverse=True)[1].astype(np.int64),
            cell=(keys // n_clusters) % n_cells,
            cluster=keys % n_clusters,
            rows=np.bincount(entry, weights, len(keys)).astype(np.float64),
            clicks=np.bincount(entry, weights * clicked[rows], len(keys)).astype(np.float64),
            n_clusters=n_clusters,
            n_clicks=int(np.count_nonzero(clicked[rows] * weights)),
        )

    @property
    def n_units(self) -> int:
        """The number of units that carry information."""
        return int(self.unit[-1]) + 1 if len(self.unit) else 0


class GaussianPrior(NamedTuple):
    """A normal prior of the coefficients."""

    mean: Floats
    precision: Floats  # (n, n), the inverse of its covariance


class ConditionalFit(NamedTuple):
    """Coefficients at the maximum of the penalised conditional likelihood."""

    coefficients: Floats
    influence: Floats  # (n_clusters, n), by how much each cluster moves the coefficients
    prior_covariance: Floats  # (n, n), the part of the variance that the prior leaves
    log_likelihood: float  # of the clicks, without the prior

    @property
    def covariance(self) -> Floats:
        """The sandwich covariance, clustered, with the part that the prior leaves."""
        covariance: Floats = self.influence.T @ self.influence + self.prior_covariance
        return covariance

    def in_terms_of(self, design: Floats) -> tuple[Floats, Floats, Floats]:
        """Return design · coefficients, with their influence and prior covariance."""
        return design @ self.coefficients, self.influence @ design.T, design @ self.prior_covariance @ design.T


def inverse_of(matrix: Floats) -> Floats:
    """Return the inverse of a matrix."""
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def sums_by_cluster(values: Floats, cluster: Ints, n_clusters: int) -> Floats:
    """Return (n_clusters, n_columns): the sums of the columns over the entries of each cluster.

    Args:
      values: (n_entries, n_columns).
      cluster: By entry.
      n_clusters: Of the log.
    """
    return np.stack([np.bincount(cluster, column, n_clusters) for column in values.T], axis=1).astype(np.float64)


def _moments(cells: UnitCells, design: Floats, log_theta: Floats) -> tuple[float, Floats, Floats, Floats]:
    """Return the conditional log-likelihood, and what its derivatives need."""
    # These are by entry: clicks less those that the unit's total lets expect, the expected clicks, and the design less
    # its mean within the unit.
    weight = cells.rows * np.exp(log_theta)
    total, clicks = np.bincount(cells.unit, weight), np.bincount(cells.unit, cells.clicks)
    share = weight / total[cells.unit]
    mean = np.add.reduceat(share[:, None] * design, np.flatnonzero(np.diff(cells.unit, prepend=-1)), axis=0)
    expected = clicks[cells.unit] * share
    log_likelihood = float((cells.clicks * np.log(np.maximum(share, 1e-300))).sum())
    return log_likelihood, cells.clicks - expected, expected, design - mean[cells.unit]


def fit_conditional(
    cells: UnitCells, cell_design: Floats, prior: GaussianPrior, offset: Floats | float = 0.0
) -> ConditionalFit:
    """Maximise the conditional likelihood and the prior by Newton's method; without any unit in two cells, the prior.

    Args:
      cells: Clicks by unit and cell.
      cell_design: (n_cells, n), log θ = cell_design · β.
      prior: Keeps coefficients finite about which the log says nothing.
      offset: By entry, what is added to log θ.
    """
    coefficients, n = prior.mean.copy(), cell_design.shape[1]
    if not cells.n_units:
        return ConditionalFit(coefficients, np.zeros((cells.n_clusters, n)), inverse_of(prior.precision), 0.0)
    design = cell_design[cells.cell]

    def penalty(at: Floats) -> float:
        return 0.5 * float((at - prior.mean) @ prior.precision @ (at - prior.mean))

    log_likelihood, residual, expected, centred = _moments(cells, design, design @ coefficients + offset)
    for _ in range(MAX_NEWTON_STEPS):
        gradient = design.T @ residual - prior.precision @ (coefficients - prior.mean)
        step = np.linalg.solve((centred * expected[:, None]).T @ centred + prior.precision, gradient)
        step *= min(1.0, MAX_STEP / max(float(np.abs(step).max()), 1e-12))
        value, scale = log_likelihood - penalty(coefficients), 1.0
        while True:
            moved = coefficients + scale * step
            log_likelihood, residual, expected, centred = _moments(cells, design, design @ moved + offset)
            if log_likelihood - penalty(moved) >= value - 1e-9 or scale < 1e-4:
                break
            scale /= 2.0
        coefficients = moved
        if float(np.abs(scale * step).max()) < 1e-8:
            break
    inverse = inverse_of((centred * expected[:, None]).T @ centred + prior.precision)
    # The score of each cluster is scaled up by what it pulled the fit towards itself (the jackknife's correction).
    scores = sums_by_cluster(residual[:, None] * centred, cells.cluster, cells.n_clusters)
    products = ((expected * column)[:, None] * centred for column in centred.T)
    by_cluster = [sums_by_cluster(product, cells.cluster, cells.n_clusters) for product in products]
    leverage = np.stack(by_cluster, axis=1) @ inverse
    largest = np.trace(leverage, axis1=1, axis2=2)
    leverage *= np.minimum(1.0, MAX_LEVERAGE / np.maximum(largest, 1e-12))[:, None, None]
    scores = np.asarray(np.linalg.solve(np.eye(n) - leverage, scores[:, :, None])[:, :, 0], dtype=np.float64)
    prior_covariance = inverse @ prior.precision @ inverse
    return ConditionalFit(coefficients, scores @ inverse, prior_covariance, log_likelihood)
