"""Judge a ranker on a log of lists by the shared estimate of examination, beside two controls."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.random import default_rng

from rankloop.click_models.conditional_fit import sums_by_cluster
from rankloop.click_models.examination import EVIDENCE_WORDS, Examination, estimate_examination
from rankloop.click_models.reading import LAST_CLICK_GROUPS, fit_readings, lacks_pages_without_clicks
from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.statistics import normal_quantiles, student_quantile
from rankloop.core.types import Floats, Ints, whole_number
from rankloop.engine import Engine
from rankloop.evaluation.list_estimate import MIN_CLICKS, Diagnostics, Interval, ListEstimate, OrderEstimate, side_of
from rankloop.evaluation.list_pages import NOT_SHOWN, PageTable, ShownPage
from rankloop.evaluation.off_policy.ranking_log import LOCAL_ENGINE
from rankloop.evaluation.order_value import MAX_WEIGHT, AttractionModel, OrderJudge, OrderValues

CLICK_OUTCOME = "clicks"
MAX_UNLIKE_SHARE = 0.1
MAX_MODELLED_SHARE = 0.5
MAX_MISFIT = 0.25
MAX_HALVES_Z = 4.0
N_RANDOM_ORDERS = 4
MIN_FREEDOM = 2.0  # degrees of freedom of an interval
MAX_LOG_RATIO = 5.0  # of an order to the log
ONLY_CLICKED_PAGES = (
    "every page of this log has a click, so pages without one seem to be left out: numbers are per page with a click"
)


class ListOptions(NamedTuple):
    """Options of an evaluation by examination."""

    level: float = 0.95  # the probability with which each interval holds
    positions: int | None = None  # only so many first positions count; None: all that were shown
    position_bias: Sequence[float] | Floats | None = None  # the examination of each position; None: is estimated
    resamples: int = 400  # of the clusters of pages, for the intervals
    seed: int = 0  # of every draw
    held_out_gain: float | None = None  # over the logged order, that training found on held-out lists


def evaluate_pages(
    session: Session,
    pages: Iterable[ShownPage],
    options: ListOptions | None = None,
    engine: Engine = LOCAL_ENGINE,
    name: str = "ranker",
) -> ListEstimate:
    """Estimate by examination what the ranker of a session would earn; it may be deterministic.

    Args:
      session: The ranker.
      pages: The pages of a log, in the order of time.
      options: Level, positions and resamples.
      engine: Where the ranker is asked; the fits happen here.
      name: The ranker's name in the answer.

    Raises:
      InvalidInput: If nothing was clicked, or an option is out of range.
    """
    options = options or ListOptions()
    if not 0.5 <= options.level < 1.0:
        raise InvalidInput(f"level = {options.level} must be a probability from 0.5 to below 1, such as 0.95")
    if options.positions is not None:
        whole_number(options.positions, "positions", 1)
    table = PageTable.of(pages, session, positions=options.positions, seed=options.seed, engine=engine)
    return LogJudge(table, options).judge(table.slots, name)


class LogJudge:
    """The pages of a log with examination and reading fitted to them; judges any number of orders."""

    def __init__(self, table: PageTable, options: ListOptions | None = None) -> None:
        """Fit examination and reading."""
        if not table.clicked.any():
            raise InvalidInput("nothing was clicked in this log: it says nothing about any ranker")
        self.table, self.options = table, options or ListOptions()
        log, positions_before_chance = table.clicks(), table.base_position[table.shown]
        base = positions_before_chance if (positions_before_chance >= 0).any() else None
        if self.options.position_bias is not None:
            self.examination = Examination.given(self.options.position_bias, log)
        else:
            self.examination = estimate_examination(log, base)
        self.lacks_pages = lacks_pages_without_clicks(log)
        readings = fit_readings(log, self.examination, base)
        self.reading = readings[0]
        self.judges = [OrderJudge(table, reading, self.examination.cluster) for reading in readings]
        self.orders = self.judges[0]
        self.outcomes = (CLICK_OUTCOME, *table.outcomes)
        slots = self._random_slots()
        self.random = self._estimate(self._values(slots), np.zeros(len(self.outcomes)), self._exposed(slots))

    @cached_property
    def model(self) -> AttractionModel:
        """The model of attraction."""
        log_examined = self.orders.log_examined(self.reading.parameters)
        return AttractionModel(self.table, log_examined, self.examination.cluster, self.options.seed)

    def judge(self, slots: Ints, name: str = "ranker") -> ListEstimate:
        """Estimate what an order would earn."""
        table, values, exposed = self.table, self._values(slots), self._exposed(slots)
        diagnostics = self._diagnostics(slots, exposed)
        # As far as the model is off where clicks can check it, it may be off where they cannot.
        allowance = abs(diagnostics.calibration - 1.0) * diagnostics.modelled_share * values[0].order[0]
        ranker = self._estimate(values, allowance, exposed)
        tail = 0.5 * (1.0 - self.options.level)
        low, high = np.quantile(values[0].log[1:], [tail, 1.0 - tail], axis=0).tolist()
        logged = zip(values[0].log[0].tolist(), low, high)
        return ListEstimate(
            name=name,
            n_pages=table.n_pages,
            n_clicks=int(table.clicked.sum()),
            level=self.options.level,
            log={outcome: Interval(*ends) for outcome, ends in zip(self.outcomes, logged)},
            ranker=ranker,
            random=self.random,
            diagnostics=diagnostics,
            reasons=tuple(self._reasons(ranker, diagnostics)),
            warnings=(ONLY_CLICKED_PAGES,) if self.lacks_pages else (),
        )

    def _values(self, slots: Ints) -> list[OrderValues]:
        """Return the value of an order for each family of users that the log cannot tell apart."""
        n, seed = self.options.resamples, self.options.seed
        return [
            judge.doubly_robust(slots, self.model, n // 4 if judge is self.orders else n // 8, seed)
            if judge.needs_model(slots)
            else judge.clicks_reweighted(slots, n, seed)
            for judge in self.judges
        ]

    def _random_slots(self) -> Ints:
        """Return random orders of the shown items."""
        rng, logged_slots = default_rng(self.options.seed), self.orders.logged_slots
        slots = np.full((N_RANDOM_ORDERS, *logged_slots.shape), NOT_SHOWN)
        filled = logged_slots != NOT_SHOWN
        for draw in range(N_RANDOM_ORDERS):
            keys = np.where(filled, rng.random(logged_slots.shape), np.inf)
            shuffled = np.take_along_axis(logged_slots, np.argsort(keys, axis=1), axis=1)
            slots[draw][filled] = shuffled[shuffled != NOT_SHOWN]
        return slots

    def _exposed(self, slots: Ints) -> Floats:
        """Return by row how likely an order has it examined."""
        attraction = self.model.attraction() if self.orders.needs_model(slots) else np.zeros(len(self.table.page))
        return self.orders.exposure(slots, self.reading.parameters, attraction, attraction[None])[0]

    def _weights(self, exposed: Floats) -> Floats:
        """Return by shown row how often an order has it examined, relative to the log."""
        logged = np.exp(self.orders.log_examined(self.reading.parameters))
        weights: Floats = np.minimum(exposed[self.orders.shown] / logged, MAX_WEIGHT)
        return weights

    def _stretches(self, exposed: Floats) -> list[float]:
        """Return by outcome how much wider the interval of an order gets because few clusters decide (Student's t)."""
        # The degrees of freedom of clicks are the effective number of clusters, by their clicks or by what moves the
        # curve. Few heavy purchases may carry another outcome, so it has its own number, by the variance that each
        # cluster adds: the square of its share in the order's value, less its share in the log's (Satterthwaite).
        orders, tail = self.orders, 0.5 * (1.0 - self.options.level)
        counts: list[Any] = [effective_number(np.bincount(orders.row_cluster, self.table.clicked, orders.n_clusters))]
        moved = self.examination.influence[:, 1:] ** 2
        if moved.any():
            counts.append(np.median(effective_number(moved)))
        counts, weights, cluster = [min(counts)], self._weights(exposed), orders.row_cluster[orders.shown]
        for brought in orders.outcomes[1:, orders.shown]:
            values = sums_by_cluster(np.stack([weights * brought, brought], axis=1), cluster, orders.n_clusters)
            order, log = (values / np.maximum(values.sum(axis=0), 1e-12)).T
            counts.append(min(counts[0], effective_number((order - log) ** 2)))
        normal = float(normal_quantiles(np.array([1.0 - tail]))[0])
        return [student_quantile(1.0 - tail, max(float(count) - 1.0, MIN_FREEDOM)) / normal for count in counts]

    def _estimate(self, values: list[OrderValues], allowance: Floats, exposed: Floats) -> OrderEstimate:
        """Return the estimate of the likeliest family, with an interval that holds for every family."""
        stretches = self._stretches(exposed)
        families = [self._ratio_intervals(one_family, allowance, stretches) for one_family in values]
        earned, gain = {}, {}
        for number, name in enumerate(self.outcomes):
            ends = [family[name] for family in families]
            lower, upper = min(end.lower for end in ends), max(end.upper for end in ends)
            logged = float(values[0].log[0, number])
            earned[name] = Interval(ends[0].value, lower, upper)
            gain[name] = Interval(ends[0].value - logged, lower - logged, upper - logged)
        return OrderEstimate(earned, gain)

    def _ratio_intervals(self, values: OrderValues, allowance: Floats, stretches: list[float]) -> dict[str, Interval]:
        """Return by outcome what the order earns: the interval of its ratio to the log, times what the log brought."""
        # The ratio is convex in the curve of examination, so noise in the curve pushes it up, and resamples are pushed
        # up once more. The interval therefore joins that of the resamples and its mirror image around the estimate (the
        # percentile and the basic bootstrap), on the scale of the logarithm. It is stretched where few clusters decide,
        # and reaches as much farther as the model of reading and the clicks disagree.
        tail, intervals = 0.5 * (1.0 - self.options.level), {}
        for number, name in enumerate(self.outcomes):
            order, log = values.order[:, number], values.log[:, number]
            ratios = np.log(np.maximum(order, 1e-9) / np.maximum(log, 1e-9))
            low, high = np.quantile(ratios[1:] - ratios[0], [tail, 1.0 - tail]) * stretches[number]
            ends = ratios[0] + np.array([min(low, -high, 0.0), max(high, -low, 0.0)])
            bounds = log[0] * np.exp(np.clip(ends, -MAX_LOG_RATIO, MAX_LOG_RATIO))
            more, misfit = allowance[number], float(np.broadcast_to(values.misfit, len(self.outcomes))[number])
            lower, upper = bounds[0] - more - max(misfit, 0.0), bounds[1] + more - min(misfit, 0.0)
            if name == CLICK_OUTCOME:  # from nothing to everything is clicked
                lower = max(lower, 0.0)
                upper = min(upper, max(float(order[0]), len(self.orders.shown) / self.table.n_pages))
            else:  # how much the log brought is itself uncertain where few rows carry it; the side of no change stays
                level = max(1.0, log[0] / max(float(np.quantile(log[1:], tail)), 1e-9))
                lower = log[0] + (lower - log[0]) * (level if lower < log[0] else 1.0 / level)
                upper = log[0] + (upper - log[0]) * (level if upper > log[0] else 1.0 / level)
            intervals[name] = Interval(float(order[0]), float(lower), float(upper))
        return intervals

    def _diagnostics(self, slots: Ints, exposed: Floats) -> Diagnostics:
        table, rows, parameters, n = self.table, self.orders.shown, self.reading.parameters, self.reading.n_positions
        modelled = unlike = 0.0
        calibration, calibration_error = 1.0, 0.0
        if self.orders.needs_model(slots):
            clicks = exposed * self.model.attraction()
            share = clicks / max(float(clicks.sum()), 1e-12)
            modelled = float(share[table.position == NOT_SHOWN].sum())
            unlike = float((share * self.model.unlike_shown()).sum())
            calibration, calibration_error = self.model.calibration(exposed)
        hits = self._weights(exposed) * table.clicked[rows]
        change = np.bincount(table.page[rows], hits - table.clicked[rows], table.n_pages).astype(np.float64)
        first, second = np.array_split(change, 2)
        halves_z = 0.0
        if min(len(first), len(second)) > 1:
            error = np.sqrt(first.var() / len(first) + second.var() / len(second))
            halves_z = float((first.mean() - second.mean()) / max(error, 1e-12))
        return Diagnostics(
            examination=self.examination,
            after_click=tuple(np.exp(parameters[n + 1 : n + LAST_CLICK_GROUPS]).tolist()),
            trusts=any(judge.reading.trusts for judge in self.judges),
            effective_clicks=float(effective_number(hits)),
            modelled_share=modelled,
            unlike_share=unlike,
            calibration=calibration,
            calibration_error=calibration_error,
            halves_z=halves_z,
            outcome_rows={name: int((values != 0.0).sum()) for name, values in table.outcomes.items()},
        )

    def _reasons(self, ranker: OrderEstimate, diagnostics: Diagnostics) -> list[str]:
        """Return why there is no verdict; empty where there is one."""
        table, gain, examination, reasons = self.table, ranker.gain[CLICK_OUTCOME], self.examination, list[str]()
        side = side_of(gain)
        if table.clicked.sum() < MIN_CLICKS:
            reasons.append(f"it has {table.clicked.sum():.0f} clicks, and {MIN_CLICKS} or more are needed")
        elif examination.evidence == "none" and table.n_positions > 1:
            scope = " within a segment of users, and segments click otherwise" if examination.by_segment else ""
            reasons.append(
                f"examination is {EVIDENCE_WORDS['none']}{scope} ({examination.n_clicks} such clicks). Show some "
                "lists in another order, or give --position-bias"
            )
        if diagnostics.unlike_share > MAX_UNLIKE_SHARE:
            reasons.append(
                f"{diagnostics.unlike_share:.0%} of its clicks would be on items that resemble none that the log showed"
            )
        elif diagnostics.modelled_share > MAX_MODELLED_SHARE:
            reasons.append(
                f"{diagnostics.modelled_share:.0%} of its clicks would be on items that the log did not show on their "
                f"page, so they can only be predicted; at most {MAX_MODELLED_SHARE:.0%} are allowed"
            )
        elif abs(diagnostics.calibration - 1.0) > MAX_MISFIT + 2.0 * diagnostics.calibration_error and (
            diagnostics.modelled_share > MAX_UNLIKE_SHARE
        ):
            reasons.append(
                "clicks on items that the log did not show on their page have to be predicted, and where the "
                f"predictions can be checked there are {diagnostics.calibration:.2f} times as many clicks as predicted"
            )
        if reasons or side == "unclear":
            return reasons
        if side == "better" and self.random.gain[CLICK_OUTCOME].value >= gain.value:
            reasons.append(
                "it is called better than what was shown, but so is a random order of the same items: the estimate of "
                "examination is not to be trusted here"
            )
        if abs(diagnostics.halves_z) > MAX_HALVES_Z:
            reasons.append("the earlier and the later half of the log contradict each other by more than chance allows")
        held_out = self.options.held_out_gain
        if side == "better" and held_out is not None and held_out < 0.0:
            reasons.append(
                "it is called better than what was shown, but on the lists that its training held out it was worse"
            )
        return reasons


def effective_number(weights: Any) -> Floats:
    """Return by column how many equal weights would carry the sum as well."""
    number: Floats = weights.sum(axis=0) ** 2 / np.maximum((weights**2).sum(axis=0), 1e-300)
    return number
