"""The position-based model: whether a position is examined depends on the position alone."""

from rankloop.click_models.base import MAX_ROUNDS, TOLERANCE, Fitted, Prior
from rankloop.click_models.page_log import PageLog
from rankloop.click_models.ubm import fit_browsing


def fit_pbm(log: PageLog, prior: Prior, max_rounds: int = MAX_ROUNDS, tolerance: float = TOLERANCE) -> Fitted:
    """Expectation maximisation of P(click) = examination[position] · attraction[pair]; the first is 1 for position 0.

    Needs pairs that stand at several positions: otherwise the two factors cannot be told apart.
    References: Richardson, Dominowska and Ragno (2007), Predicting Clicks; Craswell et al. (2008).
    """
    return fit_browsing("pbm", log, prior, 1, max_rounds, tolerance)
