"""Balanced interleaving: both rankings advance side by side."""

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel, positions_of
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.interleaving.base import Mixed, require_two


@kernel
def _balance(rankings: Ints, a_first: bool) -> Ints:
    """Take the next item from the ranking that has advanced less; the one that starts wins ties."""
    n_items = rankings.shape[1]
    mixed, taken = np.empty(n_items, np.int64), np.zeros(n_items, np.bool_)
    next_a = next_b = filled = 0
    while filled < n_items:
        if next_a < next_b or (next_a == next_b and a_first):
            item = rankings[0, next_a]
            next_a += 1
        else:
            item = rankings[1, next_b]
            next_b += 1
        if not taken[item]:
            taken[item] = True
            mixed[filled] = item
            filled += 1
    return mixed


@register("balanced")
class Balanced:
    """Take in turn the next item of either ranking, beginning with a random one. Draws one double.

    With the lowest click on item d, k = min(rank of d in a, rank of d in b), and a ranker earns one for each clicked
    item among its first k. This is the method of the first studies. If the rankings are shifts of each other it can
    prefer one without reason, so use `team_draft` unless you repeat such a study.

    References:
      Joachims (2003), Evaluating Retrieval Performance Using Clickthrough Data. Chapelle, Joachims, Radlinski and Yue
      (2012), Large-Scale Validation and Analysis of Interleaved Search Evaluation.
    """

    def mix(self, rankings: Ints, rng: Generator) -> Mixed:
        require_two(rankings, "balanced")
        mixed = _balance(rankings, rng.random() < 0.5)
        return Mixed(mixed, rankings, np.full(len(mixed), -1))

    def credit(self, mixed: Mixed, clicks: Clicks) -> Floats:
        clicked = clicks.items[clicks.weights > 0]
        if len(clicked) == 0:
            return np.zeros(2)
        position_in_mixed = positions_of(mixed.ranking)
        lowest = clicked[np.argmax(position_in_mixed[clicked])]
        positions = np.stack([positions_of(ranking) for ranking in mixed.rankings])
        cut = positions[:, lowest].min()
        return np.asarray((positions[:, clicked] <= cut).sum(axis=1), dtype=np.float64)
