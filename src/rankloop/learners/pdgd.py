"""PDGD: draws rankings from its own uncertainty and learns from the pairs that clicks reveal, without bias."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import (
    due_item,
    kernel,
    positions_of,
    ranking_of,
    scores_of,
    seen_count,
    weighted_rows,
)
from rankloop.core.learner import SparseLearner, check_receipt, clicks_by_item, require_finite, shown_or_all
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Decision, Features, Feedback, Floats, Ints, Limit, Problem, Query

FAR_BELOW = -600.0  # scores further below the best count as this far, so that no probability becomes 0


@kernel
def strengths_of(scores: Floats) -> Floats:
    """exp(score − best score) of each item."""
    strengths = np.empty(len(scores))
    best = scores.max()
    for i in range(len(scores)):
        difference = scores[i] - best
        strengths[i] = np.exp(difference) if difference > FAR_BELOW else np.exp(FAR_BELOW)
    return strengths


@kernel
def draw(strengths: Floats, best: Ints, positions: int, keep_first: bool, draws: Floats) -> Ints:
    """A ranking, one double per position; no item is more than `positions` from where `best` has it (−1: no limit)."""
    n_items = len(best)
    positions = min(positions, n_items)  # more are no limit either, and would overflow
    at, taken, ranking = positions_of(best), np.zeros(n_items, np.int64), np.empty(n_items, np.int64)
    for position in range(n_items):
        highest = n_items if positions < 0 else position + positions
        chosen = due_item(best, position, positions, keep_first, taken)
        if chosen < 0:
            left = draws[position] * _total(strengths, at, taken, highest)
            for item in range(n_items):
                if taken[item] == 0 and at[item] <= highest:
                    chosen = item
                    left -= strengths[item]
                    if left < 0.0:
                        break
        ranking[position] = chosen
        taken[chosen] = 1
    return ranking


@kernel
def log_prob_of(strengths: Floats, best: Ints, ranking: Ints, seen: int, positions: int, keep_first: bool) -> float:
    """The log-probability with which `draw` gives the first `seen` positions of `ranking`."""
    positions = min(positions, len(best))
    at, taken, total = positions_of(best), np.zeros(len(best), np.int64), 0.0
    for position in range(seen):
        item, highest = ranking[position], len(best) if positions < 0 else position + positions
        due = due_item(best, position, positions, keep_first, taken)
        if at[item] > highest or (due >= 0 and due != item):
            return -np.inf
        if due < 0:
            total += np.log(strengths[item] / _total(strengths, at, taken, highest))
        taken[item] = 1
    return total


@kernel
def _total(strengths: Floats, at: Ints, taken: Ints, highest: int) -> float:
    """The strength of all items that may be drawn now."""
    total = 0.0
    for item in range(len(strengths)):
        if taken[item] == 0 and at[item] <= highest:
            total += strengths[item]
    return total


@kernel
def swap_odds(strengths: Floats, ranking: Ints, upper: int, lower: int) -> float:
    """P(ranking with these two positions swapped) / P(ranking), without limit: only those between them differ."""
    of_upper, odds, others = strengths[ranking[upper]], 1.0, 0.0
    of_lower = strengths[ranking[lower]]
    for position in range(lower + 1, len(ranking)):
        others += strengths[ranking[position]]
    for position in range(lower, upper, -1):
        if position < lower:
            others += strengths[ranking[position]]
        odds *= (others + of_lower) / (others + of_upper)
    return odds


@kernel
def limited_swap_odds(
    strengths: Floats, best: Ints, ranking: Ints, upper: int, lower: int, seen: int, positions: int, keep_first: bool
) -> float:
    """The same when items may not move freely: by the two probabilities themselves."""
    swapped = ranking.copy()
    swapped[upper], swapped[lower] = ranking[lower], ranking[upper]
    as_shown = log_prob_of(strengths, best, ranking, seen, positions, keep_first)
    other: float = np.exp(log_prob_of(strengths, best, swapped, seen, positions, keep_first) - as_shown)
    return other


FREE = Limit()


class State(NamedTuple):
    """The weights, how many positions are seen, and the number of rounds learned."""

    weights: Floats
    shown: int
    rounds: int


class Receipt(NamedTuple):
    """The scores of the decision, and how far items were allowed to move."""

    scores: Floats
    places: int
    keep_first: bool


@kernel
def _present(
    features: Features, weights: Floats, shown: int, positions: int, keep_first: bool, draws: Floats
) -> tuple[Ints, float, Floats]:
    scores = scores_of(features, weights)
    best, strengths = ranking_of(scores), strengths_of(scores)
    ranking = draw(strengths, best, positions, keep_first, draws)
    seen = seen_count(shown, len(best))
    return ranking, log_prob_of(strengths, best, ranking, seen, positions, keep_first), scores


@kernel
def _log_prob(
    features: Features, weights: Floats, ranking: Ints, shown: int, positions: int, keep_first: bool
) -> float:
    scores = scores_of(features, weights)
    seen = seen_count(shown, len(scores))
    return log_prob_of(strengths_of(scores), ranking_of(scores), ranking, seen, positions, keep_first)


@kernel
def pair_weights(
    scores: Floats, ranking: Ints, shown: int, positions: int, keep_first: bool, clicked: Floats
) -> Floats:
    """The gradient by scores: clicked items against unclicked ones down to the position after the last click."""
    strengths, best = strengths_of(scores), ranking_of(scores)
    row_weights, seen, last = np.zeros(len(ranking)), seen_count(shown, len(ranking)), -1
    for position in range(seen):
        if clicked[ranking[position]] > 0.0:
            last = position
    for j in range(min(last + 2, seen)):
        loser = ranking[j]
        if last < 0 or clicked[loser] > 0.0:
            continue
        for i in range(last + 1):
            winner = ranking[i]
            if clicked[winner] > 0.0:
                if positions < 0 and not keep_first:
                    odds = swap_odds(strengths, ranking, min(i, j), max(i, j))
                else:
                    odds = limited_swap_odds(
                        strengths, best, ranking, min(i, j), max(i, j), seen, positions, keep_first
                    )
                won = strengths[winner] / (strengths[winner] + strengths[loser])
                step = clicked[winner] * (1.0 - 1.0 / (1.0 + odds)) * won * (1.0 - won)
                row_weights[winner] += step
                row_weights[loser] -= step
    return row_weights


@register("pdgd")
class Pdgd(SparseLearner):
    """Pairwise differentiable gradient descent: random rankings, and the pairs that clicks reveal without bias.

    It draws the ranking R position by position with probability ∝ exp(w · φ(x, d)) (Plackett–Luce), and learns by
    w ← w + η_t Σ ρ(k, l) · σ(k, l) · (φ(x, d_k) − φ(x, d_l)) over clicked items k and unclicked l that were seen (above
    the last click, and the next one below it), σ = P(k before l) · P(l before k), and ρ = P(R′) / (P(R) + P(R′)), R′
    being R with k and l swapped, which removes the bias of the positions. η_t = `learning_rate` · `decay`^t.

    Use it when exploration may move any item; within limits put `explore_at_most` around it, or take `3pr`.
    Reference: Oosterhuis and de Rijke (2018), Differentiable Unbiased Online Learning to Rank.
    """

    learning_rate: float = 0.1
    decay: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.decay <= 1:
            raise InvalidInput(f"decay = {self.decay} must be above 0 and at most 1")

    def init(self, problem: Problem) -> State:
        return State(self.first_weights(problem), shown_or_all(problem), 0)

    def rank(self, state: State, query: Query, rng: Generator, limit: Limit = FREE) -> Decision[Receipt]:
        draws = rng.random(query.n_items)
        ranking, log_propensity, scores = _present(
            query.features, state.weights, state.shown, limit.positions, limit.keep_first, draws
        )
        return Decision(ranking, log_propensity, Receipt(scores, limit.positions, limit.keep_first))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        scores, places, keep_first = decision.receipt
        check_receipt(scores.shape == (len(decision.ranking),))
        rate = self.learning_rate * self.decay**state.rounds
        clicked = clicks_by_item(feedback, query.n_items)
        row_weights = pair_weights(scores, decision.ranking, state.shown, places, keep_first, clicked)
        weights = state.weights + rate * weighted_rows(query.features, row_weights)
        return State(require_finite(weights), state.shown, state.rounds + 1)

    def log_prob(self, state: State, query: Query, ranking: Ints, limit: Limit = FREE) -> float:
        return _log_prob(query.features, state.weights, ranking, state.shown, limit.positions, limit.keep_first)
