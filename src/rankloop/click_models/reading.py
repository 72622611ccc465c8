"""How users read a page: examination by position, and how it changes below a click and with the attraction of an item.

The shared curve of `examination` is the mean over what users do. Where clicks above change what is examined below
(cascade, dependent click, dynamic Bayesian and user browsing models), or where a high position lends its items trust,
an order is valued by these further effects. They come from the same conditional likelihood.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from rankloop.click_models.conditional_fit import GaussianPrior, count_cells, fit_conditional
from rankloop.click_models.examination import Examination, position_design, position_prior
from rankloop.core.types import Floats, Ints
from rankloop.logs.list_log import ClickArrays

LAST_CLICK_GROUPS = 4  # no click above; one row above; two or three rows above; farther above
MAX_P_VALUE = 0.01  # at which clicks above, or trust, are taken to change examination
AFTER_CLICK_DEVIATION = 1.5  # prior standard deviation of the logarithm
TRUST_DEVIATION = 1.0  # prior standard deviation of the slope
RATE_PRIOR_CLICKS = 1.0  # of the belief about the click rate of a pair that tells attractive pairs from others


class Reading(NamedTuple):
    """log examination of a row = log_curve[position] + after_click[group] ± trust · depth(position) / 2.

    Attributes:
      parameters: The log curve by position, then the effects of a click above by group (the first is 0), then trust.
      influence: (n_clusters, n), by how much each cluster moves the parameters.
      prior_covariance: (n, n), the part of their variance that no page explains.
      is_attractive: By pair, 0.5 for those with a high click rate and −0.5 for others.
      after_click_p: The p-value of the test that clicks above change nothing.
      trust_z: The trust slope in standard errors.
      has_memory: True where clicks above count.
    """

    parameters: Floats
    influence: Floats
    prior_covariance: Floats
    is_attractive: Floats
    after_click_p: float
    trust_z: float
    has_memory: bool

    @property
    def n_positions(self) -> int:
        """The number of positions."""
        return len(self.parameters) - LAST_CLICK_GROUPS - 1


def depth_of(position: Ints) -> Floats:
    """Return the shape along which trust acts: 0 at the top, 1 at the tenth position.

    Args:
      position: From 0.
    """
    depth: Floats = np.log1p(position.astype(np.float64)) / np.log(10.0)
    return depth


def group_of_distance(distance: Ints) -> Ints:
    """Return the group of a distance to the last click above; 0 stands for no click.

    Args:
      distance: In positions.
    """
    return np.searchsorted(np.array([1, 2, 4]), distance, side="right")


def distances_to_last_click(position: Ints, clicked: Floats, offsets: Ints) -> Ints:
    """Return by row the distance to the last click above it on its page, 0 where there is none.

    Args:
      position: By row, from the top within each page.
      clicked: By row.
      offsets: Where pages begin, and the number of rows at the end.
    """
    rows = np.arange(len(position))
    hit = np.where(clicked > 0, rows, -1)
    last = np.maximum.accumulate(np.append(-1, hit[:-1])) if len(rows) else hit
    starts = np.repeat(offsets[:-1], np.diff(offsets))
    return np.where(last >= starts, position - position[np.maximum(last, 0)], 0)


def log_examination(parameters: Floats, position: Ints, group: Ints, attractive: Floats) -> Floats:
    """Return the log examination of rows.

    Args:
      parameters: Those of a `Reading`.
      position: By row.
      group: By row, that of the distance to the last click.
      attractive: By row, ±0.5.
    """
    n = len(parameters) - LAST_CLICK_GROUPS - 1
    logs: Floats = parameters[position] + parameters[n + group] + parameters[-1] * attractive * depth_of(position)
    return logs


def fit_reading(log: ClickArrays, examination: Examination, base_position: Ints | None = None) -> Reading:
    """Fit how clicks above and attraction change what is examined.

    Args:
      log: What was shown and clicked.
      examination: The shared estimate of the same log.
      base_position: As `estimate_examination` takes it.

    Returns:
      The effects; those that are not significant are 0, and the curve is then the shared one.
    """
    n, page = log.n_positions, np.repeat(np.arange(log.n_pages), np.diff(log.offsets))
    attractive = attractive_pairs(log, examination.curve)
    simple = _simple_reading(examination, attractive)
    if examination.evidence in ("given", "none"):
        return simple
    if examination.evidence == "randomisation" and base_position is not None:
        rows, unit = np.flatnonzero(base_position >= 0), base_position
        attractive = np.zeros(log.n_pairs)
    else:
        rows, unit = (
            np.arange(len(log.pair)),
            log.pair * examination.n_epochs + page * examination.n_epochs // log.n_pages,
        )
    group = group_of_distance(distances_to_last_click(log.position, log.clicked, log.offsets))
    side = (attractive[log.pair] > 0).astype(np.int64)
    cell = (log.position * LAST_CLICK_GROUPS + group) * 2 + side
    cells = count_cells(
        unit[rows], cell[rows], examination.cluster[page[rows]], log.clicked[rows], examination.n_clusters
    )
    design, prior = _cell_design(n), _reading_prior(n)
    has_memory, trusts = _significant(cells, design, prior, has_pairs=bool(attractive.any()))
    if not has_memory.accepted and not trusts.accepted:
        return simple._replace(after_click_p=has_memory.p_value, trust_z=trusts.z)
    columns = _columns(design.shape[1], has_memory.accepted, trusts.accepted)
    fit = fit_conditional(cells, design[:, columns], _sub_prior(prior, columns))
    spread = _parameter_matrix(n)[:, columns]
    parameters, influence = spread @ fit.coefficients, fit.influence @ spread.T
    prior_covariance = spread @ fit.prior_covariance @ spread.T
    if examination.reacts:
        # The curve that allows for reactions replaces the one of the conditional likelihood.
        parameters[:n], influence[:, :n] = examination.log_curve, examination.influence
        prior_covariance[:n, :] = prior_covariance[:, :n] = 0.0
        prior_covariance[:n, :n] = examination.prior_covariance
    return Reading(
        parameters=parameters,
        influence=influence,
        prior_covariance=prior_covariance,
        is_attractive=attractive,
        after_click_p=has_memory.p_value,
        trust_z=trusts.z,
        has_memory=has_memory.accepted,
    )


def attractive_pairs(log: ClickArrays, curve: Floats) -> Floats:
    """Return by pair 0.5 for those with a high click rate for their examination and −0.5 for others.

    The pairs above have half of the clicks.

    Args:
      log: What was shown and clicked.
      curve: Examination by position.
    """
    examined = np.bincount(log.pair, curve[log.position], log.n_pairs)
    clicks = np.bincount(log.pair, log.clicked, log.n_pairs)
    mean = clicks.sum() / max(examined.sum(), 1e-12)
    rate = (clicks + RATE_PRIOR_CLICKS) / (examined + RATE_PRIOR_CLICKS / max(mean, 1e-12))
    order = np.argsort(-rate, kind="stable")
    above = np.cumsum(clicks[order]) <= 0.5 * clicks.sum()
    sides = np.full(log.n_pairs, -0.5)
    sides[order[above]] = 0.5
    return sides


def _simple_reading(examination: Examination, attractive: Floats) -> Reading:
    n = len(examination.log_curve)
    extra = LAST_CLICK_GROUPS + 1
    influence = np.hstack([examination.influence, np.zeros((examination.n_clusters, extra))])
    prior_covariance = np.zeros((n + extra, n + extra))
    prior_covariance[:n, :n] = examination.prior_covariance
    parameters = np.append(examination.log_curve, np.zeros(extra))
    return Reading(parameters, influence, prior_covariance, attractive, 1.0, 0.0, False)


def _cell_design(n_positions: int) -> Floats:
    """Return the design of every (position, group, side), sides varying fastest."""
    position, group, side = (
        values.ravel() for values in np.meshgrid(np.arange(n_positions), np.arange(4), np.arange(2), indexing="ij")
    )
    trust = (side - 0.5) * depth_of(position)
    return np.column_stack([position_design(n_positions)[position], np.eye(LAST_CLICK_GROUPS)[group][:, 1:], trust])


def _reading_prior(n_positions: int) -> GaussianPrior:
    by_position = position_prior(n_positions)
    n, extra = len(by_position.mean), LAST_CLICK_GROUPS
    precision = np.zeros((n + extra, n + extra))
    precision[:n, :n] = by_position.precision
    precision[range(n, n + extra - 1), range(n, n + extra - 1)] = AFTER_CLICK_DEVIATION**-2
    precision[-1, -1] = TRUST_DEVIATION**-2
    return GaussianPrior(np.append(by_position.mean, np.zeros(extra)), precision)


def _parameter_matrix(n_positions: int) -> Floats:
    """Return the matrix that turns coefficients into the parameters of a `Reading`."""
    design = position_design(n_positions)
    n, extra = design.shape[1], LAST_CLICK_GROUPS
    matrix = np.zeros((n_positions + extra + 1, n + extra))
    matrix[:n_positions, :n] = design
    matrix[range(n_positions + 1, n_positions + extra + 1), range(n, n + extra)] = 1.0
    return matrix


class _Test(NamedTuple):
    """A test of whether an effect is needed."""

    accepted: bool
    p_value: float
    z: float


def _columns(n: int, with_memory: bool, with_trust: bool) -> Ints:
    memory = range(n - LAST_CLICK_GROUPS, n - 1)
    return np.array([i for i in range(n) if (with_memory or i not in memory) and (with_trust or i != n - 1)])


def _sub_prior(prior: GaussianPrior, columns: Ints) -> GaussianPrior:
    return GaussianPrior(prior.mean[columns], prior.precision[np.ix_(columns, columns)])


def _significant(cells: object, design: Floats, prior: GaussianPrior, has_pairs: bool) -> tuple[_Test, _Test]:
    """Test both effects in the model that has both."""
    columns = _columns(design.shape[1], True, has_pairs)
    fit = fit_conditional(cells, design[:, columns], _sub_prior(prior, columns))  # type: ignore[arg-type]
    n = design.shape[1] - LAST_CLICK_GROUPS
    memory = slice(n, n + LAST_CLICK_GROUPS - 1)
    effect, covariance = fit.coefficients[memory], fit.covariance[memory, memory]
    statistic = float(effect @ np.linalg.solve(covariance, effect))
    p_value = float(stats.chi2.sf(statistic, LAST_CLICK_GROUPS - 1))
    z = float(fit.coefficients[-1] / np.sqrt(fit.covariance[-1, -1])) if has_pairs else 0.0
    trust_p = float(2.0 * stats.norm.sf(abs(z)))
    return _Test(p_value < MAX_P_VALUE, p_value, 0.0), _Test(has_pairs and trust_p < MAX_P_VALUE, trust_p, z)
