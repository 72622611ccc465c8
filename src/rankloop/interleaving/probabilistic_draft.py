"""Probabilistic interleaving and multileaving: every list is possible, and credit is shared by probability."""

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import Positive
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Bools, Clicks, Floats, Ints
from rankloop.interleaving.base import Mixed

MIN_PRECISE_SUM = 1e-280  # Smaller sums have lost their precision.


@kernel
def _rank_weights(rankings: Ints, decay: float) -> Floats:
    """Return 1 / rank^decay of every item under every ranker."""
    n_rankers, n_items = rankings.shape
    weights = np.empty((n_rankers, n_items))
    for ranker in range(n_rankers):
        for position in range(n_items):
            weights[ranker, rankings[ranker, position]] = (position + 1.0) ** -decay
    return weights


@kernel
def _draw_mixed(rankings: Ints, decay: float, draws: Floats) -> Ints:
    """Draw position by position from the mean of the rankers' softmaxes over the items left."""
    weights = _rank_weights(rankings, decay)
    n_rankers, n_items = rankings.shape
    mixed, taken = np.empty(n_items, np.int64), np.zeros(n_items, np.bool_)
    for position in range(n_items):
        probabilities = _probabilities(weights, rankings, taken, decay)
        below, chosen = 0.0, -1
        for item in range(n_items):
            if not taken[item]:
                chosen = item
                below += probabilities[:, item].sum() / n_rankers
                if draws[position] < below:
                    break
        mixed[position] = chosen
        taken[chosen] = True
        weights[:, chosen] = 0.0
    return mixed


@kernel
def _shared_credit(ranking: Ints, rankings: Ints, decay: float, clicked: Floats) -> Floats:
    """Divide each click among the rankers by the probability that they gave its item, given all above it."""
    weights, taken = _rank_weights(rankings, decay), np.zeros(len(ranking), np.bool_)
    earned = np.zeros(len(rankings))
    for item in ranking:
        if clicked[item] > 0.0:
            probabilities = _probabilities(weights, rankings, taken, decay)[:, item].copy()
            if probabilities.sum() < MIN_PRECISE_SUM:  # as shares of the largest, where they underflow
                for ranker in range(len(rankings)):
                    probabilities[ranker] = _log_probability(rankings[ranker], taken, decay, item)
                largest = probabilities.max()
                probabilities = np.exp(probabilities - largest) if largest > -np.inf else np.ones(len(rankings))
            earned += clicked[item] * probabilities / probabilities.sum()
        taken[item] = True
        weights[:, item] = 0.0
    return earned


@kernel
def _probabilities(weights: Floats, rankings: Ints, taken: Bools, decay: float) -> Floats:
    """Return each row divided by its sum, which is computed anew so that rounding does not accumulate."""
    probabilities = np.empty_like(weights)
    for ranker in range(len(weights)):
        total = weights[ranker].sum()
        if total > MIN_PRECISE_SUM:
            probabilities[ranker] = weights[ranker] / total
        else:
            probabilities[ranker] = 0.0
            for item in range(len(taken)):
                if not taken[item]:
                    probabilities[ranker, item] = np.exp(_log_probability(rankings[ranker], taken, decay, item))
    return probabilities


@kernel
def _log_probability(ranking: Ints, taken: Bools, decay: float, item: int) -> float:
    """Return the log-probability with ranks relative to the best one left, for weights that underflow."""
    best, rank, total = 0, 0.0, 0.0
    for position in range(len(ranking)):
        if not taken[ranking[position]]:
            best = best if total > 0.0 else position + 1
            total += ((position + 1) / best) ** -decay
            if ranking[position] == item:
                rank = (position + 1) / best
    return float(-decay * np.log(rank) - np.log(total))


@register("probabilistic")
class Probabilistic:
    """Give each position to a random ranker, who draws an item with probability ∝ 1 / rank^`decay` among those left.

    A click is shared among the rankers by the probability that they gave the item, which has less noise than counting
    picks. Draws one double per position. Works for two rankers and for many (multileaving).

    Args:
      decay: The exponent of the rank.

    References:
      Hofmann, Whiteson and de Rijke (2011), A Probabilistic Method for Inferring Preferences from Clicks. Schuth et al.
      (2015), Probabilistic Multileave for Online Retrieval Evaluation.
    """

    decay: Positive = 3.0

    def mix(self, rankings: Ints, rng: Generator) -> Mixed:
        n_items: int = rankings.shape[1]
        mixed = _draw_mixed(rankings, self.decay, rng.random(n_items))
        return Mixed(mixed, rankings, np.full(n_items, -1))

    def credit(self, mixed: Mixed, clicks: Clicks) -> Floats:
        clicked = np.zeros(len(mixed.ranking))
        clicked[clicks.items] = clicks.weights
        return _shared_credit(mixed.ranking, mixed.rankings, self.decay, clicked)
