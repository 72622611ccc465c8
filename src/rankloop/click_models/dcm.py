"""The dependent click model: after a click at a position, people go on with a probability of that position."""

import numpy as np

from rankloop.click_models.base import SMALLEST, Fitted, Prior, shares
from rankloop.click_models.cascade import counted
from rankloop.click_models.page_log import PageLog


def fit_dcm(log: PageLog, prior: Prior) -> Fitted:
    """In closed form, as published: rows down to the last click are examined (all, where there is none).

    attraction = clicks / examinations; stop[p] = pages whose last click is at p / pages with a click at p. Who went on
    and found nothing more counts as stopped too, so low positions have too high numbers.
    Reference: Guo, Liu and Wang (2009), Efficient Multiple-Click Models in Web Search.
    """
    hits, rows, ends = counted(log, first=False)
    clicks = np.bincount(log.position, log.clicked, log.n_positions)
    last = ends[log.clicked[ends] > 0.0]
    finals = np.bincount(log.position[last], minlength=log.n_positions)
    stop = np.clip((finals + 0.5) / (clicks + 1.0), SMALLEST, 1.0 - SMALLEST)
    table, none = np.ones((log.n_positions, 1)), np.zeros(log.n_pairs)
    return Fitted("dcm", shares(hits, rows, prior), none, table, stop, 1.0, hits, rows, prior)
