"""BubbleRank: for a fixed set of items, improves a given list by exchanging neighbours, and never strays from it."""

import functools
import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_at_least
from rankloop.core.kernels import kernel, ranking_of, seen_count
from rankloop.core.learner import check_receipt, expect, shown_or_all
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.fixed_set import size_of_fixed_set

LOG_2 = math.log(2)


class State(NamedTuple):
    """The base list, and click differences of pairs of items that were shown as neighbours."""

    positions: Floats  # where each item stands in the base list
    lead: Floats  # lead[i, j]: clicks on i less clicks on j
    decided: Floats  # how often exactly one of the two was clicked
    shown: int
    rounds: int

    def reachable(self, initial: "State") -> bool:
        return bool(np.array_equal(np.sort(self.positions), np.arange(len(self.positions))))


class Receipt(NamedTuple):
    """Where the pairs began."""

    first: int


@kernel
def is_proved(lead: Floats, decided: Floats, better: int, worse: int, log_confidence: float) -> bool:
    """Whether clicks have proved one item better than another: s > 2 √(n log(1/δ))."""
    return bool(lead[better, worse] > 2.0 * np.sqrt(decided[better, worse] * log_confidence))


@kernel
def _exchanged(
    best: Ints, lead: Floats, decided: Floats, seen: int, first: int, log_confidence: float, draws: Floats
) -> tuple[Ints, float]:
    """The list to show, and its log-probability."""
    ranking, log_propensity = best.copy(), 0.0
    for j in range(first, min(seen, len(best) - 1), 2):
        if not is_proved(lead, decided, best[j], best[j + 1], log_confidence):
            log_propensity -= LOG_2
            if draws[j // 2] < 0.5:
                ranking[j], ranking[j + 1] = best[j + 1], best[j]
    return ranking, log_propensity


@kernel
def _log_prob(
    best: Ints, lead: Floats, decided: Floats, ranking: Ints, seen: int, first: int, log_confidence: float
) -> float:
    """½ for each pair that may be exchanged; 0 for all that this does not lead to."""
    if first == 1 and ranking[0] != best[0]:
        return -np.inf
    total = 0.0
    for j in range(first, seen, 2):
        upper, lower = best[j], best[min(j + 1, len(best) - 1)]
        free = upper != lower and not is_proved(lead, decided, upper, lower, log_confidence)
        if free:
            total -= LOG_2
        if free and ranking[j] == lower:
            upper, lower = lower, upper
        if ranking[j] != upper or (j + 1 < seen and ranking[j + 1] != lower):
            return -np.inf
    return total


@kernel
def _counted(
    lead: Floats, decided: Floats, ranking: Ints, seen: int, first: int, clicked: Floats
) -> tuple[Floats, Floats]:
    """Count the clicks of this round, pair by pair."""
    new_lead, new_decided = lead.copy(), decided.copy()
    for j in range(first, min(seen, len(ranking) - 1), 2):
        upper, lower = ranking[j], ranking[j + 1]
        difference = clicked[upper] - clicked[lower]
        new_lead[upper, lower] += difference
        new_lead[lower, upper] -= difference
        new_decided[upper, lower] += abs(difference)
        new_decided[lower, upper] += abs(difference)
    return new_lead, new_decided


@kernel
def _bubbled(best: Ints, lead: Floats, decided: Floats, log_confidence: float) -> Floats:
    """The positions after one pass from the top, in which items that are proved better rise."""
    base = best.copy()
    for j in range(len(base) - 1):
        if is_proved(lead, decided, base[j + 1], base[j], log_confidence):
            base[j], base[j + 1] = base[j + 1], base[j]
    positions = np.empty(len(base))
    for j in range(len(base)):
        positions[base[j]] = j
    return positions


@register("bubble_rank")
class BubbleRank:
    """Shows a given list with neighbours exchanged at random, until clicks prove which of the two is better.

    The base list is at first that of the item numbers: give the items in the order in which they are ranked today. In
    turns from the second position and from the first, neighbours are paired, and each pair is exchanged with
    probability ½ unless its upper item is proved to be better. s_ij sums clicks on i less clicks on j over the rounds
    in which they were a pair, n_ij counts those with a difference. Once s_ij > 2 √(n_ij log(1/δ)), δ = `horizon`⁻⁴, i
    is better, and rises above j in the base list when it is the next below. Of a pair at the end of the seen part the
    item that is not seen counts as not clicked: each is seen there as often as the other.

    Use it for one list of items without features that is good already and must not get worse while it is improved: no
    item moves more than one position from the base list. `top_rank` shuffles more and needs no list to begin with.
    Reference: Li, Kveton, Lattimore, Markov, de Rijke, Szepesvári and Zoghi (2019), BubbleRank: Safe Online Learning to
    Re-Rank via Implicit Click Feedback.
    """

    horizon: int = 100_000

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"horizon": 2})

    def __post_init__(self) -> None:
        check_at_least(1, horizon=self.horizon)

    def init(self, problem: Problem) -> State:
        n = size_of_fixed_set(problem)
        return State(np.arange(n, dtype=np.float64), np.zeros((n, n)), np.zeros((n, n)), shown_or_all(problem), 0)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        draws, first = rng.random(len(state.positions) // 2), _first_pair(state)
        best, seen = ranking_of(-state.positions), seen_count(state.shown, len(state.positions))
        ranking, log_propensity = _exchanged(best, state.lead, state.decided, seen, first, self._log_confidence, draws)
        return Decision(ranking, log_propensity, Receipt(first))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        items, weights = expect(feedback, Clicks)
        check_receipt(0 <= decision.receipt.first <= 1)
        seen = seen_count(state.shown, len(state.positions))
        clicked = np.zeros(len(state.positions))
        clicked[items] = weights > 0
        lead, decided = _counted(state.lead, state.decided, decision.ranking, seen, decision.receipt.first, clicked)
        positions = _bubbled(ranking_of(-state.positions), lead, decided, self._log_confidence)
        return State(positions, lead, decided, state.shown, state.rounds + 1)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(-state.positions)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        best, seen = ranking_of(-state.positions), seen_count(state.shown, len(state.positions))
        return _log_prob(best, state.lead, state.decided, ranking, seen, _first_pair(state), self._log_confidence)

    @functools.cached_property
    def _log_confidence(self) -> float:
        """log(1/δ)."""
        return 4 * math.log(self.horizon)


def _first_pair(state: State) -> int:
    """Return where the pairs of the next round begin."""
    return (state.rounds + 1) % 2
