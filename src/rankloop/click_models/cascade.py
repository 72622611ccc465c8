"""The cascade model: users read from the top until their first click."""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

import numpy as np

from rankloop.click_models.base import ClickModel, Evidence, ModelName, Prior, shares
from rankloop.click_models.page_log import ClickArrays
from rankloop.core.types import Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class CascadeModel(ClickModel):
    """Users read from the top, click the first pair that attracts them, and stop.

    Reference: Craswell, Zoeter, Taylor and Ramsey (2008), An Experimental Comparison of Click Position-Bias Models.
    """

    name: ClassVar[ModelName] = "cascade"
    stop: Floats = field(default_factory=lambda: np.ones(1))

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, max_rounds: int) -> Self:
        """In closed form: attraction = clicks / examinations, of the rows down to the first click.

        Clicks after the first one do not exist in this model, so they are left out here and cost likelihood later.
        """
        counts = count_examined(log, first=True)
        return cls(
            attraction=shares(counts.clicks, counts.examined, prior),
            examination=np.ones((log.n_positions, 1)),
            evidence=Evidence(counts.clicks, counts.examined, prior),
        )


class ExaminedCounts(NamedTuple):
    """Counts of the rows that were surely examined, by pair."""

    clicks: Floats
    examined: Floats
    last_clicks: Ints  # the row of the first or last click of each page that has one


def count_examined(log: ClickArrays, first: bool) -> ExaminedCounts:
    """Count the rows down to the first or last click of each page; all rows, where a page has no click."""
    rows, sizes = np.arange(len(log.pair)), np.diff(log.offsets)
    page = np.repeat(np.arange(log.n_pages), sizes)
    ends, clicked = log.offsets[1:] - 1, np.flatnonzero(log.clicked > 0.0)
    # The last assignment to an index counts, so the order of the clicks decides which one remains.
    ends[page[clicked[::-1]] if first else page[clicked]] = clicked[::-1] if first else clicked
    examined = rows <= np.repeat(ends, sizes)
    return ExaminedCounts(
        clicks=np.bincount(log.pair[examined], log.clicked[examined], log.n_pairs).astype(np.float64),
        examined=np.bincount(log.pair[examined], minlength=log.n_pairs).astype(np.float64),
        last_clicks=ends[log.clicked[ends] > 0.0],
    )
