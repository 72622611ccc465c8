"""The cascade model: people read from the top until their first click."""

import numpy as np

from rankloop.click_models.base import Fitted, Prior, shares
from rankloop.click_models.page_log import PageLog
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints


@kernel
def last_examined(offsets: Ints, clicked: Floats, first: bool) -> Ints:
    """By page: the row of the first or last click, or the last row where there is none."""
    found = np.empty(len(offsets) - 1, np.int64)
    for page in range(len(found)):
        found[page] = offsets[page + 1] - 1
        for row in range(offsets[page + 1] - 1, offsets[page] - 1, -1):
            if clicked[row] > 0.0:
                found[page] = row
                if not first:
                    break
    return found


def counted(log: PageLog, first: bool) -> tuple[Floats, Floats, Ints]:
    """Clicks and examinations by pair, of the rows down to the first or last click; and that row of each page."""
    ends = last_examined(log.offsets, log.clicked, first)
    own = np.arange(len(log.pair)) <= np.repeat(ends, np.diff(log.offsets))
    hits = np.bincount(log.pair[own], log.clicked[own], log.n_pairs).astype(np.float64)
    return hits, np.bincount(log.pair[own], minlength=log.n_pairs).astype(np.float64), ends


def fit_cascade(log: PageLog, prior: Prior) -> Fitted:
    """In closed form: attraction = clicks / examinations, of the rows down to the first click.

    Clicks after the first one do not exist in this model, so they are left out here and cost likelihood later.
    Reference: Craswell, Zoeter, Taylor and Ramsey (2008), An Experimental Comparison of Click Position-Bias Models.
    """
    hits, rows, _ = counted(log, first=True)
    table, none = np.ones((log.n_positions, 1)), np.zeros(log.n_pairs)
    stop = np.ones(log.n_positions)
    return Fitted("cascade", shares(hits, rows, prior), none, table, stop, 1.0, hits, rows, prior)
