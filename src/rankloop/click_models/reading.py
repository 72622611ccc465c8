"""Models of reading a page: examination by position, how a click above changes it, and trust in high positions.

The shared curve of `examination` is the mean over what users do. An order is valued by these further effects, where the
log shows them or cannot exclude them. All come from the same conditional likelihood.
"""

from typing import NamedTuple, Self

import numpy as np

from rankloop.click_models.comparable_moves import pairs_by_viewer, queries_of
from rankloop.click_models.conditional_fit import GaussianPrior, UnitCells, fit_conditional
from rankloop.click_models.examination import Examination, draw_weights, position_design, position_prior
from rankloop.core.statistics import chi_square_tail
from rankloop.core.types import Floats, Ints
from rankloop.logs.list_log import ClickArrays

LAST_CLICK_GROUPS = 4  # no click above; one row above; two or three rows above; farther above
MAX_P_VALUE = 0.01  # at which clicks above are taken to change examination
AFTER_CLICK_DEVIATION = 1.5  # prior standard deviation of the logarithm
MEMORY_PRIOR_DECAY = 0.5  # where clicks above count, the curve is expected to fall so much less,
MEMORY_PRIOR_WIDTH = 2.0  # and the prior is so much wider
APPEAL_DEVIATION = 0.7  # prior standard deviation of the effect of a clicked item's attraction on reading further
N_APPEAL_LEVELS = 3  # of items that were clicked, when that effect is fitted
MAX_APPEAL = 1.5  # of the logarithm of attraction, by the mean clicked item
RATE_PRIOR_CLICKS = 1.0  # of the belief about the click rate of a pair
MIN_RELATIVE_RATE, MAX_RELATIVE_RATE = 0.02, 8.0  # of a pair, by the mean
N_RATE_NODES = 24  # between these, when attraction is expected from clicks
N_DEPTHS = 6  # classes of pairs by where they stand on average
BACKGROUND_ROUNDS = 6
# Clicks on any item, by the mean attraction: by trust in the first position, and by chance in every position (bots).
BACKGROUND_CHOICES = ((0.0, 0.0), (0.4, 0.0), (1.0, 0.0), (2.5, 0.0), (6.0, 0.0), (0.0, 0.05), (0.0, 0.15))
STRONG_TRUST = 4  # the number of the choice that is possible only where the log shows trust,
MIN_TRUST_LEAD = 2.0  # of the logarithm of the likelihood, over users who go by position alone
APPEAL_FACTOR = 2.0  # by which attractive items may stop users more than the clicks on other pages can show
MIN_EXAMINATION = 1e-4
MIN_MISSING_PAGES = 10.0  # pages without a click, or with two, that are expected where none is in the log
SURE_P_VALUE = 1e-6  # at which families without memory are dropped
SURE_REACTION_Z = 4.0  # standard errors at which families without reaction are dropped
STEEPNESS_CHOICES = np.linspace(0.0, 3.0, 31)  # powers of the curve
STEEPNESS_MEANS = np.linspace(0.6, 1.4, 9)
STEEPNESS_DEVIATIONS = (0.1, 0.15, 0.2, 0.3, 0.45, 0.7)  # between queries
MAX_POISSON_RATE = 0.2  # clicks at the first position, up to which a Poisson likelihood tells trust from saturation
MIN_STEEPNESS_LEAD = 5.0  # of the logarithm of the likelihood, over one curve for all queries
MIN_MOVED_SHARE = 0.01  # of the information on steepness in a query's clicks, below which its order counts as fixed
FIXED_PRECISION = np.full((1, 1), 0.1)  # of the prior of the slope of click rates on the curve
MIN_FIXED_Z = 2.0  # standard errors at which click rates of queries with a fixed order fall otherwise
MAX_LIKELIHOOD_LAG = 3.0  # of the logarithm, up to which a family beside the likeliest one remains possible


class Steepness(NamedTuple):
    """The power of the curve for each query or group of queries: above 1 where examination falls faster.

    Users who look for one page read less far than those who compare. The powers are normal over the queries, and each
    query's own belief comes from its clicks.
    """

    query: Ints  # by page: the number of its query or group
    mean: Floats  # by query
    deviation: Floats  # by query


class Reading(NamedTuple):
    """Fitted family of users: how examination depends on the position and on the clicks above.

    log examination = log_curve[position] + after_click[group of the distance to the last click] + slope · appeal.
    Appeal is the log attraction of the item that was clicked last above, less the mean of clicked items.
    """

    parameters: Floats  # the log curve, the effects of a click above by group (the first is 0), and the slope
    influence: Floats  # (n_clusters, n), by how much each cluster moves the parameters
    prior_covariance: Floats  # (n, n), the part of their variance that no page explains
    background: Floats  # by position, the clicks that any item draws there, by trust in the position or by chance
    log_likelihood: float = 0.0  # conditional, for the comparison of families
    has_memory: bool = False  # clicks above count
    after_click_p: float = 1.0  # the p-value of the test that clicks above change nothing
    steepness: Steepness | None = None  # None: examination falls alike for all queries

    @classmethod
    def with_memory(cls, log: ClickArrays, examination: Examination, base_position: Ints | None = None) -> Self:
        """Fit users who examine by position, by how far above the last click is, and by what was clicked there."""
        n_positions, group = log.n_positions, groups_of_last_clicks(log)
        appeal = appeal_of_last_click(log, examination.curve)
        shares = np.arange(1, N_APPEAL_LEVELS) / N_APPEAL_LEVELS
        edges = np.quantile(appeal[group > 0], shares) if group.any() else np.zeros(0)
        level = np.where(group > 0, np.searchsorted(edges, appeal), 0)
        shown = np.bincount(level[group > 0], minlength=N_APPEAL_LEVELS)
        appeals = np.bincount(level[group > 0], appeal[group > 0], N_APPEAL_LEVELS) / np.maximum(shown, 1)
        cell = (log.position * LAST_CLICK_GROUPS + group) * N_APPEAL_LEVELS + level
        # Coefficients of the position, of the groups but the first, and of the appeal.
        by_position, prior = position_design(n_positions), position_prior(n_positions)
        n, extra = by_position.shape[1], LAST_CLICK_GROUPS
        shape = (n_positions, LAST_CLICK_GROUPS, N_APPEAL_LEVELS)
        position, group, cell_level = (part.ravel() for part in np.indices(shape))
        after_click = np.eye(LAST_CLICK_GROUPS)[group][:, 1:]
        design = np.column_stack([by_position[position], after_click, np.where(group > 0, appeals[cell_level], 0.0)])
        precision = np.zeros((n + extra, n + extra))
        precision[:n, :n] = prior.precision / MEMORY_PRIOR_WIDTH**2
        deviations = np.append(np.full(extra - 1, AFTER_CLICK_DEVIATION), APPEAL_DEVIATION)
        precision[range(n, n + extra), range(n, n + extra)] = deviations**-2
        mean = np.append(MEMORY_PRIOR_DECAY * prior.mean, np.zeros(extra))
        fit = fit_conditional(_cells_of(log, examination, cell, base_position), design, GaussianPrior(mean, precision))
        effect, covariance = fit.coefficients[n:], fit.covariance[n:, n:]
        statistic = float(effect @ np.linalg.solve(covariance, effect))
        spread = np.zeros((n_positions + LAST_CLICK_GROUPS + 1, n + extra))
        spread[:n_positions, :n] = by_position
        spread[range(n_positions + 1, n_positions + 1 + extra), range(n, n + extra)] = 1.0
        parameters, influence, prior_covariance = fit.in_terms_of(spread)
        if examination.reacts:
            # The curve that allows for reactions replaces the one of the conditional likelihood.
            parameters[:n_positions], influence[:, :n_positions] = examination.log_curve, examination.influence
            prior_covariance[:n_positions, :] = prior_covariance[:, :n_positions] = 0.0
            prior_covariance[:n_positions, :n_positions] = examination.prior_covariance
        p_value, background = chi_square_tail(statistic, extra), np.zeros(n_positions)
        return cls(parameters, influence, prior_covariance, background, fit.log_likelihood, True, p_value)

    @property
    def n_positions(self) -> int:
        """The number of positions."""
        return len(self.parameters) - LAST_CLICK_GROUPS - 1

    @property
    def trusts(self) -> bool:
        """True where positions draw clicks for any item."""
        return bool(self.background.any())

    def by_distance(self) -> Floats:
        """Return P(examined) by position and distance to the last click, the first column for none."""
        position = np.arange(self.n_positions)
        logs = self.parameters[position][:, None] + self.parameters[self.n_positions + group_of_distance(position)]
        return np.clip(np.exp(logs), MIN_EXAMINATION, 1.0)


def group_of_distance(distance: Ints) -> Ints:
    """Return the group of a distance to the last click above; 0 stands for no click."""
    return np.searchsorted(np.array([1, 2, 4]), distance, side="right")


def distances_to_last_clicks(log: ClickArrays) -> Ints:
    """Return by row the distance to the last click above it on its page, 0 where there is none."""
    last = _last_clicked_rows(log.clicked, log.offsets)
    return np.where(last >= 0, log.position - log.position[last], 0)


def groups_of_last_clicks(log: ClickArrays) -> Ints:
    """Return by row the group of the distance to the last click above it on its page."""
    return group_of_distance(distances_to_last_clicks(log))


def _last_clicked_rows(clicked: Floats, offsets: Ints) -> Ints:
    """Return by row the last clicked row above it on its page, −1 where there is none."""
    hit = np.where(clicked > 0, np.arange(len(clicked)), -1)
    last = np.maximum.accumulate(np.append(-1, hit[:-1])) if len(hit) else hit
    return np.where(last >= np.repeat(offsets[:-1], np.diff(offsets)), last, -1)


def appeal_of(attraction: Floats, clicked: Floats) -> Floats:
    """Return by row the attraction relative to the mean of clicked rows, less 1, within bounds.

    Args:
      attraction: By row.
      clicked: By row.
    """
    mean = float((attraction * clicked).sum() / max(clicked.sum(), 1e-12))
    return np.minimum(attraction / max(mean, 1e-12) - 1.0, MAX_APPEAL)


def appeal_of_last_click(log: ClickArrays, curve: Floats) -> Floats:
    """Return by row the appeal of the item clicked last above it, by its clicks on other pages; 0 where none was.

    Args:
      log: What was shown and clicked.
      curve: Examination by position.
    """
    examined, clicks = curve[log.position], log.clicked
    mean = float(clicks.sum() / examined.sum())
    others = np.bincount(log.pair, clicks)[log.pair] - clicks + RATE_PRIOR_CLICKS
    rate = others / (np.bincount(log.pair, examined)[log.pair] - examined + RATE_PRIOR_CLICKS / mean)
    last = _last_clicked_rows(clicks, log.offsets)
    return np.where(last >= 0, appeal_of(rate, clicks)[last], 0.0)


def fit_readings(log: ClickArrays, examination: Examination, base_position: Ints | None = None) -> list[Reading]:
    """Fit the families of users that the log cannot tell apart, the simplest of the likely ones first.

    Where clicks above change what is examined below (cascade, dependent click, dynamic Bayesian and user browsing
    models), it depends on how far above the click is and on how attractive the clicked item is, or more so. Otherwise
    users go by position, and some clicks go to any item by trust in its position or by chance, as the likelihood leaves
    open. These families remain possible where it is not sure that clicks above count or that positions react to clicks,
    and where a click goes with more clicks below, which may only show that users differ.

    Args:
      log: What was shown and clicked.
      examination: The shared estimate of the same log.
      base_position: As `estimate_examination` takes it.
    """
    n = len(examination.log_curve)
    curve = examination.log_curve, examination.influence, examination.prior_covariance
    simple = _position_reading(curve, np.zeros(n))
    if examination.evidence in ("given", "none"):
        return [simple]
    memory = Reading.with_memory(log, examination, base_position)
    has_memory = memory.after_click_p < MAX_P_VALUE
    readings = [memory if has_memory else simple._replace(after_click_p=memory.after_click_p)]
    if has_memory and memory.parameters[-1] < 0.0:
        steeper = np.append(memory.parameters[:-1], APPEAL_FACTOR * memory.parameters[-1])
        readings.append(memory._replace(parameters=steeper))
    is_sure = abs(examination.reaction_z) > SURE_REACTION_Z
    # There, clicks exclude each other whatever users do.
    lacks_pages, is_single = lacks_pages_without_clicks(log), lacks_pages_with_two_clicks(log)
    if has_memory:
        stops = (memory.parameters[n + 1 : n + LAST_CLICK_GROUPS] < 0.0).all()
        is_sure = not lacks_pages and not is_single and memory.after_click_p < SURE_P_VALUE and bool(stops)
    by_base = examination.evidence == "randomisation" and base_position is not None
    if examination.evidence == "items" or by_base or is_sure:
        return readings
    cells = _cells_of(log, examination, log.position, None)
    families = [_background_reading(log, cells, examination, trust, noise) for trust, noise in BACKGROUND_CHOICES]
    steepness = _fit_steepness(log, examination)
    if steepness is not None:
        families.insert(0, simple._replace(log_likelihood=families[0].log_likelihood, steepness=steepness))
    fixed = _steepness_of_fixed_queries(log, examination)
    unseen = [] if fixed is None else [simple._replace(steepness=fixed)]  # no move tells of these users
    best = max(reading.log_likelihood for reading in families)
    if families[0].log_likelihood >= best - MIN_TRUST_LEAD:
        del families[STRONG_TRUST - len(BACKGROUND_CHOICES)]  # believed only where the log shows trust
    # An item can be clicked only once, so frequent clicks at high positions resemble trust to a Poisson likelihood.
    first = log.position == 0
    lag = np.inf if log.clicked[first].sum() > MAX_POISSON_RATE * first.sum() else MAX_LIKELIHOOD_LAG
    by_position = families[0]
    possible = [each for each in families[1:] if each.log_likelihood >= best - MAX_LIKELIHOOD_LAG]
    if by_position.steepness or by_position.log_likelihood >= best - lag:
        possible.insert(0, by_position)
    if has_memory and lacks_pages:
        return [*families, *readings, *unseen]
    if has_memory or examination.reacts:
        return [*readings, *possible, *unseen]
    return [possible[0]._replace(after_click_p=memory.after_click_p), *possible[1:], *unseen]


def _fit_steepness(log: ClickArrays, examination: Examination) -> Steepness | None:
    """Fit by query how fast examination falls; None where the log does not show that queries differ."""
    # With the curve fixed but for its power, the conditional likelihood of each query's clicks is computed for a grid
    # of powers. Their mean and spread over the queries maximise the marginal likelihood (empirical Bayes).
    query = queries_of(log)
    n_queries = int(query.max()) + 1
    cells = _cells_of(log, examination, log.position, None, query[log.page])
    if not cells.n_units:
        return None
    by_choice = []
    for power in STEEPNESS_CHOICES:
        weight = cells.rows * np.exp(power * examination.log_curve[cells.cell])
        share = weight / np.bincount(cells.unit, weight)[cells.unit]
        by_choice.append(np.bincount(cells.cluster, cells.clicks * np.log(np.maximum(share, 1e-300)), n_queries))
    logs = np.stack(by_choice, axis=1)
    fits = []
    for mean in STEEPNESS_MEANS:
        for deviation in STEEPNESS_DEVIATIONS:
            prior = -0.5 * ((STEEPNESS_CHOICES - mean) / deviation) ** 2
            posterior = logs + prior - np.log(np.exp(prior).sum())
            top = posterior.max(axis=1, keepdims=True)
            evidence = float((np.log(np.exp(posterior - top).sum(axis=1)) + top[:, 0]).sum())
            fits.append((evidence, np.exp(posterior - top)))
    evidence, weights = max(fits, key=lambda fit: fit[0])
    if evidence < float(logs.sum(axis=0).max()) + MIN_STEEPNESS_LEAD:
        return None
    weights = weights / weights.sum(axis=1, keepdims=True)
    mean_power = weights @ STEEPNESS_CHOICES
    deviation = np.sqrt(np.maximum(weights @ STEEPNESS_CHOICES**2 - mean_power**2, 0.0))
    return Steepness(query, mean_power, deviation)


def _steepness_of_fixed_queries(log: ClickArrays, examination: Examination) -> Steepness | None:
    """Return users who read the queries with a fixed order otherwise, None where click rates do not suggest it."""
    # The curve comes from queries in which items moved. Where click rates fall faster or more slowly with the position
    # in the other queries, their order may be better or worse, or their users may read otherwise: the log cannot tell.
    query = queries_of(log)
    if examination.viewer is not None:
        query = np.unique(query * (int(examination.viewer.max()) + 1) + examination.viewer, return_inverse=True)[1]
    by_row, n_queries = query[log.page], int(query.max()) + 1
    cells = _cells_of(log, examination, log.position, None, by_row)
    by_query = UnitCells.of_rows(by_row, log.position, by_row, log.clicked, n_queries)
    moved, possible = (_steepness_information(each, examination.log_curve, n_queries) for each in (cells, by_query))
    is_fixed = moved < MIN_MOVED_SHARE * possible
    if is_fixed.all() or not is_fixed.any():
        return None
    slopes, variances = [], []
    for group in (False, True):
        rows = np.flatnonzero(is_fixed[by_row] == group)
        cluster = examination.cluster[log.page[rows]]
        cells = UnitCells.of_rows(by_row[rows], log.position[rows], cluster, log.clicked[rows], int(cluster.max()) + 1)
        fit = fit_conditional(cells, examination.log_curve[:, None], GaussianPrior(np.ones(1), FIXED_PRECISION))
        slopes.append(float(fit.coefficients[0]))
        variances.append(float(fit.covariance[0, 0]))
    difference, deviation = slopes[1] - slopes[0], np.sqrt(sum(variances))
    if abs(difference) < MIN_FIXED_Z * deviation:
        return None
    return Steepness(is_fixed[query].astype(np.int64), np.array([1.0, 1.0 + difference]), np.array([0.0, deviation]))


def _steepness_information(cells: UnitCells, log_curve: Floats, n_queries: int) -> Floats:
    """Return by query, which is the cluster of the cells, how much its clicks tell of the power of the curve."""
    logs = log_curve[cells.cell]
    weight = cells.rows * np.exp(logs)
    share = weight / np.bincount(cells.unit, weight)[cells.unit]
    mean = np.bincount(cells.unit, share * logs)
    spread = np.bincount(cells.unit, share * (logs - mean[cells.unit]) ** 2)
    return np.bincount(cells.cluster, cells.clicks * spread[cells.unit], n_queries).astype(np.float64)


def lacks_pages_without_clicks(log: ClickArrays) -> bool:
    """Return true where every page has a click, though by their mean some pages would have none."""
    clicks = np.add.reduceat(log.clicked, log.offsets[:-1])
    return bool(clicks.min() > 0.0) and log.n_pages * float(np.exp(-clicks.mean())) > MIN_MISSING_PAGES


def lacks_pages_with_two_clicks(log: ClickArrays) -> bool:
    """Return true where no page has two clicks, though by their mean some pages would: users choose once, or leave."""
    clicks = np.add.reduceat(log.clicked, log.offsets[:-1])
    mean = float(clicks.mean())
    return bool(clicks.max() <= 1.0) and log.n_pages * (1.0 - np.exp(-mean) * (1.0 + mean)) > MIN_MISSING_PAGES


def _cells_of(
    log: ClickArrays, examination: Examination, cell: Ints, base_position: Ints | None, cluster: Ints | None = None
) -> UnitCells:
    """Return clicks by unit and cell, the units being those that the shared estimate compares."""
    # The clusters are by row; those of the shared estimate unless given.
    log = log if examination.viewer is None else pairs_by_viewer(log, examination.viewer)
    rows, epochs, weight = np.arange(len(log.pair)), examination.n_epochs, None
    unit = log.pair * epochs + log.page * epochs // log.n_pages
    if examination.evidence == "randomisation":
        weight = draw_weights(log, base_position)
        rows = rows if weight is None else np.flatnonzero(weight)
        if base_position is not None:
            rows, unit = np.flatnonzero(base_position >= 0), base_position
    elif examination.evidence == "items":
        unit = log.by_item().pair
    cluster = examination.cluster[log.page] if cluster is None else cluster
    weight = None if weight is None else weight[rows]
    return UnitCells.of_rows(unit[rows], cell[rows], cluster[rows], log.clicked[rows], int(cluster.max()) + 1, weight)


def _position_reading(curve: tuple[Floats, Floats, Floats], background: Floats, log_likelihood: float = 0.0) -> Reading:
    """Return users who go by a curve, given with its influence and covariance, whatever was clicked above."""
    (log_curve, influence, covariance), extra = curve, LAST_CLICK_GROUPS + 1
    return Reading(
        parameters=np.append(log_curve, np.zeros(extra)),
        influence=np.pad(influence, ((0, 0), (0, extra))),
        prior_covariance=np.pad(covariance, (0, extra)),
        background=background,
        log_likelihood=log_likelihood,
    )


def _background_reading(
    log: ClickArrays, cells: UnitCells, examination: Examination, trust: float, noise: float
) -> Reading:
    """Return users who click by attraction γ, by trust in a position, or by chance: E c = θ_k (γ + τ / k) + ν."""
    # τ and ν are `trust` and `noise` times the mean attraction. Given these, the attraction of a unit is expected from
    # its clicks and from what units have that stand as high on average, and θ maximises the conditional likelihood with
    # log(γ + τ / k + ν / θ_k) as offset.
    # Agarwal, Wang, Li, Bendersky and Najork (2019), Addressing Trust Bias for Unbiased Learning-to-Rank; Vardasbi,
    # Oosterhuis and de Rijke (2020), When Inverse Propensity Scoring Does Not Work.
    n = len(examination.log_curve)
    design, prior = position_design(n), position_prior(n)
    theta, shape = examination.curve, 1.0 / (1.0 + np.arange(n))
    shown = np.bincount(log.position, minlength=n)
    clicks = np.bincount(cells.unit, cells.clicks).astype(np.float64)
    depth = np.bincount(log.pair, np.log1p(log.position)) / np.maximum(np.bincount(log.pair), 1)
    edges = np.unique(np.quantile(depth[log.pair], np.arange(1, N_DEPTHS) / N_DEPTHS))
    row_bin = np.searchsorted(edges, depth)[log.pair]
    unit_depth = np.bincount(cells.unit, cells.rows * np.log1p(cells.cell)) / np.bincount(cells.unit, cells.rows)
    unit_bin = np.searchsorted(edges, unit_depth)
    for _ in range(BACKGROUND_ROUNDS if trust or noise else 1):
        mean = float(log.clicked.sum() / (shown * (theta * (1.0 + trust * shape) + noise)).sum())
        drawn = mean * (trust * shape + noise / theta)  # by position, clicks on any item, by examination
        by_attraction = log.clicked - (theta * drawn)[log.position]
        examined_in_bin = np.bincount(row_bin, theta[log.position], N_DEPTHS)
        rates = np.bincount(row_bin, by_attraction, N_DEPTHS) / np.maximum(examined_in_bin, 1e-12)  # bins may be empty
        rates = np.maximum(rates, MIN_RELATIVE_RATE * mean)
        examined = np.bincount(cells.unit, cells.rows * theta[cells.cell]).astype(np.float64)
        by_trust = np.bincount(cells.unit, cells.rows * (theta * drawn)[cells.cell]).astype(np.float64)
        attraction = _expected_attraction(clicks, examined, by_trust, rates[unit_bin])
        fit = fit_conditional(cells, design, prior, np.log(attraction[cells.unit] + drawn[cells.cell]))
        theta = np.exp(design @ fit.coefficients)
    return _position_reading(fit.in_terms_of(design), drawn * theta, fit.log_likelihood)


def _expected_attraction(clicks: Floats, examined: Floats, by_trust: Floats, mean: Floats) -> Floats:
    """Return E[γ | clicks] where clicks are Poisson with mean examined · γ + by_trust, and γ exponential."""
    relative = np.exp(np.linspace(np.log(MIN_RELATIVE_RATE), np.log(MAX_RELATIVE_RATE), N_RATE_NODES))
    rates = mean[:, None] * relative
    expected = examined[:, None] * rates + by_trust[:, None]
    logs = clicks[:, None] * np.log(expected) - expected + np.log(relative) - relative
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    attraction: Floats = (weights * rates).sum(axis=1) / weights.sum(axis=1)
    return attraction
