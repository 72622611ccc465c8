"""The click models: examination by position (pbm, ubm), and reading from the top (cascade, dcm, sdbn, dbn)."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from rankloop.click_models import base
from rankloop.click_models.base import ClickModel, ClickParameters, ClickRows, Evidence, ModelName, Prior, clipped
from rankloop.click_models.examination import Examination, estimate_examination
from rankloop.click_models.reading import Reading, distances_to_last_clicks
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.logs.list_log import ClickArrays

MAX_EM_ROUNDS = 500
MIN_EM_GAIN = 1e-8  # of log-likelihood, per row and round


def _goes_on(objectives: list[float], log: ClickArrays) -> bool:
    """Return true while expectation maximisation gains."""
    gains = len(objectives) < 2 or objectives[-1] - objectives[-2] >= MIN_EM_GAIN * len(log.pair)
    return gains and len(objectives) < MAX_EM_ROUNDS


@dataclass(frozen=True, kw_only=True, eq=False)
class UserBrowsingModel(ClickModel):
    """P(click) = examination[position, distance to the last click] · attraction[pair].

    Reference: Dupret and Piwowarski (2008), A User Browsing Model to Predict Search Engine Click Data from Past
    Observations.
    """

    name: ClassVar[ModelName] = "ubm"
    numbers: ClassVar[tuple[str, ...]] = ("examination",)
    browsing: ClassVar[bool] = True

    @classmethod
    def examination_table(cls, log: ClickArrays, examination: Examination | None = None) -> Floats:
        """Return the table of the reading with memory for clicks above."""
        return Reading.with_memory(log, examination or estimate_examination(log)).by_distance()

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats) -> Self:
        """Fit attraction by expectation maximisation, given the table: only examination is hidden."""
        distance = np.minimum(distances_to_last_clicks(log), table.shape[1] - 1)
        by_table, is_click = table[log.position, distance], log.clicked > 0.0
        hits: Floats = np.bincount(log.pair, log.clicked, log.n_pairs).astype(np.float64)
        attraction, examined, objectives = clipped(prior.mean), np.zeros(log.n_pairs), list[float]()
        while _goes_on(objectives, log):
            both = np.minimum(by_table * attraction[log.pair], 1.0 - 1e-12)
            log_likelihood = float(np.where(is_click, np.log(both), np.log1p(-both)).sum())
            objectives.append(log_likelihood + prior.log_density(attraction))
            # P(examined | no click) = e (1 − a) / (1 − e a).
            unclicked = by_table * (1.0 - attraction[log.pair]) / (1.0 - both)
            examined = np.bincount(log.pair, np.where(is_click, 1.0, unclicked), log.n_pairs).astype(np.float64)
            attraction = prior.shares(hits, examined)
        evidence = Evidence(hits, examined, prior, tuple(objectives))
        return cls(attraction=attraction, examination=table, evidence=evidence)


@dataclass(frozen=True, kw_only=True, eq=False)
class PositionBasedModel(UserBrowsingModel):
    """P(click) = examination[position] · attraction[pair]; the first position is always examined.

    Examination is the shared estimate, which needs pairs that stand at several positions.
    References: Richardson, Dominowska and Ragno (2007), Predicting Clicks; Craswell, Zoeter, Taylor and Ramsey (2008),
    An Experimental Comparison of Click Position-Bias Models.
    """

    name: ClassVar[ModelName] = "pbm"

    @classmethod
    def examination_table(cls, log: ClickArrays, examination: Examination | None = None) -> Floats:
        """Return the shared curve."""
        return np.clip((examination or estimate_examination(log)).curve, base.MIN_PROBABILITY, 1.0)[:, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class CascadeModel(ClickModel):
    """Users read from the top, click the first pair that attracts them, and stop.

    attraction = clicks / examinations, of the rows down to the first click (all, where there is none). Clicks after the
    first one do not exist in this model, so `fit` leaves them out, and they cost likelihood later.
    Reference: Craswell, Zoeter, Taylor and Ramsey (2008), An Experimental Comparison of Click Position-Bias Models.
    """

    name: ClassVar[ModelName] = "cascade"
    clicks_once: ClassVar[bool] = True
    stop: Floats = field(default_factory=lambda: np.ones(1))

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats) -> Self:
        examined = np.arange(len(log.pair)) <= _last_examined(log, cls.clicks_once)[log.page]
        hits = np.bincount(log.pair[examined], log.clicked[examined], log.n_pairs).astype(np.float64)
        rows = np.bincount(log.pair[examined], minlength=log.n_pairs).astype(np.float64)
        evidence = Evidence(hits, rows, prior)
        return cls(attraction=prior.shares(hits, rows), examination=np.ones((log.n_positions, 1)), evidence=evidence)


def _last_examined(log: ClickArrays, first: bool = False) -> Ints:
    """Return the row of the first or last click of each page, or its last row where there is none."""
    clicks, ends = np.flatnonzero(log.clicked > 0.0), log.offsets[1:] - 1
    clicks = clicks[::-1] if first else clicks  # the last assignment to an index counts
    ends[log.page[clicks]] = clicks
    return ends


def _last_clicks(log: ClickArrays) -> Ints:
    """Return the row of the last click of each page that has one."""
    ends = _last_examined(log)
    return ends[log.clicked[ends] > 0.0]


@dataclass(frozen=True, kw_only=True, eq=False)
class DependentClickModel(CascadeModel):
    """Users read from the top and click what attracts them; after a click at position p they stop with stop[p].

    attraction = clicks / examinations, of the rows down to the last click; stop[p] = pages whose last click is at p /
    pages with a click at p. Who read on and clicked nothing more counts as stopped too, so low positions have too high
    numbers. Reference: Guo, Liu and Wang (2009), Efficient Multiple-Click Models in Web Search.
    """

    name: ClassVar[ModelName] = "dcm"
    numbers: ClassVar[tuple[str, ...]] = ("stop",)
    clicks_once: ClassVar[bool] = False
    stop: Floats = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats) -> Self:
        finals = np.bincount(log.position[_last_clicks(log)], minlength=log.n_positions)
        clicks = np.bincount(log.position, log.clicked, log.n_positions)
        stop = np.clip((finals + 0.5) / (clicks + 1.0), base.MIN_PROBABILITY, 1.0 - base.MIN_PROBABILITY)
        return replace(super()._fit(log, prior, table), stop=stop)


@dataclass(frozen=True, kw_only=True, eq=False)
class SimplifiedDbnModel(CascadeModel):
    """Users read from the top and click what attracts them; after a click they stop with satisfaction[pair].

    attraction = clicks / examinations, of the rows down to the last click; satisfaction = times that it was the last
    click / clicks. Who read on and clicked nothing more counts as satisfied too, so it is too high where pages are
    short; `dbn` has no such bias. Reference: Chapelle and Zhang (2009), A Dynamic Bayesian Network Click Model for Web
    Search Ranking, section 5.
    """

    name: ClassVar[ModelName] = "sdbn"
    numbers: ClassVar[tuple[str, ...]] = ("satisfaction",)
    clicks_once: ClassVar[bool] = False
    stop: Floats = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats) -> Self:
        model = super()._fit(log, prior, table)
        finals = np.bincount(log.pair[_last_clicks(log)], minlength=log.n_pairs).astype(np.float64)
        clicks = model.evidence.clicks
        return replace(model, satisfaction=Prior.estimated(finals, clicks).shares(finals, clicks))


@kernel
def _expect(parameters: ClickParameters, rows: ClickRows, sums: Floats) -> tuple[float, float, float]:
    """Add up what the pages tell: log-likelihood, times that users could read on, and that they did."""
    # Rows of `sums`, by pair: clicks, examinations, clicks after which more was shown, satisfied ones of these. With
    # below = P(clicks from this row on | examined) and above = P(clicks before it, examined), from bottom and top; who
    # has stopped clicks nothing more.
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
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats) -> Self:
        """Expectation maximisation, up and down each page, twice: the first time tells how alike pairs satisfy."""
        # What comes after the last row of a page is not seen, so it tells nothing of satisfaction and patience.
        half = np.full(log.n_pairs, 0.5)
        start = cls(attraction=clipped(prior.mean), satisfaction=half, persistence=0.9)
        first = start._maximised(log, prior, Prior(half, 1.0))
        sums = np.zeros((4, log.n_pairs))
        _expect(first.parameters, base.rows_of(log), sums)
        belief = Prior.estimated(sums[3], sums[2])
        start = cls(attraction=first.attraction, satisfaction=clipped(belief.mean), persistence=first.persistence)
        return start._maximised(log, prior, belief)

    def _maximised(self, log: ClickArrays, prior: Prior, belief: Prior) -> Self:
        """Climb from these numbers; `prior` is the belief about attraction, `belief` that about satisfaction."""
        now, objectives = self.parameters, list[float]()
        while True:
            sums = np.zeros((4, log.n_pairs))
            total, could, did = _expect(now, base.rows_of(log), sums)
            objectives.append(total + prior.log_density(now.attraction) + belief.log_density(now.satisfaction))
            if not _goes_on(objectives, log):
                break
            persistence = float(clipped(np.array(did / could))) if could > 0.0 else now.persistence
            now = now._replace(
                attraction=prior.shares(sums[0], sums[1]),
                satisfaction=belief.shares(sums[3], sums[2]),
                persistence=persistence,
            )
        return type(self)(
            attraction=now.attraction,
            satisfaction=now.satisfaction,
            examination=np.ones((log.n_positions, 1)),
            persistence=now.persistence,
            evidence=Evidence(sums[0], sums[1], prior, tuple(objectives)),
        )


_FAMILY = (CascadeModel, PositionBasedModel, DependentClickModel, SimplifiedDbnModel, DbnModel, UserBrowsingModel)
MODELS: dict[str, type[ClickModel]] = {model.name: model for model in _FAMILY}  # the simplest first
