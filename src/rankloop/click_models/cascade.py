"""The cascade model and its extensions to several clicks, dcm and sdbn: users read from the top; closed forms."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from rankloop.click_models.base import MIN_PROBABILITY, ClickModel, Evidence, ModelName, Prior, estimate_prior, shares
from rankloop.core.types import Floats, Ints
from rankloop.logs.list_log import ClickArrays


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
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats, max_rounds: int) -> Self:
        examined = np.arange(len(log.pair)) <= np.repeat(_last_examined(log, cls.clicks_once), np.diff(log.offsets))
        hits = np.bincount(log.pair[examined], log.clicked[examined], log.n_pairs).astype(np.float64)
        rows = np.bincount(log.pair[examined], minlength=log.n_pairs).astype(np.float64)
        evidence = Evidence(hits, rows, prior)
        return cls(attraction=shares(hits, rows, prior), examination=np.ones((log.n_positions, 1)), evidence=evidence)


def _last_examined(log: ClickArrays, first: bool) -> Ints:
    """Return the row of the first or last click of each page, or its last row where there is none."""
    clicks, ends = np.flatnonzero(log.clicked > 0.0), log.offsets[1:] - 1
    clicks = clicks[::-1] if first else clicks  # the last assignment to an index counts
    ends[np.repeat(np.arange(log.n_pages), np.diff(log.offsets))[clicks]] = clicks
    return ends


def _last_clicks(log: ClickArrays) -> Ints:
    """Return the row of the last click of each page that has one."""
    ends = _last_examined(log, first=False)
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
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats, max_rounds: int) -> Self:
        finals = np.bincount(log.position[_last_clicks(log)], minlength=log.n_positions)
        clicks = np.bincount(log.position, log.clicked, log.n_positions)
        stop = np.clip((finals + 0.5) / (clicks + 1.0), MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
        return replace(super()._fit(log, prior, table, max_rounds), stop=stop)


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
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats, max_rounds: int) -> Self:
        model = super()._fit(log, prior, table, max_rounds)
        finals = np.bincount(log.pair[_last_clicks(log)], minlength=log.n_pairs).astype(np.float64)
        clicks = model.evidence.clicks
        return replace(model, satisfaction=shares(finals, clicks, estimate_prior(finals, clicks)))
