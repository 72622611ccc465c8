"""The methods of interleaving: balanced, team draft, probabilistic and optimised."""

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import Positive, check_between
from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.kernels import clicked_weights, kernel, positions_of, ranking_of
from rankloop.core.registry import register
from rankloop.core.types import Bools, Clicks, Floats, Ints
from rankloop.interleaving.base import Mixed

MAX_MIXED_POSITIONS = 12  # the number of lists doubles with each
MIN_PRECISE_SUM = 1e-280  # smaller sums have lost their precision
MIN_LOG_WEIGHT = -1e300  # finite, so that the differences of smaller ones are 0
UNFAIRNESS_COST = 1e3  # The cost of a unit of unfairness, beside a sensitivity of at most log 2.


def _require_two(rankings: Ints, name: str) -> None:
    if len(rankings) != 2:
        raise InvalidInput(f"{name} mixes two rankings, got {len(rankings)}: multileave by team_draft or probabilistic")


@kernel
def _balance(rankings: Ints, a_first: bool) -> Ints:
    """Take the next item from the ranking that has advanced less (Joachims, 2003); the one that starts wins ties."""
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
        _require_two(rankings, "balanced")
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
        teams = mixed.teams[positions_of(mixed.ranking)[clicks.items]]
        picked, earned = teams >= 0, np.zeros(len(mixed.rankings))
        np.add.at(earned, teams[picked], clicks.weights[picked])
        return earned


@kernel
def _rank_weights(ranking: Ints, taken: Bools, decay: float) -> Floats:
    """Return (best rank left / rank)^decay of the items left, 0 of others: the softmax of Hofmann et al. (2011)."""
    weights, best = np.zeros(len(ranking)), 0.0
    for position in range(len(ranking)):
        if not taken[ranking[position]]:
            best = best if best > 0.0 else position + 1.0
            weights[ranking[position]] = ((position + 1.0) / best) ** -decay
    return weights


@kernel
def _draw_mixed(rankings: Ints, decay: float, draws: Floats) -> Ints:
    """Draw position by position from the mean of the rankers' softmaxes over the items left."""
    n_rankers, n_items = rankings.shape
    mixed, taken = np.empty(n_items, np.int64), np.zeros(n_items, np.bool_)
    weights, totals = np.zeros((n_rankers, n_items)), np.zeros(n_rankers)
    for position in range(n_items):
        for ranker in range(n_rankers):
            totals[ranker] = weights[ranker].sum()
            # The weights of the items left become too small to add; then they are taken relative to the best of these.
            if totals[ranker] <= MIN_PRECISE_SUM:
                weights[ranker] = _rank_weights(rankings[ranker], taken, decay)
                totals[ranker] = weights[ranker].sum()
        below, chosen = 0.0, -1
        for item in range(n_items):
            if not taken[item]:
                chosen = item
                below += (weights[:, item] / totals).sum() / n_rankers
                if draws[position] < below:
                    break
        mixed[position] = chosen
        taken[chosen] = True
        weights[:, chosen] = 0.0
    return mixed


@kernel
def _shared_credit(ranking: Ints, rankings: Ints, decay: float, clicked: Floats) -> Floats:
    """Divide each click among the rankers by the probability that they gave its item, given all above it."""
    taken = np.zeros(len(ranking), np.bool_)
    earned, shares = np.zeros(len(rankings)), np.empty(len(rankings))
    for item in ranking:
        if clicked[item] > 0.0:
            for ranker in range(len(rankings)):
                shares[ranker] = _log_probability(rankings[ranker], taken, decay, item)
            shares = np.exp(shares - shares.max())  # of the largest, because the probabilities may underflow
            earned += clicked[item] * shares / shares.sum()
        taken[item] = True
    return earned


@kernel
def _log_probability(ranking: Ints, taken: Bools, decay: float, item: int) -> float:
    """Return the log-probability that a ranker gives an item next: log of its `_rank_weights` over their sum."""
    best, log_weight, total = 0.0, 0.0, 0.0
    for position in range(len(ranking)):
        if not taken[ranking[position]]:
            best = best if best > 0.0 else position + 1.0
            total += ((position + 1.0) / best) ** -decay
            if ranking[position] == item:
                log_weight = -decay * np.log((position + 1.0) / best)
    return float(max(log_weight, MIN_LOG_WEIGHT) - np.log(total))


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
        return Mixed(_draw_mixed(rankings, self.decay, rng.random(n_items)), rankings, np.full(n_items, -1))

    def credit(self, mixed: Mixed, clicks: Clicks) -> Floats:
        clicked = clicked_weights(len(mixed.ranking), clicks.items, clicks.weights)
        return _shared_credit(mixed.ranking, mixed.rankings, self.decay, clicked)


def _allowed_lists(a: Ints, b: Ints, length: int) -> Ints:
    """Return all lists of this length in which each position has the best item left of a or of b."""
    lists: list[list[int]] = [[]]
    for _ in range(length):
        longer = []
        for begun in lists:
            next_items = [int(next(item for item in ranking if item not in begun)) for ranking in (a, b)]
            longer += [[*begun, item] for item in dict.fromkeys(next_items)]
        lists = longer
    return np.array(lists)


def _item_credit(rankings: Ints) -> Floats:
    """Return 1 / rank under the first ranker less 1 / rank under the second."""
    inverse = [1.0 / (positions_of(ranking) + 1.0) for ranking in rankings]
    return np.asarray(inverse[0] - inverse[1], dtype=np.float64)


def _list_probabilities(credits: Floats) -> Floats:
    """Return the most sensitive distribution under which random clicks prefer no ranker."""
    # That is Σ_l P(l) · Σ_(p < k) credit(l, p) = 0 for every k. If no distribution achieves it, the least unfair one.
    # The sensitivity is the entropy of a list's winner under a click at position p with probability ∝ 1 / (p + 1).
    n_lists, length = credits.shape
    by_position = 1.0 / (np.arange(length) + 1.0)
    by_position /= by_position.sum()
    for_a, for_b = (credits > 0) @ by_position, (credits < 0) @ by_position
    decided = np.maximum(for_a + for_b, np.finfo(float).tiny)
    shares = np.stack([for_a / decided, for_b / decided])
    sensitivity = decided * -np.sum(shares * np.log(np.where(shares > 0, shares, 1.0)), axis=0)
    fairness = np.cumsum(credits, axis=1).T
    slack = np.hstack([np.eye(length), -np.eye(length)])
    solved = import_extra("scipy.optimize").linprog(
        np.concatenate([-sensitivity, np.full(2 * length, UNFAIRNESS_COST)]),
        A_eq=np.vstack([np.hstack([fairness, slack]), np.concatenate([np.ones(n_lists), np.zeros(2 * length)])]),
        b_eq=np.concatenate([np.zeros(length), [1.0]]),
        bounds=(0, None),
        method="highs",
    )
    probabilities = np.maximum(solved.x[:n_lists], 0.0)
    return np.asarray(probabilities / probabilities.sum(), dtype=np.float64)


@register("optimised")
class Optimised:
    """Draw among the lists that both rankers could produce, by probabilities from a linear programme.

    In such a list each position has the best item left of either ranker. A click on item d earns the first ranker 1 /
    rank_a(d) − 1 / rank_b(d), if positive, and the second the opposite. The probabilities are such that random clicks
    prefer no ranker, and the winner is as open as possible otherwise. Draws one double. It takes milliseconds per list.

    Args:
      length: The number of positions that are mixed; there are at most 2^length lists.

    References:
      Radlinski and Craswell (2013), Optimized Interleaving for Online Retrieval Evaluation.
    """

    length: int = 8

    def __post_init__(self) -> None:
        check_between(1, MAX_MIXED_POSITIONS, length=self.length)

    def mix(self, rankings: Ints, rng: Generator) -> Mixed:
        _require_two(rankings, "optimised")
        lists = _allowed_lists(rankings[0], rankings[1], min(self.length, rankings.shape[1]))
        probabilities = _list_probabilities(_item_credit(rankings)[lists])
        which = int(np.searchsorted(np.cumsum(probabilities), rng.random(), side="right"))
        mixed_list = lists[min(which, len(lists) - 1)]
        others = rankings[0][~np.isin(rankings[0], mixed_list)]
        return Mixed(np.concatenate([mixed_list, others]), rankings, np.full(rankings.shape[1], -1))

    def credit(self, mixed: Mixed, clicks: Clicks) -> Floats:
        earned = clicks.weights * _item_credit(mixed.rankings)[clicks.items]
        return np.array([np.maximum(earned, 0.0).sum(), np.maximum(-earned, 0.0).sum()])
