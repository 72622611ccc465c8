"""One estimate of examination: how likely each position is looked at, with an interval and the evidence behind it.

`fit_users`, `evaluate`, `train_clicks` and `rehearse` all use it. The evidence is, in this order: known randomisation
(where items stood before chance moved them), natural moves of (query, item) pairs, and otherwise only a wide prior.
Positions that react to earlier clicks or follow users, and items whose attraction changes, are tested for and allowed
for.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from rankloop.click_models import comparable_moves as moves
from rankloop.click_models.conditional_fit import GaussianPrior, UnitCells, fit_conditional, inverse_of, sums_by_cluster
from rankloop.core.errors import InvalidInput
from rankloop.core.statistics import chi_square_tail
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.logs.list_log import ClickArrays, numbers_of, session_names

EvidenceKind = Literal["given", "randomisation", "moves", "items", "none"]
EVIDENCE_WORDS: dict[EvidenceKind, str] = {
    "given": "as given",
    "randomisation": "from positions that were drawn at random",
    "moves": "from items that stood at several positions for the same query",
    "items": "from items that stood at several positions for different queries, which widens the interval",
    "none": "a guess: hardly any item that was clicked stood at two positions for the same query",
}
MIN_CLUSTERS = 50  # a query with more than one in so many of the pages is split by time
MIN_MOVED_CLICKS = 20  # on what moved; with fewer the next weaker evidence counts: pairs, then items, then a guess
MAX_FREE_POSITIONS = 10  # the first positions have a coefficient each; below, examination is interpolated
NODE_RATIO = 1.3  # distance of further nodes
PRIOR_DECAY = 0.9  # the prior: position k is examined as k to minus this power
FIRST_STEP_DEVIATION = 0.8  # of the logarithm, from the first position to the second
MIN_STEP_DEVIATION = 0.3  # of the logarithm, from one node to the next far below
MIN_REACTION_Z = 2.0  # standard errors at which positions are taken to react to clicks
MIN_DRIFT_Z = 3.0  # standard errors at which attraction is taken to change over time
EPOCH_CHOICES = (1, 4, moves.SHORT_EPOCHS)  # parts of the log in time within which attraction is taken as constant
MIN_EPOCH_Z = 2.05  # standard errors by which moves within shorter parts of the log must tell a flatter curve
MAX_SEGMENT_P_VALUE = 0.001  # at which segments of users are taken to click otherwise
MAX_DRAW_WEIGHT = 50.0  # of a row whose position was unlikely, by the mean
SELECTION_FACTOR = 2.0  # by which the order may know more of an item for a query than of the item itself
MIN_LIST_REPEATS = 3  # of a list on average, from which lists are compared as wholes
MAX_PROBABILITY = 1.0 - 1e-9  # of a position, above which nothing was drawn
MAX_LOG_CURVE = 6.0  # no position is examined more than e to this times more or less than the first
Z_95 = 1.959964
MAX_NEWTON_ROUNDS = 50


class Examination(NamedTuple):
    """The examination of each position, relative to the first."""

    log_curve: Floats  # by position; the first is 0
    influence: Floats  # (n_clusters, n_positions), by how much each cluster of pages moves it
    prior_covariance: Floats  # (n_positions, n_positions), the part of its variance that no page explains
    cluster: Ints  # by page, what is resampled together: queries, long ones split by time
    evidence: EvidenceKind
    n_units: int = 0  # pairs, or positions before chance, that stood at several positions and were clicked
    n_clicks: int = 0  # that these had
    reaction_z: float = 0.0  # test that positions react to earlier clicks, in standard errors
    drift_z: float = 0.0  # test that the attraction of items changes over time, in standard errors
    n_epochs: int = 1  # parts of the log within which attraction is taken as constant
    reacts: bool = False  # the curve comes from the estimator that allows for positions that react to clicks
    viewer: Ints | None = None  # by page; only moves for the same viewer count, a user or a segment of users
    by_user: bool = False  # viewers are users, whom positions follow
    is_smooth: bool = False  # positions move smoothly, so only moves near in time count

    @classmethod
    def given(cls, curve: ArrayLike, log: ClickArrays) -> Self:
        """Return a curve that the caller knows, without uncertainty: the probability of each position of a log."""
        n, cluster = log.n_positions, resampling_clusters(log)
        values, influence = checked_examined(curve, n), np.zeros((int(cluster.max()) + 1, n))
        return cls(np.log(values[:n] / values[0]), influence, np.zeros((n, n)), cluster, "given")

    @property
    def curve(self) -> Floats:
        """The examination of each position relative to the first."""
        curve: Floats = np.exp(self.log_curve)
        return curve

    @property
    def by_segment(self) -> bool:
        """True where viewers are segments of users, who click otherwise."""
        return self.viewer is not None and not self.by_user

    @property
    def covariance(self) -> Floats:
        """The covariance of the logarithm of the curve."""
        covariance: Floats = self.influence.T @ self.influence + self.prior_covariance
        return covariance

    @property
    def interval(self) -> tuple[Floats, Floats]:
        """Both ends of the 95 % interval of the curve, by position."""
        half = Z_95 * np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return np.exp(self.log_curve - half), np.exp(self.log_curve + half)

    def draws(self, rng: Generator, n: int) -> Floats:
        """Draw (n, n_positions) curves from the normal distribution of their logarithm."""
        noise = rng.standard_normal((n, len(self.log_curve))) @ matrix_root(self.covariance)
        curves: Floats = np.exp(np.clip(self.log_curve + noise, -MAX_LOG_CURVE, MAX_LOG_CURVE))
        return curves

    def __str__(self) -> str:
        low, high = self.interval
        head = f"examination relative to position 1, {EVIDENCE_WORDS[self.evidence]}"
        if self.evidence == "randomisation":
            head += f" ({self.n_clicks:,} clicks)"
        elif self.evidence in ("moves", "items"):
            head += f" ({self.n_units:,} of them with {self.n_clicks:,} clicks)"
        shown = slice(MAX_FREE_POSITIONS)
        lines = [
            head,
            "position    " + "".join(f"{number:>7}" for number in range(1, len(self.log_curve) + 1)[shown]),
            "examination " + "".join(f"{share:>7.2f}" for share in self.curve[shown]),
            "from (95 %) " + "".join(f"{share:>7.2f}" for share in low[shown]),
            "to          " + "".join(f"{min(share, 99.0):>7.2f}" for share in high[shown]),
        ]
        if self.reacts:
            lines.append(
                "note: items move after clicks on them, so a click is compared only with later ones, which widens the "
                "interval"
            )
        if self.by_user:
            lines.append("note: every user gets an order of their own, so only pages of the same user are compared")
        if self.by_segment:
            lines.append("note: segments of users click otherwise, so only pages within a segment are compared")
        if self.n_epochs > 1:
            cause = "the attraction of items changes over time"
            if self.is_smooth:
                cause = "items rise and fall slowly, perhaps because their attraction does"
            lines.append(f"note: {cause}, so only pages within one of {self.n_epochs} parts of the log are compared")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the estimate for programs."""
        low, high = self.interval
        return {
            "examination": self.curve.tolist(),
            "lower": low.tolist(),
            "upper": high.tolist(),
            "evidence": self.evidence,
            "units": self.n_units,
            "clicks": self.n_clicks,
            "reaction_z": self.reaction_z,
            "drift_z": self.drift_z,
            "epochs": self.n_epochs,
            "reacts": self.reacts,
            "by_user": self.by_user,
            "by_segment": self.by_segment,
            "is_smooth": self.is_smooth,
        }


def checked_examined(bias: ArrayLike, n_positions: int) -> Floats:
    """Return a position bias as an array.

    Args:
      bias: The probability of each position to be examined.
      n_positions: The number of positions of the log.
    """
    examined = finite_floats(bias, 1, "position_bias")
    if len(examined) < n_positions or not ((examined > 0) & (examined <= 1)).all():
        raise InvalidInput(f"position_bias needs {n_positions} probabilities above 0, got {examined.tolist()!r:.80}")
    return examined


def matrix_root(covariance: Floats) -> Floats:
    """Return a matrix R with Rᵀ R equal to a covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return root


def position_design(n_positions: int) -> Floats:
    """Return (n_positions, n_nodes − 1): log examination = design · coefficients, by linear interpolation of nodes.

    The first position is the reference. Each of the first ten is a node; further ones lie ever wider apart.
    """
    nodes = list(range(min(n_positions, MAX_FREE_POSITIONS)))
    while nodes[-1] < n_positions - 1:
        nodes.append(min(max(nodes[-1] + 1, int(np.ceil(NODE_RATIO * nodes[-1]))), n_positions - 1))
    positions = np.arange(n_positions)
    columns = [np.interp(positions, nodes, np.eye(len(nodes))[node]) for node in range(1, len(nodes))]
    return np.stack(columns, axis=1) if columns else np.zeros((n_positions, 0))


def position_prior(n_positions: int) -> GaussianPrior:
    """Return a wide prior of the coefficients of `position_design`: a random walk around a power of the position."""
    design = position_design(n_positions)
    n = design.shape[1]
    nodes = design.argmax(axis=0) if n else np.zeros(0, np.int64)
    mean = -PRIOR_DECAY * np.log1p(nodes.astype(np.float64))
    deviation = np.maximum(FIRST_STEP_DEVIATION / np.sqrt(1.0 + np.arange(n)), MIN_STEP_DEVIATION)
    steps = (np.eye(n) - np.eye(n, k=-1)) / deviation[:, None]
    return GaussianPrior(mean, steps.T @ steps)


def resampling_clusters(log: ClickArrays) -> Ints:
    """Number what is resampled together, by page: queries, those with many pages split by time."""
    query = numbers_of(log.query_ids)[log.pair[log.offsets[:-1]]]
    counts = np.bincount(query)
    size = max(1, int(np.ceil(log.n_pages / MIN_CLUSTERS)))
    order = np.argsort(query, kind="stable")
    starts = np.cumsum(counts) - counts
    rank_in_query = np.empty(len(query), np.int64)
    rank_in_query[order] = np.arange(len(query)) - starts[query[order]]
    parts = np.maximum(1, np.ceil(counts / size).astype(np.int64))
    block = rank_in_query * parts[query] // counts[query]
    return np.unique(query * (int(parts.max()) + 1) + block, return_inverse=True)[1].astype(np.int64)


class _Rows(NamedTuple):
    """Rows of a log, sorted by unit and within it by time."""

    unit: Ints
    position: Ints
    clicked: Floats
    cluster: Ints
    cluster_of_page: Ints  # of all pages of the log
    n_positions: int
    weight: Floats | None

    @classmethod
    def of(cls, log: ClickArrays, unit: Ints, cluster: Ints, chosen: Ints | None = None, weight: Any = None) -> Self:
        """Sort the chosen rows of a log, all unless given; `cluster` is by page."""
        chosen = np.arange(len(log.pair)) if chosen is None else chosen
        page = log.page
        order = chosen[np.lexsort((page[chosen], unit[chosen]))]
        return cls(
            unit=np.unique(unit[order], return_inverse=True)[1].astype(np.int64),
            position=log.position[order],
            clicked=log.clicked[order],
            cluster=cluster[page[order]],
            cluster_of_page=cluster,
            n_positions=log.n_positions,
            weight=None if weight is None else weight[order],
        )

    @property
    def n_clusters(self) -> int:
        return int(self.cluster_of_page.max()) + 1

    def curve(self) -> Examination:
        """Return the curve by the conditional likelihood."""
        cells = UnitCells.of_rows(self.unit, self.position, self.cluster, self.clicked, self.n_clusters, self.weight)
        design = position_design(self.n_positions)
        fit = fit_conditional(cells, design, position_prior(self.n_positions))
        log_curve, influence, prior_covariance = fit.in_terms_of(design)
        return Examination(
            log_curve=log_curve,
            influence=influence,
            prior_covariance=prior_covariance,
            cluster=self.cluster_of_page,
            evidence="none",
            n_units=cells.n_units,
            n_clicks=cells.n_clicks,
        )


def estimate_examination(log: ClickArrays, base_position: Ints | None = None) -> Examination:
    """Estimate how likely each position is examined, relative to the first.

    Rows whose position was drawn with a known probability come first, each weighted by its inverse, which removes what
    the draw knew of the attraction of the moment.

    Args:
      log: What was shown and clicked, pages in the order of time.
      base_position: By row, where the item stood before chance moved it; −1 where that is not known. Where positions
        were drawn so, nothing else is used.
    """
    cluster, weight = resampling_clusters(log), draw_weights(log, base_position)
    if base_position is not None:
        drawn = np.flatnonzero(base_position >= 0)
        if len(drawn) and (base_position[drawn] != log.position[drawn]).any():
            curve = _Rows.of(log, base_position, cluster, drawn, weight).curve()
            if curve.n_clicks >= MIN_MOVED_CLICKS:
                return curve._replace(evidence="randomisation")
    if weight is not None:
        # Drawn positions neither react to clicks nor follow attraction once they are weighted, so no test is needed.
        chosen = np.flatnonzero(weight)
        curve = _Rows.of(log, log.pair, cluster, chosen, weight).curve()
        if curve.n_clicks >= MIN_MOVED_CLICKS:
            # Positions that were hardly ever drawn are missing in a finite log. What the weights have changed already
            # tells in which direction, and the effective number of rows how much may be missing.
            change = curve.log_curve - _Rows.of(log, log.pair, cluster, chosen).curve().log_curve
            missing_share = 1.0 - weight.sum() ** 2 / (np.count_nonzero(weight) * (weight**2).sum())
            covariance = curve.prior_covariance + missing_share**2 * np.outer(change, change)
            return curve._replace(evidence="randomisation", prior_covariance=covariance)
    if moves.positions_follow_users(log):
        by_user = _curve_from_moves(moves.pairs_by_viewer(log, log.session), cluster)
        return by_user._replace(by_user=True, viewer=log.session)
    curve, segment = _curve_from_moves(log, cluster), moves.segments_of_users(log)
    if segment is not None and _segments_differ(log, segment, curve):
        return _curve_from_moves(moves.pairs_by_viewer(log, segment), cluster)._replace(viewer=segment)
    if curve.n_clicks < MIN_MOVED_CLICKS:
        return _curve_from_items(log, cluster) or curve
    return curve


def _curve_from_moves(log: ClickArrays, cluster: Ints) -> Examination:
    """Return the curve from pairs that moved, within parts of the log in time where attraction changes."""
    if moves.moves_smoothly(log):
        rows = _rows_by_epoch(log, cluster, moves.SHORT_EPOCHS)
        curve, undivided = rows.curve(), _Rows.of(log, log.pair, cluster)
        if curve.n_clicks >= MIN_MOVED_CLICKS:
            drift_z = _drift_statistic(undivided.unit, curve.curve[undivided.position], undivided.clicked)
            curve = curve._replace(n_epochs=moves.SHORT_EPOCHS, is_smooth=True, drift_z=drift_z)
            return _allowing_for_reactions(rows, curve)
    # The longest parts within which click rates are steady.
    first_drift_z: float | None = None
    for n_epochs in EPOCH_CHOICES:
        rows = _rows_by_epoch(log, cluster, n_epochs)
        curve = rows.curve()
        drift_z = _drift_statistic(rows.unit, curve.curve[rows.position], rows.clicked)
        first_drift_z = drift_z if first_drift_z is None else first_drift_z
        curve = curve._replace(n_epochs=n_epochs, drift_z=first_drift_z)
        if curve.n_clicks < MIN_MOVED_CLICKS:
            return curve
        if drift_z < MIN_DRIFT_Z:
            break
    # Where items rise as they become more attractive, moves tell a steeper curve over long times than over short ones:
    # z is below 0. A difference in the other direction is less to be expected, so it needs as much evidence as a drift.
    for n_shorter in filter(lambda choice: choice > curve.n_epochs, EPOCH_CHOICES):
        shorter = _rows_by_epoch(log, cluster, n_shorter)
        within = shorter.curve()._replace(n_epochs=n_shorter)
        z = _mean_difference_z(curve, within)
        if within.n_clicks >= MIN_MOVED_CLICKS and (z < -MIN_EPOCH_Z or z > MIN_DRIFT_Z):
            curve, rows = within._replace(drift_z=max(curve.drift_z, abs(z))), shorter
    return _allowing_for_reactions(rows, curve)


def _segments_differ(log: ClickArrays, segment: Ints, curve: Examination) -> bool:
    """Return true where segments of users click otherwise on the same items at the same positions.

    They may see another layout or have another taste. Each segment but the first has a level and a power of the curve
    of its own, which are tested with users as clusters.
    """
    n_users, n_segments, n = int(log.session.max()) + 1, int(segment.max()) + 1, log.n_positions
    cell = segment[log.page] * n + log.position
    cells = UnitCells.of_rows(log.pair, cell, log.session[log.page], log.clicked, n_users)
    by_position, position_belief = position_design(n), position_prior(n)
    by_segment = np.kron(np.eye(n_segments)[:, 1:], np.column_stack([np.ones(n), curve.log_curve]))
    extra = by_segment.shape[1]
    design = np.column_stack([np.tile(by_position, (n_segments, 1)), by_segment])
    precision = np.eye(design.shape[1])
    precision[:-extra, :-extra] = position_belief.precision
    fit = fit_conditional(cells, design, GaussianPrior(np.append(position_belief.mean, np.zeros(extra)), precision))
    effect, covariance = fit.coefficients[-extra:], fit.covariance[-extra:, -extra:]
    return chi_square_tail(float(effect @ np.linalg.solve(covariance, effect)), extra) < MAX_SEGMENT_P_VALUE


def _rows_by_epoch(log: ClickArrays, cluster: Ints, n_epochs: int) -> _Rows:
    """Return the rows with a unit for each pair in each part of the log in time."""
    return _Rows.of(log, log.pair * n_epochs + log.page * n_epochs // log.n_pages, cluster)


def _mean_difference_z(curve: Examination, within: Examination) -> float:
    """Return how much higher a curve is on average than one from shorter parts, in standard errors (Hausman's test).

    Both move with the same clusters, so the error is that of the difference of their influences and what the prior
    leaves of the other.
    """
    if len(curve.log_curve) == 1:
        return 0.0
    moved = (curve.influence - within.influence)[:, 1:]
    covariance = moved.T @ moved + within.prior_covariance[1:, 1:]
    precision = 1.0 / np.maximum(np.diag(covariance), 1e-9)
    difference = (curve.log_curve - within.log_curve)[1:]
    return float(precision @ difference / np.sqrt(precision @ covariance @ precision))


def _allowing_for_reactions(rows: _Rows, curve: Examination) -> Examination:
    """Return the curve from moves, by the estimator that allows for reactions where positions react to clicks."""
    reaction_z = _reaction_statistic(rows, curve)
    curve = curve._replace(evidence="moves", reaction_z=reaction_z)
    return _forward_curve(rows, curve) if abs(reaction_z) > MIN_REACTION_Z else curve


def draw_weights(log: ClickArrays, base_position: Ints | None = None) -> Floats | None:
    """Return by row the inverse of the probability of its position, relative to what it is compared with.

    Where all rows of a page have one probability it is that of the list, and the numerator is the mean over the same
    lists (or the same moves, where it is known what was moved). Otherwise, and where lists do not come again, it is the
    mean over the same pair at the same position. Rows whose position was not drawn have weight 0; None: none was drawn.

    Args:
      log: What was shown and clicked.
      base_position: As `estimate_examination` takes it.
    """
    if log.propensity is None:
        return None
    drawn = np.isfinite(log.propensity) & (log.propensity > 0.0) & (log.propensity < MAX_PROBABILITY)
    if not drawn.any():
        return None
    probability = np.where(drawn, log.propensity, 1.0)
    unit = log.pair if base_position is None else base_position + 1
    group = np.unique(unit * log.n_positions + log.position, return_inverse=True)[1]
    if (probability[log.offsets[log.page]] == probability).all():
        lists = [unit[start:end].tobytes() for start, end in pairwise(log.offsets.tolist())]
        by_list = numbers_of(lists)
        if len(by_list) >= MIN_LIST_REPEATS * (int(by_list.max()) + 1):
            group = by_list[log.page]
    counts = np.maximum(np.bincount(group, drawn), 1.0)
    weight = (np.bincount(group, drawn * probability) / counts)[group] / probability
    weights: Floats = np.where(drawn, np.minimum(weight, MAX_DRAW_WEIGHT), 0.0)
    return weights


def rows_as_log(
    pair: Ints,
    position: Ints,
    clicked: Floats,
    offsets: Ints | None = None,
    query_ids: Sequence[str] | None = None,
    propensity: Floats | None = None,
    visitors: Sequence[str | None] | None = None,
) -> ClickArrays:
    """Return shown rows as a log from which examination can be estimated.

    Args:
      pair: By row, the number of its (query, item) pair.
      position: By row, from 0.
      clicked: By row, above 0 where it was clicked.
      offsets: Where pages begin, and the number of rows at the end; every row is a page of its own unless given.
      query_ids: By page; every pair is a query of its own unless given.
      propensity: By row, the probability of its position or of its list.
      visitors: By page, the user or session; every page is a session of its own unless given.
    """
    n_rows, n_pairs = len(pair), int(pair.max()) + 1
    starts = np.arange(n_rows + 1) if offsets is None else np.asarray(offsets, dtype=np.int64)
    names = np.array([str(number) for number in range(n_pairs)], dtype=object)
    if query_ids is not None:
        by_row = np.repeat(np.array(query_ids, dtype=object), np.diff(starts))
        names[pair] = by_row
        if (names[pair] != by_row).any():
            names[:] = ""  # pairs that several pages share are items without a query, as `ListLog.clicks` has them
    return ClickArrays(
        offsets=starts,
        pair=pair.astype(np.int64),
        position=position.astype(np.int64),
        clicked=(clicked > 0.0).astype(np.float64),
        session=np.arange(len(starts) - 1) if visitors is None else numbers_of(session_names(visitors)),
        query_ids=tuple(names.tolist()),
        items=tuple(map(str, range(n_pairs))),
        propensity=propensity,
    )


def _curve_from_items(log: ClickArrays, cluster: Ints) -> Examination | None:
    """Return the curve from items that moved between queries, None where too few did.

    An item may suit one query more than another, and a good order knows that. How much the order knows is not seen; it
    is allowed for by what the order knows of items: the difference between this curve and the click rates themselves.
    """
    curve = _Rows.of(log, log.by_item().pair, cluster).curve()
    if curve.n_clicks < MIN_MOVED_CLICKS:
        return None
    shown = np.bincount(log.position, minlength=log.n_positions) + 1.0
    rates = (np.bincount(log.position, log.clicked, log.n_positions) + 0.5) / shown
    selection = SELECTION_FACTOR * (np.log(rates / rates[0]) - curve.log_curve)
    return curve._replace(evidence="items", prior_covariance=curve.prior_covariance + np.outer(selection, selection))


def _drift_statistic(unit: Ints, theta: Floats, clicked: Floats) -> float:
    """Return by how many standard errors the click rates of units differ between their earlier and later rows.

    Given its C clicks in n rows, a unit with constant attraction has about a hypergeometric number c of them in its
    first half, whose share p is that of examination. The statistic sums (c − C p)² − C p (1 − p)(n − C)/(n − 1).
    """
    n_units = int(unit[-1]) + 1
    counts = np.bincount(unit, minlength=n_units)
    rank_in_unit = np.arange(len(unit)) - (np.cumsum(counts) - counts)[unit]
    early = (2 * rank_in_unit < counts[unit]).astype(np.float64)
    total, clicks = np.bincount(unit, theta, n_units), np.bincount(unit, clicked, n_units)
    share = np.bincount(unit, theta * early, n_units) / np.maximum(total, 1e-300)
    variance = clicks * share * (1.0 - share) * (counts - clicks) / np.maximum(counts - 1.0, 1.0)
    excess = (np.bincount(unit, clicked * early, n_units) - clicks * share) ** 2 - variance
    excess = excess[(clicks >= 2) & (counts >= 2)]
    return float(excess.sum() / max(np.sqrt((excess**2).sum()), 1e-9)) if len(excess) else 0.0


def _reaction_statistic(rows: _Rows, curve: Examination) -> float:
    """Return by how many standard errors items move up after a click that was not to be expected.

    Under positions that do not react, the click of a row is unrelated to where its item stands later. It is the score
    test of a further covariate, clustered: how much higher than on average the item stands in all later rows together,
    by the number of its rows. That is the score of a ranking that adds clicks up.
    """
    unit, theta, counts = rows.unit, curve.curve[rows.position], np.bincount(rows.unit)
    total, height = np.maximum(np.bincount(unit, theta), 1e-300), -np.log1p(rows.position)
    sums = np.cumsum(height - (np.bincount(unit, height) / counts)[unit])
    covariate = -sums / counts[unit]  # what is above the mean later is below it until now
    # A covariate that the positions explain already has no score of its own.
    design = position_design(len(curve.log_curve))[rows.position]
    columns = np.column_stack([covariate, design])
    means = [np.bincount(unit, theta * column) / total for column in columns.T]
    centred = columns - np.stack(means, axis=1)[unit]
    expected = (np.bincount(unit, rows.clicked) / total)[unit] * theta
    weighted = centred[:, 1:] * expected[:, None]
    slope = np.linalg.lstsq(weighted.T @ centred[:, 1:], weighted.T @ centred[:, 0], rcond=None)[0]
    scores = (rows.clicked - expected) * (centred[:, 0] - centred[:, 1:] @ slope)
    by_cluster = np.bincount(rows.cluster, scores, rows.n_clusters)
    return float(by_cluster.sum() / max(np.sqrt((by_cluster**2).sum()), 1e-9))


def _forward_curve(rows: _Rows, curve: Examination) -> Examination:
    """Return the curve where positions react to clicks: clicks are compared with later ones of the same unit.

    Where x_t was chosen by what came before t, E[c_t − θ_t c_s / θ_s | x_t] = 0 for every later s, wherever the unit
    stands then. These moments, by position, are solved by the generalised method of moments.
    Reference: Wooldridge (1997), Multiplicative Panel Data Models without the Strict Exogeneity Assumption.
    """
    n_positions, unit = len(curve.log_curve), rows.unit
    design, prior = position_design(n_positions), position_prior(n_positions)
    x = design[rows.position]
    first = np.maximum(1.0 - x.sum(axis=1), 0.0)  # the part of a row that belongs to the first position
    instruments = np.column_stack([first, x])
    coefficients: Floats = np.asarray(np.linalg.lstsq(design, curve.log_curve, rcond=None)[0], dtype=np.float64)
    ends = np.cumsum(np.bincount(unit))[unit]
    later = (ends - 1 - np.arange(len(unit))).astype(np.float64)  # by row, how many rows of its unit come after it
    row_weight = later / (later + 1.0)

    def moments(at: Floats) -> tuple[Floats, Floats]:
        """Return the moments by cluster, and their derivative."""
        theta = np.exp(x @ at)
        sums = np.cumsum(np.column_stack([np.ones(len(x)), x]) * (rows.clicked / theta)[:, None], axis=0)
        means = (sums[ends - 1] - sums) / np.maximum(later, 1.0)[:, None]  # over the later rows
        products = instruments * (row_weight * (rows.clicked - theta * means[:, 0]))[:, None]
        slopes = -(row_weight * theta)[:, None] * (x * means[:, [0]] - means[:, 1:])
        return sums_by_cluster(products, rows.cluster, rows.n_clusters), instruments.T @ slopes

    by_cluster, _ = moments(coefficients)
    spread = by_cluster.T @ by_cluster
    moment_weight = inverse_of(spread + 1e-6 * np.trace(spread) / len(spread) * np.eye(len(spread)) + 1e-12)
    for _ in range(MAX_NEWTON_ROUNDS):
        by_cluster, derivative = moments(coefficients)
        curvature = derivative.T @ moment_weight @ derivative + prior.precision
        slope = derivative.T @ moment_weight @ by_cluster.sum(axis=0) + prior.precision @ (coefficients - prior.mean)
        step = -np.linalg.solve(curvature, slope)
        step *= min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-12))
        coefficients = coefficients + step
        if float(np.abs(step).max()) < 1e-7:
            break
    inverse = inverse_of(curvature)
    return curve._replace(
        log_curve=np.clip(design @ coefficients, -MAX_LOG_CURVE, MAX_LOG_CURVE),
        influence=-by_cluster @ moment_weight @ derivative @ inverse @ design.T,
        prior_covariance=design @ inverse @ prior.precision @ inverse @ design.T,
        reacts=True,
    )
