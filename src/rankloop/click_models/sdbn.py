"""The simplified dynamic Bayesian network: people go on until something that they clicked satisfies them."""

import numpy as np

from rankloop.click_models.base import Fitted, Prior, estimated_prior, shares
from rankloop.click_models.cascade import counted
from rankloop.click_models.page_log import PageLog


def fit_sdbn(log: PageLog, prior: Prior) -> Fitted:
    """In closed form, as published: rows down to the last click are examined (all, where there is none).

    attraction = clicks / examinations; satisfaction = times that it was the last click / clicks. Who went on and found
    nothing more counts as satisfied too, so it is too high where pages are short; `dbn` has no such bias.
    Reference: Chapelle and Zhang (2009), A Dynamic Bayesian Network Click Model for Web Search Ranking, section 5.
    """
    hits, rows, ends = counted(log, first=False)
    last = ends[log.clicked[ends] > 0.0]
    finals = np.bincount(log.pair[last], minlength=log.n_pairs).astype(np.float64)
    belief = estimated_prior(finals, hits)
    table, stop = np.ones((log.n_positions, 1)), np.zeros(log.n_positions)
    satisfaction = shares(finals, hits, belief)
    return Fitted("sdbn", shares(hits, rows, prior), satisfaction, table, stop, 1.0, hits, rows, prior, (), belief)
