"""Probabilistic interleaving and multileaving: every list is possible, and credit is shared by probability."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel
from rankloop.core.learning import check_positive
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.interleaving.base import Mixed


@kernel
def rank_weights(rankings: Ints, decay: float) -> Floats:
    """1 / rank^decay of every item under every ranker."""
    n_rankers, n_items = rankings.shape
    weights = np.empty((n_rankers, n_items))
    for ranker in range(n_rankers):
        for place in range(n_items):
            weights[ranker, rankings[ranker, place]] = (place + 1.0) ** -decay
    return weights


@kernel
def draw_mixed(rankings: Ints, decay: float, draws: Floats) -> Ints:
    """Place by place an item by the mean of the rankers' softmaxes over what is left, by inverse distribution."""
    weights = rank_weights(rankings, decay)
    n_rankers, n_items = rankings.shape
    mixed = np.empty(n_items, np.int64)
    for place in range(n_items):
        chances = _normalised(weights)
        below, chosen = 0.0, -1
        for item in range(n_items):
            if weights[0, item] > 0.0:
                chosen = item
                below += chances[:, item].sum() / n_rankers
                if draws[place] < below:
                    break
        mixed[place] = chosen
        weights[:, chosen] = 0.0
    return mixed


@kernel
def shared_credit(ranking: Ints, rankings: Ints, decay: float, clicked: Floats) -> Floats:
    """Each click divided among the rankers by the probability that they gave its item, given all above it."""
    weights = rank_weights(rankings, decay)
    earned = np.zeros(len(rankings))
    for item in ranking:
        if clicked[item] > 0.0:
            chances = _normalised(weights)[:, item]
            earned += clicked[item] * chances / chances.sum()
        weights[:, item] = 0.0
    return earned


@kernel
def _normalised(weights: Floats) -> Floats:
    """Each row divided by its sum, which is taken anew each time so that no rounding piles up."""
    chances = np.empty_like(weights)
    for ranker in range(len(weights)):
        chances[ranker] = weights[ranker] / weights[ranker].sum()
    return chances


@register("probabilistic")
class Probabilistic:
    """Each place goes to a random ranker, who draws an item with probability ∝ 1 / rank^`decay` among those left.

    A click is shared among the rankers by the probability that they gave the item, so that one list compares them
    all: less noise than counting picks. Draws one double per place. Works for two rankers and many (multileaving).
    References: Hofmann, Whiteson and de Rijke (2011), A Probabilistic Method for Inferring Preferences from Clicks;
    Schuth et al. (2015), Probabilistic Multileave for Online Retrieval Evaluation.
    """

    decay: float = 3.0

    def __post_init__(self) -> None:
        check_positive("decay", self.decay)

    def mix(self, rankings: Ints, rng: Generator) -> Mixed:
        n_items: int = rankings.shape[1]
        mixed = draw_mixed(rankings, self.decay, rng.random(n_items))
        return Mixed(mixed, rankings, np.full(n_items, -1))

    def credit(self, mixed: Mixed, clicks: Clicks) -> Floats:
        clicked = np.zeros(len(mixed.ranking))
        clicked[clicks.items] = clicks.weights
        return shared_credit(mixed.ranking, mixed.rankings, self.decay, clicked)
