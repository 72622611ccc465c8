"""PDGD: draw rankings by their scores, and learn without bias from the pairs that clicks reveal."""

from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import FiniteNumbers, Positive, check_between
from rankloop.core.kernels import due_item, kernel, positions_of, ranking_of, scores_of, seen_count, weighted_rows
from rankloop.core.learner import SparseLearner, check_receipt, clicks_by_item, require_finite, shown_or_all
from rankloop.core.registry import register
from rankloop.core.types import Decision, Features, Feedback, Floats, Ints, Limit, Problem, Query

FAR_BELOW = -600.0  # scores further below the best count as this far, so that no probability becomes 0


@kernel
def _strengths_of(scores: Floats) -> Floats:
    """Return exp(score − best score) of each item."""
    strengths = np.empty(len(scores))
    best = scores.max()
    for i in range(len(scores)):
        difference = scores[i] - best
        strengths[i] = np.exp(difference) if difference > FAR_BELOW else np.exp(FAR_BELOW)
    return strengths


@kernel
def _draw(strengths: Floats, best: Ints, positions: int, keep_first: bool, draws: Floats) -> Ints:
    """Return a ranking drawn position by position, with one uniform number for each."""
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
def _log_prob_of(strengths: Floats, best: Ints, ranking: Ints, n_seen: int, positions: int, keep_first: bool) -> float:
    """Return the log-probability with which `draw` gives the first `n_seen` positions of `ranking`."""
    positions = min(positions, len(best))
    at, taken, total = positions_of(best), np.zeros(len(best), np.int64), 0.0
    for position in range(n_seen):
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
    """Return the strength of all items that may be drawn now."""
    total = 0.0
    for item in range(len(strengths)):
        if taken[item] == 0 and at[item] <= highest:
            total += strengths[item]
    return total


@kernel
def _swap_odds(strengths: Floats, ranking: Ints, upper: int, lower: int) -> float:
    """Return P(R′) / P(R), with R′ the ranking R with two positions swapped; only the factors between them differ."""
    of_upper, odds, others = strengths[ranking[upper]], 1.0, 0.0
    of_lower = strengths[ranking[lower]]
    for position in range(lower + 1, len(ranking)):
        others += strengths[ranking[position]]
    for position in range(lower, upper, -1):
        if position < lower:
            others += strengths[ranking[position]]
        odds *= (others + of_lower) / (others + of_upper)
    return odds


NO_LIMIT = Limit()


class State(NamedTuple):
    """The weights."""

    weights: Floats  # One weight for each feature.
    shown: int  # The number of positions that are seen, −1 for all.
    rounds: int  # The number of rounds learned.


class Receipt(NamedTuple):
    """The scores of the decision, and how far items were allowed to move."""

    scores: Floats
    places: int
    keep_first: bool


@kernel
def _present(
    features: Features, weights: Floats, shown: int, positions: int, keep_first: bool, draws: Floats
) -> tuple[Ints, float, Floats]:
    """Return a drawn ranking, its log-probability and the scores."""
    scores = scores_of(features, weights)
    best, strengths = ranking_of(scores), _strengths_of(scores)
    ranking = _draw(strengths, best, positions, keep_first, draws)
    n_seen = seen_count(shown, len(best))
    return ranking, _log_prob_of(strengths, best, ranking, n_seen, positions, keep_first), scores


@kernel
def _pair_weights(scores: Floats, ranking: Ints, shown: int, limit: int, keep_first: bool, clicked: Floats) -> Floats:
    """Return the gradient by item, of Algorithm 1 of Oosterhuis and de Rijke (2018)."""
    # Clicked items are compared with unclicked ones down to the position after the last click.
    strengths, best = _strengths_of(scores), ranking_of(scores)
    row_weights, n_seen, last = np.zeros(len(ranking)), seen_count(shown, len(ranking)), -1
    for position in range(n_seen):
        if clicked[ranking[position]] > 0.0:
            last = position
    for j in range(min(last + 2, n_seen)):
        loser = ranking[j]
        if last < 0 or clicked[loser] > 0.0:
            continue
        for i in range(last + 1):
            winner = ranking[i]
            if clicked[winner] > 0.0:
                if limit < 0 and not keep_first:
                    odds = _swap_odds(strengths, ranking, min(i, j), max(i, j))
                else:  # by the two probabilities themselves, for items that may not move freely
                    swapped = ranking.copy()
                    swapped[i], swapped[j] = loser, winner
                    as_shown = _log_prob_of(strengths, best, ranking, n_seen, limit, keep_first)
                    odds = np.exp(_log_prob_of(strengths, best, swapped, n_seen, limit, keep_first) - as_shown)
                # The weight P(R′) / (P(R) + P(R′)) removes the bias of the order shown (ρ in the paper).
                won = strengths[winner] / (strengths[winner] + strengths[loser])
                step = clicked[winner] * (1.0 - 1.0 / (1.0 + odds)) * won * (1.0 - won)
                row_weights[winner] += step
                row_weights[loser] -= step
    return row_weights


@register("pdgd")
class Pdgd(SparseLearner):
    """Pairwise differentiable gradient descent: random rankings, and unbiased steps from the pairs that clicks reveal.

    The ranking R is drawn position by position with probability ∝ exp(w · x) (Plackett–Luce). Over clicked items k and
    unclicked items l that were examined (above the last click, and the next one below it),

      w ← w + η_t Σ ρ(k, l) · P(k before l) · P(l before k) · (x_k − x_l),  η_t = `learning_rate` · `decay`^t.

    ρ = P(R′) / (P(R) + P(R′)), with R′ the ranking R with k and l swapped, removes the bias of the positions.

    Use it where exploration may move any item; `explore_at_most` around it limits how far.

    Args:
      learning_rate: The first step size.
      decay: The factor of the step size in each round.
      start: The first weights; zeros if empty.

    References:
      Oosterhuis and de Rijke (2018), Differentiable Unbiased Online Learning to Rank, Algorithm 1.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("pdgd", "web_search", "dcm", "nDCG@10"), 3)
      0.487
    """

    learning_rate: Positive = 0.1
    decay: Annotated[Positive, partial(check_between, 0, 1)] = 1.0
    start: FiniteNumbers = ()

    weighs_clicks: ClassVar[bool] = True  # a click of weight v counts v times, so outcomes can be learned

    def init(self, problem: Problem) -> State:
        return State(self.first_weights(problem), shown_or_all(problem), 0)

    def rank(self, state: State, query: Query, rng: Generator, limit: Limit = NO_LIMIT) -> Decision[Receipt]:
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
        row_weights = _pair_weights(scores, decision.ranking, state.shown, places, keep_first, clicked)
        weights = state.weights + rate * weighted_rows(query.features, row_weights)
        return State(require_finite(weights), state.shown, state.rounds + 1)

    def log_prob(self, state: State, query: Query, ranking: Ints, limit: Limit = NO_LIMIT) -> float:
        scores, n_seen = scores_of(query.features, state.weights), seen_count(state.shown, len(ranking))
        best, strengths = ranking_of(scores), _strengths_of(scores)
        return _log_prob_of(strengths, best, ranking, n_seen, limit.positions, limit.keep_first)
