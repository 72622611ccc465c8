"""PairRank: sort the items whose order is certain, and shuffle the blocks of items whose order is not."""

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import FiniteNumbers, NotNegative
from rankloop.core.kernels import due_item, kernel, positions_of, ranking_of, scores_of, seen_count
from rankloop.core.learner import LinearLearner, check_receipt, clicks_by_item, require_finite, seen_part, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Limit, Problem, Query
from rankloop.learners._shared.precision import Ridge, dot, sherman_morrison, surprise_of, times

NO_LIMIT = Limit()


class Receipt(NamedTuple):
    """A random number for each position, by which clicked and unclicked items are paired."""

    priorities: Floats


class State(NamedTuple):
    """The weights, and two inverse matrices."""

    weights: Floats  # One weight for each feature.
    covariance: Floats  # (ridge · I + Σ q (1 − q) x xᵀ)⁻¹, which scales the steps of the weights.
    gram_inverse: Floats  # M⁻¹, which decides what is certain.
    shown: int  # The number of positions that are seen, −1 for all.
    rounds: int  # The number of rounds learned.


@kernel
def _block_ends(features: Floats, scores: Floats, best: Ints, gram_inverse: Floats, alpha: float) -> Ints:
    """Return the end of each position's block (Jia et al., 2021): `best` is cut where all pairs across are certain."""
    # A pair is certain if σ(w · x) − alpha · √(xᵀ M⁻¹ x) > ½ for x = upper − lower.
    # aᵀ M⁻¹ b of all rows less the first: the spreads of all pairs then need one product for each item.
    n_items, rows = len(best), features - features[0]
    products = np.empty((n_items, n_items))
    for i in range(n_items):
        products[i] = scores_of(rows, times(gram_inverse, rows[i]))
    ends, start, farthest = np.empty(n_items, np.int64), 0, 0
    for position in range(n_items):
        upper = best[position]
        for other in range(n_items - 1, farthest, -1):
            lower = best[other]
            spread = products[upper, upper] + products[lower, lower] - products[upper, lower] - products[lower, upper]
            won = 1.0 / (1.0 + np.exp(scores[lower] - scores[upper]))
            if not won - alpha * np.sqrt(max(spread, 0.0)) > 0.5:
                farthest = other
                break
        if farthest <= position:
            ends[start : position + 1] = position + 1
            start = position + 1
            farthest = position + 1
    return ends


@kernel
def _n_open(ends: Ints, best: Ints, position: int, positions: int, taken: Ints) -> int:
    """Return the number of items that may be drawn now: those left of the block, as far as they may rise."""
    end = ends[position] if positions < 0 else min(ends[position], position + positions + 1)
    n_left = 0
    for k in range(end):
        n_left += 1 - taken[best[k]]
    return n_left


@kernel
def _draw(ends: Ints, best: Ints, positions: int, keep_first: bool, draws: Floats) -> Ints:
    """Return a ranking that is shuffled within its blocks, by one uniform number for each position."""
    n_items = len(best)
    positions = min(positions, n_items)
    taken, ranking = np.zeros(n_items, np.int64), np.empty(n_items, np.int64)
    for position in range(n_items):
        # An item that may not move further down is due; otherwise an open item of the block is drawn uniformly.
        chosen = due_item(best, position, positions, keep_first, taken)
        if chosen < 0:
            n_left = _n_open(ends, best, position, positions, taken)
            skipped, k = min(int(draws[position] * n_left), n_left - 1), 0
            while taken[best[k]] == 1 or skipped > 0:
                skipped -= 1 - taken[best[k]]
                k += 1
            chosen = best[k]
        ranking[position] = chosen
        taken[chosen] = 1
    return ranking


@kernel
def _log_prob_of(ends: Ints, best: Ints, ranking: Ints, n_seen: int, positions: int, keep_first: bool) -> float:
    """Return the log-probability with which `draw` gives the first `n_seen` positions of `ranking`."""
    n_items = len(best)
    positions = min(positions, n_items)
    at, taken, total = positions_of(best), np.zeros(n_items, np.int64), 0.0
    for position in range(n_seen):
        item, due = ranking[position], due_item(best, position, positions, keep_first, taken)
        too_low = at[item] >= ends[position] or (positions >= 0 and at[item] > position + positions)
        if too_low or (due >= 0 and due != item):
            return -np.inf
        if due < 0:
            total -= np.log(_n_open(ends, best, position, positions, taken))
        taken[item] = 1
    return total


@kernel
def _blocks(features: Floats, weights: Floats, gram_inverse: Floats, alpha: float) -> tuple[Ints, Ints]:
    """Return the best ranking, and the end of the block of each position."""
    scores = scores_of(features, weights)
    best = ranking_of(scores)
    return best, _block_ends(features, scores, best, gram_inverse, alpha)


@kernel
def _pairs_of(ranking: Ints, clicked: Floats, priorities: Floats, disjoint: bool) -> Ints:
    """Return rows of a clicked and an unclicked item, among those down to the item after the last click."""
    n_seen, last = len(ranking), -2
    winners, losers = np.empty(n_seen, np.int64), np.empty(n_seen, np.int64)
    for position in range(n_seen):
        if clicked[ranking[position]] > 0.0:
            last = position
    n_winners, n_losers = 0, 0
    for item in ranking[ranking_of(priorities[: min(last + 2, n_seen)])]:
        if clicked[item] > 0.0:
            winners[n_winners] = item
            n_winners += 1
        else:
            losers[n_losers] = item
            n_losers += 1
    pairs, n_pairs = np.empty((n_winners * n_losers, 2), np.int64), 0
    for i in range(n_winners):
        for j in range(n_losers):
            if i == j or not disjoint:
                pairs[n_pairs, 0], pairs[n_pairs, 1] = winners[i], losers[j]
                n_pairs += 1
    return pairs[:n_pairs]


@kernel
def _updated(
    features: Floats, state: State, seen_items: Ints, clicked: Floats, priorities: Floats, disjoint: bool
) -> tuple[Floats, Floats, Floats]:
    """Return weights, covariance and gram_inverse after a Newton step for each pair, one after another."""
    weights, covariance, gram_inverse = state.weights.copy(), state.covariance.copy(), state.gram_inverse.copy()
    for pair in _pairs_of(seen_items, clicked, priorities, disjoint):
        weight, x = clicked[pair[0]], features[pair[0]] - features[pair[1]]
        surprise, product, of_gram = surprise_of(weights, x), times(covariance, x), times(gram_inverse, x)
        information = weight * surprise * (1.0 - surprise)
        gain = information * max(dot(x, product), 0.0)
        weights += weight * surprise / (1.0 + gain) * product
        sherman_morrison(covariance, product, information, gain)
        sherman_morrison(gram_inverse, of_gram, weight, weight * max(dot(x, of_gram), 0.0))
    return weights, covariance, gram_inverse


@register("pairrank")
class PairRank(LinearLearner):
    """Sort by w · x and shuffle within blocks of items, where each block is certain to be above the next.

    With x the difference of two items' features, their order is certain when

      σ(w · x) − `alpha` · √(xᵀ M⁻¹ x) > ½,  M = `ridge` · I + Σ x xᵀ over all pairs so far.

    The sorted list is cut where all pairs across are certain; within a block every order is equally likely. Clicked
    items are paired at random with unclicked ones, down to the item after the last click. w follows a logistic
    regression of these pairs with the penalty `ridge` / 2 · ‖w‖², by one Newton step for each pair; the paper fits all
    pairs again after each round, so its state grows.

    Only the shuffling corrects for the bias of positions. Ranking costs n_items · n_features · (n_items + n_features).

    Args:
      ridge: The penalty of the regression, and the start of M.
      alpha: The width of the confidence interval.
      pairs: "disjoint" puts each item into one pair at most, so that the pairs are independent; "all" pairs each
        clicked item with each unclicked one.
      start: The first weights; zeros if empty.

    References:
      Jia, Wang, Guo and Wang (2021), PairRank: Online Pairwise Learning to Rank by Divide-and-Conquer, Algorithm 1.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("pairrank", "linear_gaussian(n_items=6, n_features=3)", "dcm", "nDCG@5"), 3)
      0.913
    """

    ridge: Ridge = 1.0
    alpha: NotNegative = 0.1
    pairs: Literal["disjoint", "all"] = "disjoint"
    start: FiniteNumbers = ()

    weighs_clicks: ClassVar[bool] = True  # a click of weight v counts v times, so outcomes can be learned
    examples: ClassVar[Examples] = ({}, {"alpha": 0.0}, {"ridge": 5.0, "alpha": 0.02, "pairs": "all"})

    def init(self, problem: Problem) -> State:
        weights, unit = self.first_weights(problem), np.eye(problem.n_features)
        return State(weights, unit / self.ridge, unit / self.ridge, shown_or_all(problem), 0)

    def rank(self, state: State, query: Query, rng: Generator, limit: Limit = NO_LIMIT) -> Decision[Receipt]:
        n_items, draws = query.n_items, rng.random(2 * len(query.features))
        best, ends = _blocks(query.features, state.weights, state.gram_inverse, self.alpha)
        ranking = _draw(ends, best, limit.positions, limit.keep_first, draws[:n_items])
        n_seen = seen_count(state.shown, n_items)
        log_propensity = _log_prob_of(ends, best, ranking, n_seen, limit.positions, limit.keep_first)
        return Decision(ranking, log_propensity, Receipt(draws[n_items:]))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        priorities = decision.receipt.priorities
        check_receipt(priorities.shape == decision.ranking.shape)
        clicked, seen_items = clicks_by_item(feedback, query.n_items), seen_part(decision.ranking, state.shown)
        arrays = _updated(query.features, state, seen_items, clicked, priorities, self.pairs == "disjoint")
        weights, covariance, gram_inverse = map(require_finite, arrays)
        return State(weights, covariance, gram_inverse, state.shown, state.rounds + 1)

    def log_prob(self, state: State, query: Query, ranking: Ints, limit: Limit = NO_LIMIT) -> float:
        best, ends = _blocks(query.features, state.weights, state.gram_inverse, self.alpha)
        return _log_prob_of(ends, best, ranking, seen_count(state.shown, len(best)), limit.positions, limit.keep_first)
