"""BubbleRank: improve the list of a fixed set of items by exchanging neighbours."""

import functools
import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import PositiveCount
from rankloop.core.kernels import kernel, ranking_of, seen_count
from rankloop.core.learner import check_receipt, expect, shown_or_all
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.fixed_set import size_of_fixed_set

LOG_2 = math.log(2)


class State(NamedTuple):
    """The base list, and the click differences of items that were shown as neighbours."""

    positions: Floats  # The position of each item in the base list.
    lead: Floats  # lead[i, j] is the number of clicks on i less those on j, s_ij of the paper.
    decided: Floats  # How often exactly one of the two was clicked, n_ij of the paper.
    shown: int  # The number of positions that are seen, −1 for all.
    rounds: int  # The number of rounds learned.

    def reachable(self, initial: "State") -> bool:
        """Return true if the positions are a permutation."""
        return bool(np.array_equal(np.sort(self.positions), np.arange(len(self.positions))))


class Receipt(NamedTuple):
    """The upper position of the first pair."""

    first: int


@kernel
def _is_proved(lead: Floats, decided: Floats, better: int, worse: int, log_confidence: float) -> bool:
    """Return true if clicks have proved an item better than another: s > 2 √(n log(1/δ))."""
    return bool(lead[better, worse] > 2.0 * np.sqrt(decided[better, worse] * log_confidence))


@kernel
def _exchanged(
    best: Ints, lead: Floats, decided: Floats, n_seen: int, first: int, log_confidence: float, draws: Floats
) -> tuple[Ints, float]:
    """Return the list to show and its log-probability."""
    ranking, log_propensity = best.copy(), 0.0
    for j in range(first, min(n_seen, len(best) - 1), 2):
        if not _is_proved(lead, decided, best[j], best[j + 1], log_confidence):
            log_propensity -= LOG_2
            if draws[j // 2] < 0.5:
                ranking[j], ranking[j + 1] = best[j + 1], best[j]
    return ranking, log_propensity


@kernel
def _log_prob(
    best: Ints, lead: Floats, decided: Floats, ranking: Ints, n_seen: int, first: int, log_confidence: float
) -> float:
    """Return the log-probability of a list: ½ for each pair that may be exchanged, −∞ if no exchange leads to it."""
    if first == 1 and ranking[0] != best[0]:
        return -np.inf
    total = 0.0
    for j in range(first, n_seen, 2):
        upper, lower = best[j], best[min(j + 1, len(best) - 1)]
        free = upper != lower and not _is_proved(lead, decided, upper, lower, log_confidence)
        if free:
            total -= LOG_2
        if free and ranking[j] == lower:
            upper, lower = lower, upper
        if ranking[j] != upper or (j + 1 < n_seen and ranking[j + 1] != lower):
            return -np.inf
    return total


@kernel
def _counted(
    lead: Floats, decided: Floats, ranking: Ints, n_seen: int, first: int, clicked: Floats
) -> tuple[Floats, Floats]:
    """Add the clicks of this round to s and n, pair by pair."""
    new_lead, new_decided = lead.copy(), decided.copy()
    for j in range(first, min(n_seen, len(ranking) - 1), 2):
        upper, lower = ranking[j], ranking[j + 1]
        difference = clicked[upper] - clicked[lower]
        new_lead[upper, lower] += difference
        new_lead[lower, upper] -= difference
        new_decided[upper, lower] += abs(difference)
        new_decided[lower, upper] += abs(difference)
    return new_lead, new_decided


@kernel
def _bubbled(best: Ints, lead: Floats, decided: Floats, log_confidence: float) -> Floats:
    """Return the positions after one pass from the top, in which items that are proved better rise."""
    base = best.copy()
    for j in range(len(base) - 1):
        if _is_proved(lead, decided, base[j + 1], base[j], log_confidence):
            base[j], base[j + 1] = base[j + 1], base[j]
    positions = np.empty(len(base))
    for j in range(len(base)):
        positions[base[j]] = j
    return positions


@register("bubble_rank")
class BubbleRank:
    """Show the base list with neighbours exchanged at random, until clicks prove which of the two is better.

    The base list is first that of the item numbers: pass the items in the order in which they are ranked today.
    Neighbours are paired, from the first position in one round and from the second in the next, and each pair is
    exchanged with probability ½ unless its upper item is proved better. s_ij is the number of clicks on i less those on
    j over the rounds in which they were a pair, and n_ij the number of these rounds with a difference. When

      s_ij > 2 √(n_ij log(1/δ)),  δ = `horizon`⁻⁴,

    i is better, and moves above j in the base list when it is the next below. In a pair at the end of the seen part the
    item that is not seen counts as not clicked: both items are seen there equally often.

    No item moves more than one position from the base list, so a list that is good already does not get worse while it
    is improved. `top_rank` shuffles more and needs no list to begin with.

    Args:
      horizon: The number of rounds for which the confidence is chosen.

    References:
      Li, Kveton, Lattimore, Markov, de Rijke, Szepesvári and Zoghi (2019), BubbleRank: Safe Online Learning to Re-Rank
      via Implicit Click Feedback, Algorithm 1.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> stream = "flipped_relevance(n_items=6, n_relevant=2)"
      >>> round(play_mean("bubble_rank", stream, "cascade(max_grade=1)", "nDCG@5"), 3)
      0.742
    """

    horizon: PositiveCount = 100_000

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"horizon": 2})

    def init(self, problem: Problem) -> State:
        n = size_of_fixed_set(problem)
        return State(np.arange(n, dtype=np.float64), np.zeros((n, n)), np.zeros((n, n)), shown_or_all(problem), 0)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        draws, first = rng.random(len(state.positions) // 2), _first_pair(state)
        best, n_seen = ranking_of(-state.positions), seen_count(state.shown, len(state.positions))
        ranking, log_propensity = _exchanged(
            best, state.lead, state.decided, n_seen, first, self._log_confidence, draws
        )
        return Decision(ranking, log_propensity, Receipt(first))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        items, weights = expect(feedback, Clicks)
        check_receipt(0 <= decision.receipt.first <= 1)
        n_seen = seen_count(state.shown, len(state.positions))
        clicked = np.zeros(len(state.positions))
        clicked[items] = weights > 0
        lead, decided = _counted(state.lead, state.decided, decision.ranking, n_seen, decision.receipt.first, clicked)
        positions = _bubbled(ranking_of(-state.positions), lead, decided, self._log_confidence)
        return State(positions, lead, decided, state.shown, state.rounds + 1)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(-state.positions)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        best, n_seen = ranking_of(-state.positions), seen_count(state.shown, len(state.positions))
        return _log_prob(best, state.lead, state.decided, ranking, n_seen, _first_pair(state), self._log_confidence)

    @functools.cached_property
    def _log_confidence(self) -> float:
        """log(1/δ)."""
        return 4 * math.log(self.horizon)


def _first_pair(state: State) -> int:
    """Return where the pairs of the next round begin."""
    return (state.rounds + 1) % 2
