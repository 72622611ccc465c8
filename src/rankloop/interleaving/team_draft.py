"""Team-draft interleaving and multileaving: the rankers pick items in turn."""

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel, positions_of, ranking_of
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.interleaving.base import Mixed


@kernel
def _draft(rankings: Ints, draws: Floats) -> tuple[Ints, Ints]:
    """Return the mixed list and the ranker of each position; row r of the draws orders the picks of round r."""
    n_rankers, n_items = rankings.shape
    mixed, teams = np.empty(n_items, np.int64), np.empty(n_items, np.int64)
    taken, following = np.zeros(n_items, np.bool_), np.zeros(n_rankers, np.int64)
    filled = 0
    for turn in range(len(draws)):
        for ranker in ranking_of(draws[turn]):
            if filled == n_items:
                break
            while taken[rankings[ranker, following[ranker]]]:
                following[ranker] += 1
            item = rankings[ranker, following[ranker]]
            taken[item] = True
            mixed[filled], teams[filled] = item, ranker
            filled += 1
    return mixed, teams


@kernel
def _draft_credit(ranking: Ints, teams: Ints, n_rankers: int, items: Ints, weights: Floats) -> Floats:
    """Return the clicks on each ranker's picks."""
    positions, earned = positions_of(ranking), np.zeros(n_rankers)
    for i in range(len(items)):
        team = teams[positions[items[i]]]
        if team >= 0:
            earned[team] += weights[i]
    return earned


@register("team_draft")
class TeamDraft:
    """In each round the rankers, in random order, pick their best item that is left; a click counts for its picker.

    Draws ⌈n_items / n_rankers⌉ · n_rankers doubles. Works for two rankers and for many (multileaving).

    References:
      Radlinski, Kurup and Joachims (2008), How Does Clickthrough Data Reflect Retrieval Quality? Schuth, Sietsma,
      Whiteson, Lefortier and de Rijke (2014), Multileaved Comparisons for Fast Online Evaluation.
    """

    def mix(self, rankings: Ints, rng: Generator) -> Mixed:
        n_rankers, n_items = rankings.shape
        mixed, teams = _draft(rankings, rng.random((-(-n_items // n_rankers), n_rankers)))
        return Mixed(mixed, rankings, teams)

    def credit(self, mixed: Mixed, clicks: Clicks) -> Floats:
        return _draft_credit(mixed.ranking, mixed.teams, len(mixed.rankings), clicks.items, clicks.weights)
