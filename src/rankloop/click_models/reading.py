"""Models of reading a page: examination by position, how a click above changes it, and trust in high positions.

The shared curve of `examination` is the mean over what users do. An order is valued by these further effects, where the
log shows them or cannot exclude them. All come from the same conditional likelihood.
"""

from typing import NamedTuple

import numpy as np

from rankloop.click_models.conditional_fit import GaussianPrior, UnitCells, count_cells, fit_conditional
from rankloop.click_models.examination import Examination, position_design, position_prior
from rankloop.core.distributions import chi_square_tail
from rankloop.core.types import Floats, Ints
from rankloop.logs.list_log import ClickArrays

LAST_CLICK_GROUPS = 4  # no click above; one row above; two or three rows above; farther above
MAX_P_VALUE = 0.01  # at which clicks above are taken to change examination
AFTER_CLICK_DEVIATION = 1.5  # prior standard deviation of the logarithm
MEMORY_PRIOR_DECAY = 0.5  # where clicks above count, the curve is expected to fall so much less,
MEMORY_PRIOR_WIDTH = 2.0  # and the prior is so much wider
RATE_PRIOR_CLICKS = 1.0  # of the belief about the click rate of a pair
MIN_RELATIVE_RATE = 0.02  # of a pair, by the mean
TRUST_ROUNDS = 6
MIN_EXAMINATION = 1e-4
SURE_P_VALUE = 1e-6  # at which families without memory are dropped
SURE_REACTION_Z = 4.0  # standard errors at which families without reaction are dropped
TRUST_FACTOR = 1.25  # clicks by trust in the first position, by the mean attraction
STOP_FACTOR = 1.6  # of the logarithm of the effect of a click above
MIN_LOG_LIKELIHOOD_LEAD = 5.0  # by which one of two families must lead for the other to be dropped


class Reading(NamedTuple):
    """log examination of a row = log_curve[position] + after_click[group of the distance to the last click].

    Attributes:
      parameters: The log curve by position, then the effects of a click above by group (the first is 0).
      influence: (n_clusters, n), by how much each cluster moves the parameters.
      prior_covariance: (n, n), the part of their variance that no page explains.
      after_click_p: The p-value of the test that clicks above change nothing.
      has_memory: True where clicks above count.
      background: By position, the clicks that any item draws there by trust in the position alone.
      log_likelihood: The conditional log-likelihood, for the comparison of families.
    """

    parameters: Floats
    influence: Floats
    prior_covariance: Floats
    after_click_p: float
    has_memory: bool
    background: Floats
    log_likelihood: float = 0.0

    @property
    def n_positions(self) -> int:
        """The number of positions."""
        return len(self.parameters) - LAST_CLICK_GROUPS

    @property
    def trusts(self) -> bool:
        """True where high positions draw clicks for any item."""
        return bool(self.background.any())


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


def log_examination(parameters: Floats, position: Ints, group: Ints) -> Floats:
    """Return the log examination of rows.

    Args:
      parameters: Those of a `Reading`.
      position: By row.
      group: By row, that of the distance to the last click.
    """
    n = len(parameters) - LAST_CLICK_GROUPS
    logs: Floats = parameters[position] + parameters[n + group]
    return logs


def fit_readings(log: ClickArrays, examination: Examination, base_position: Ints | None = None) -> list[Reading]:
    """Fit the families of users that the log cannot tell apart, the most likely first.

    Where clicks above change what is examined below (cascade, dependent click, dynamic Bayesian and user browsing
    models), users stop after a click as on average, or more after clicks on attractive items. Otherwise users go by
    position, or also by trust, and the likelihood decides between these two where it can. Where it is not sure that
    clicks above count, or that positions react to clicks, the families without that remain possible.

    Args:
      log: What was shown and clicked.
      examination: The shared estimate of the same log.
      base_position: As `estimate_examination` takes it.

    Returns:
      The readings.
    """
    simple = _simple_reading(examination)
    if examination.evidence in ("given", "none"):
        return [simple]
    memory = fit_memory(log, examination, base_position)
    has_memory = memory.after_click_p < MAX_P_VALUE
    readings = [memory, _stopping_more(memory)] if has_memory else [simple]
    readings[0] = readings[0]._replace(after_click_p=memory.after_click_p)
    is_sure = memory.after_click_p < SURE_P_VALUE if has_memory else abs(examination.reaction_z) > SURE_REACTION_Z
    if examination.evidence != "moves" or is_sure:
        return readings
    cells = _cells_of(log, examination, log.position, None)
    mean = float(log.clicked.sum() / examination.curve[log.position].sum())
    by_position, trusting = (_trust_reading(cells, examination, trust, mean) for trust in (0.0, TRUST_FACTOR))
    if has_memory or examination.reacts:
        return [*readings, by_position, trusting]
    lead = trusting.log_likelihood - by_position.log_likelihood
    if abs(lead) > MIN_LOG_LIKELIHOOD_LEAD:
        return [trusting if lead > 0 else by_position]
    return [by_position._replace(after_click_p=memory.after_click_p), trusting]


def _stopping_more(memory: Reading) -> Reading:
    """Return users whom a click stops more than the mean says, as after clicks on attractive items."""
    parameters, n = memory.parameters.copy(), memory.n_positions
    parameters[n:] = np.where(parameters[n:] < 0.0, STOP_FACTOR * parameters[n:], parameters[n:])
    return memory._replace(parameters=parameters)


def fit_memory(log: ClickArrays, examination: Examination, base_position: Ints | None = None) -> Reading:
    """Fit users who examine by position and by how far above the last click is.

    Args:
      log: What was shown and clicked.
      examination: The shared estimate of the same log.
      base_position: As `estimate_examination` takes it.
    """
    group = group_of_distance(distances_to_last_click(log.position, log.clicked, log.offsets))
    cells = _cells_of(log, examination, log.position * LAST_CLICK_GROUPS + group, base_position)
    return _memory_reading(cells, log.n_positions, examination)


def probabilities_by_distance(reading: Reading, n_positions: int) -> Floats:
    """Return (n_positions, n_positions): P(examined) by position and distance to the last click, the first for none.

    Args:
      reading: The users.
      n_positions: How many positions.
    """
    group = group_of_distance(np.arange(n_positions))
    position = np.arange(n_positions)
    table: Floats = np.exp(reading.parameters[position][:, None] + reading.parameters[reading.n_positions + group])
    return np.clip(table, MIN_EXAMINATION, 1.0)


def _cells_of(log: ClickArrays, examination: Examination, cell: Ints, base_position: Ints | None) -> UnitCells:
    """Return clicks by unit and cell, the units being those that the shared estimate compares."""
    page = np.repeat(np.arange(log.n_pages), np.diff(log.offsets))
    rows, epochs = np.arange(len(log.pair)), examination.n_epochs
    unit = log.pair * epochs + page * epochs // log.n_pages
    if examination.evidence == "randomisation" and base_position is not None:
        rows, unit = np.flatnonzero(base_position >= 0), base_position
    elif examination.evidence == "items":
        unit = log.by_item().pair
    cluster = examination.cluster[page[rows]]
    return count_cells(unit[rows], cell[rows], cluster, log.clicked[rows], examination.n_clusters)


def _simple_reading(examination: Examination) -> Reading:
    """Return users who go by the shared curve."""
    n = len(examination.log_curve)
    parameters, influence, prior_covariance = _with_groups(
        examination.log_curve, examination.influence, examination.prior_covariance
    )
    return Reading(parameters, influence, prior_covariance, 1.0, False, np.zeros(n))


def _with_groups(curve: Floats, influence: Floats, prior_covariance: Floats) -> tuple[Floats, Floats, Floats]:
    """Return parameters, influence and covariance with the effects of a click above, which are 0."""
    n, extra = len(curve), LAST_CLICK_GROUPS
    covariance = np.zeros((n + extra, n + extra))
    covariance[:n, :n] = prior_covariance
    return np.append(curve, np.zeros(extra)), np.hstack([influence, np.zeros((len(influence), extra))]), covariance


def _memory_reading(cells: UnitCells, n_positions: int, examination: Examination) -> Reading:
    """Return users who examine by position and by how far above the last click is."""
    by_position, prior = position_design(n_positions), position_prior(n_positions)
    n, extra = by_position.shape[1], LAST_CLICK_GROUPS - 1
    position, group = np.divmod(np.arange(n_positions * LAST_CLICK_GROUPS), LAST_CLICK_GROUPS)
    design = np.column_stack([by_position[position], np.eye(LAST_CLICK_GROUPS)[group][:, 1:]])
    precision = np.zeros((n + extra, n + extra))
    precision[:n, :n] = prior.precision / MEMORY_PRIOR_WIDTH**2
    precision[range(n, n + extra), range(n, n + extra)] = AFTER_CLICK_DEVIATION**-2
    mean = np.append(MEMORY_PRIOR_DECAY * prior.mean, np.zeros(extra))
    fit = fit_conditional(cells, design, GaussianPrior(mean, precision))
    effect, covariance = fit.coefficients[n:], fit.covariance[n:, n:]
    statistic = float(effect @ np.linalg.solve(covariance, effect))
    spread = np.zeros((n_positions + LAST_CLICK_GROUPS, n + extra))
    spread[:n_positions, :n] = by_position
    spread[range(n_positions + 1, n_positions + 1 + extra), range(n, n + extra)] = 1.0
    parameters, influence = spread @ fit.coefficients, fit.influence @ spread.T
    prior_covariance = spread @ fit.prior_covariance @ spread.T
    if examination.reacts:
        # The curve that allows for reactions replaces the one of the conditional likelihood.
        parameters[:n_positions], influence[:, :n_positions] = examination.log_curve, examination.influence
        prior_covariance[:n_positions, :] = prior_covariance[:, :n_positions] = 0.0
        prior_covariance[:n_positions, :n_positions] = examination.prior_covariance
    return Reading(
        parameters=parameters,
        influence=influence,
        prior_covariance=prior_covariance,
        after_click_p=chi_square_tail(statistic, extra),
        has_memory=True,
        background=np.zeros(n_positions),
        log_likelihood=fit.log_likelihood,
    )


def _trust_reading(cells: UnitCells, examination: Examination, trust: float, mean: float) -> Reading:
    """Return users who click an examined item by its attraction γ, or by trust in its position: E c = θ_k (γ + τ / k).

    τ is `trust` times the mean attraction. Given τ, the attraction of a unit is that of its clicks, drawn to the mean,
    and θ maximises the conditional likelihood with log(γ + τ / k) as offset.
    References: Agarwal, Wang, Li, Bendersky and Najork (2019), Addressing Trust Bias for Unbiased Learning-to-Rank;
    Vardasbi, Oosterhuis and de Rijke (2020), When Inverse Propensity Scoring Does Not Work.
    """
    n = len(examination.log_curve)
    design, prior = position_design(n), position_prior(n)
    theta, shape, tau = examination.curve, 1.0 / (1.0 + np.arange(n)), trust * mean
    clicks = np.bincount(cells.unit, cells.clicks, cells.n_units)
    for _ in range(TRUST_ROUNDS):
        examined = np.bincount(cells.unit, cells.rows * theta[cells.cell], cells.n_units)
        by_trust = tau * np.bincount(cells.unit, cells.rows * (theta * shape)[cells.cell], cells.n_units)
        rate = (clicks - by_trust + RATE_PRIOR_CLICKS) / (examined + RATE_PRIOR_CLICKS / mean)
        offset = np.log(np.maximum(rate, MIN_RELATIVE_RATE * mean)[cells.unit] + tau * shape[cells.cell])
        fit = fit_conditional(cells, design, prior, offset)
        theta = np.exp(design @ fit.coefficients)
        if not trust:
            break
    parameters, influence, prior_covariance = _with_groups(
        design @ fit.coefficients, fit.influence @ design.T, design @ fit.prior_covariance @ design.T
    )
    background = tau * shape * theta
    return Reading(parameters, influence, prior_covariance, 1.0, False, background, fit.log_likelihood)
