"""Learners that count the clicks on a fixed set of items: TopRank, BubbleRank and CascadeUCB."""

import functools
import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import Positive, PositiveCount
from rankloop.core.kernels import clicked_weights, kernel, positions_of, ranking_of, seen_count
from rankloop.core.learner import GreedyLearner, check_receipt, clicks_by_item, expect, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.fixed_set import size_of_fixed_set

CONFIDENCE_CONSTANT = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))  # the constant c of the paper, 3.34
LOG_2 = math.log(2)


class State(NamedTuple):
    """The click differences of the pairs of items, and the order that they prove."""

    lead: Floats  # lead[i, j] is the number of clicks on i less those on j, while both were in one block: S_ij.
    decided: Floats  # How often exactly one of the two was clicked: N_ij.
    worse: Ints  # worse[i, j] = 1 if i is proved to be worse than j.
    block: Ints  # The block of each item, 0 for the best.
    shown: int  # The number of positions that are seen, −1 for all.

    @property
    def n_blocks(self) -> int:
        """The number of blocks: 1 at first, at most one for each item."""
        return int(self.block.max()) + 1

    def reachable(self, initial: "State") -> bool:
        """Return true if the blocks follow from the proofs."""
        return bool(np.array_equal(self.block, _blocks_of(self.worse)))


class Receipt(NamedTuple):
    """The block of each item when the list was shown."""

    block: Ints


@kernel
def _blocks_of(worse: Ints) -> Ints:
    """Return the block of each item: block after block, the items that are worse than none of those that are left."""
    block, number = np.full(len(worse), -1), 0
    while block.min() < 0:
        is_left = block < 0
        is_best = is_left.copy()
        for i in range(len(worse)):
            for j in range(len(worse)):
                if is_left[j] and worse[i, j]:
                    is_best[i] = False
        if not is_best.any():
            is_best = is_left  # proofs that contradict each other, of which there is a small probability
        block[is_best] = number
        number += 1
    return block


@kernel
def _log_prob(block: Ints, ranking: Ints, n_positions: int) -> float:
    """Return the log-probability of a ranking: at each position, one of the items left of the current block."""
    left = np.bincount(block)
    current, total = 0, 0.0
    for position in range(n_positions):
        while left[current] == 0:
            current += 1
        if block[ranking[position]] != current:
            return -np.inf
        total -= np.log(left[current])
        left[current] -= 1
    return total


@kernel
def _proved(
    lead: Floats, decided: Floats, worse: Ints, block: Ints, clicked: Floats, log_confidence: float
) -> tuple[Floats, Floats, Ints]:
    """Add the clicks to S and N of each pair within the blocks, and return the proofs, as `TopRank` states them."""
    lead, decided, worse = lead.copy(), decided.copy(), worse.copy()
    for i in range(len(block)):
        for j in range(len(block)):
            if block[i] == block[j]:
                difference = clicked[i] - clicked[j]
                lead[i, j] += difference
                decided[i, j] += abs(difference)
                n = decided[i, j]
                bound = 2 * n * (np.log(CONFIDENCE_CONSTANT * np.sqrt(n)) + log_confidence) if n > 0 else np.inf
                if lead[i, j] >= np.sqrt(bound):
                    worse[j, i] = 1
    return lead, decided, worse


@register("top_rank")
class TopRank:
    """Rank a fixed set of items block by block, shuffled within blocks; clicks move items to lower blocks.

    While i and j are in one block, S_ij is the number of clicks on i less those on j, and N_ij the number of rounds
    with a difference. When

      S_ij ≥ √(2 N_ij log(c √N_ij · `horizon`)),

    j is proved worse than i and moves to a lower block.

    Use it for one list of items without features when nothing is known about how users click. It begins more slowly
    than `cascade_ucb`.

    Args:
      horizon: The number of rounds for which the confidence is chosen.

    References:
      Lattimore, Kveton, Li and Szepesvári (2018), TopRank: A Practical Algorithm for Online Stochastic Ranking,
      Algorithm 1.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> stream = "flipped_relevance(n_items=6, n_relevant=2)"
      >>> round(play_mean("top_rank", stream, "cascade(max_grade=1)", "nDCG@5"), 3)
      0.826
    """

    horizon: PositiveCount = 100_000

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    reports: ClassVar[tuple[str, ...]] = ("n_blocks",)

    def init(self, problem: Problem) -> State:
        n = size_of_fixed_set(problem)
        shape, worse = (n, n), np.zeros((n, n), np.int64)
        return State(np.zeros(shape), np.zeros(shape), worse, np.zeros(n, np.int64), shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        ranking = np.argsort(state.block + rng.random(len(state.block)) * 0.5, kind="stable")
        return Decision(ranking, self.log_prob(state, query, ranking), Receipt(state.block))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        clicked = (clicks_by_item(feedback, len(state.block)) > 0).astype(np.float64)
        check_receipt(decision.receipt.block.shape == state.block.shape)
        together = decision.receipt.block * len(clicked) + state.block  # then and now: late feedback proves nothing new
        confidence = math.log(self.horizon)
        lead, decided, worse = _proved(state.lead, state.decided, state.worse, together, clicked, confidence)
        return State(lead, decided, worse, _blocks_of(worse), state.shown)

    def predict(self, state: State, query: Query) -> Ints:
        return np.lexsort((-state.lead.sum(axis=1), state.block))

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return _log_prob(state.block, ranking, seen_count(state.shown, len(ranking)))


class BubbleState(NamedTuple):
    """The base list, and the click differences of items that were shown as neighbours."""

    positions: Floats  # The position of each item in the base list.
    lead: Floats  # lead[i, j] is the number of clicks on i less those on j, s_ij of the paper.
    decided: Floats  # How often exactly one of the two was clicked, n_ij of the paper.
    shown: int  # The number of positions that are seen, −1 for all.
    rounds: int  # The number of rounds learned.

    def reachable(self, initial: "BubbleState") -> bool:
        """Return true if the positions are a permutation."""
        return bool(np.array_equal(np.sort(self.positions), np.arange(len(self.positions))))


class BubbleReceipt(NamedTuple):
    """The upper position of the first pair."""

    first: int


@kernel
def _is_proved(lead: Floats, decided: Floats, better: int, worse: int, log_confidence: float) -> bool:
    """Return true if clicks have proved an item better than another: s > 2 √(n log(1/δ)) of `BubbleRank`."""
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
def _log_prob_of_exchanges(
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
def _after_round(
    state: BubbleState, ranking: Ints, n_seen: int, first: int, clicked: Floats, log_confidence: float
) -> BubbleState:
    """Add the clicks to s and n, pair by pair, then let items that are proved better rise in one pass from the top."""
    lead, decided, base = state.lead.copy(), state.decided.copy(), ranking_of(-state.positions)
    for j in range(first, min(n_seen, len(ranking) - 1), 2):
        upper, lower = ranking[j], ranking[j + 1]
        difference = clicked[upper] - clicked[lower]
        lead[upper, lower] += difference
        lead[lower, upper] -= difference
        decided[upper, lower] += abs(difference)
        decided[lower, upper] += abs(difference)
    for j in range(len(base) - 1):
        if _is_proved(lead, decided, base[j + 1], base[j], log_confidence):
            base[j], base[j + 1] = base[j + 1], base[j]
    return BubbleState(positions_of(base).astype(np.float64), lead, decided, state.shown, state.rounds + 1)


@register("bubble_rank")
class BubbleRank:
    """Show the base list with neighbours exchanged at random, until clicks prove which of the two is better.

    The base list is first that of the item numbers: pass the items in the order in which they are ranked today.
    Neighbours are paired, from the first position in one round and from the second in the next, and each pair is
    exchanged with probability ½ unless its upper item is proved better. s_ij is the number of clicks on i less those on
    j over the rounds in which they were a pair, and n_ij the number of these rounds with a difference. When

      s_ij > 2 √(n_ij log(1/δ)),  δ = `horizon`⁻⁴,

    i is better, and moves above j in the base list when it is the next below. In a pair at the end of the seen part the
    item that is not seen counts as not clicked: both items are seen there equally often. No item moves more than one
    position from the base list, so that a good list stays good. `top_rank` needs no list to begin with.

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
    examples: ClassVar[Examples] = ({}, {"horizon": 2})

    def init(self, problem: Problem) -> BubbleState:
        n = size_of_fixed_set(problem)
        return BubbleState(np.arange(n, dtype=np.float64), np.zeros((n, n)), np.zeros((n, n)), shown_or_all(problem), 0)

    def rank(self, state: BubbleState, query: Query, rng: Generator) -> Decision[BubbleReceipt]:
        draws, (best, n_seen, first) = rng.random(len(state.positions) // 2), self._page(state)
        confidence = self._log_confidence
        ranking, log_propensity = _exchanged(best, state.lead, state.decided, n_seen, first, confidence, draws)
        return Decision(ranking, log_propensity, BubbleReceipt(first))

    def learn(
        self, state: BubbleState, query: Query, decision: Decision[BubbleReceipt], feedback: Feedback
    ) -> BubbleState:
        clicked = (clicks_by_item(feedback, len(state.positions)) > 0).astype(np.float64)
        check_receipt(0 <= decision.receipt.first <= 1)
        n_seen, confidence = seen_count(state.shown, len(state.positions)), self._log_confidence
        return _after_round(state, decision.ranking, n_seen, decision.receipt.first, clicked, confidence)

    def predict(self, state: BubbleState, query: Query) -> Ints:
        return ranking_of(-state.positions)

    def log_prob(self, state: BubbleState, query: Query, ranking: Ints) -> float:
        best, n_seen, first = self._page(state)
        return _log_prob_of_exchanges(best, state.lead, state.decided, ranking, n_seen, first, self._log_confidence)

    def _page(self, state: BubbleState) -> tuple[Ints, int, int]:
        """Return the base list, the number of seen positions, and where the pairs of the next round begin."""
        best = ranking_of(-state.positions)
        return best, seen_count(state.shown, len(best)), (state.rounds + 1) % 2

    @functools.cached_property
    def _log_confidence(self) -> float:
        """log(1/δ)."""
        return 4 * math.log(self.horizon)


class CascadeState(NamedTuple):
    """The counts of a fixed set of items."""

    looks: Floats  # How often each item was examined.
    clicks: Floats  # How often each item was clicked.
    rounds: int  # The number of rounds learned.
    shown: int  # The number of positions that are seen, −1 for all.

    @property
    def click_rate(self) -> float:
        """Clicks per examination, of all items together."""
        return float(self.clicks.sum() / max(self.looks.sum(), 1.0))


@kernel
def _optimistic(looks: Floats, clicks: Floats, allowance: float) -> Ints:
    """Return the items by their upper confidence bounds; items that were never examined come first."""
    return ranking_of(np.where(looks > 0.0, clicks / looks + np.sqrt(allowance / looks), np.inf))


@kernel
def _after_clicks(
    looks: Floats, clicks: Floats, ranking: Ints, shown: int, items: Ints, weights: Floats
) -> tuple[Floats, Floats]:
    """Count the items down to the first click as examined; without a click, all that were shown."""
    looks, clicks, clicked = looks.copy(), clicks.copy(), clicked_weights(len(ranking), items, weights)
    for item in ranking[: seen_count(shown, len(ranking))]:
        looks[item] += 1.0
        if clicked[item] > 0.0:
            clicks[item] += 1.0
            break
    return looks, clicks


@register("cascade_ucb")
class CascadeUcb(GreedyLearner):
    """Rank a fixed set of items by upper confidence bounds of their attraction, for users who follow the cascade model.

    Items are sorted in round t by

      clicks / looks + √(`exploration` · log t / looks).

    Users look from the top until their first click: the items down to it were examined (one look more each), and the
    item there was clicked.

    Use it for one list of items without features, such as the teasers of a start page. `top_rank` assumes less.

    Args:
      exploration: The factor of the confidence term.

    References:
      Kveton, Szepesvári, Wen and Ashkan (2015), Cascading Bandits: Learning to Rank in the Cascade Model, Algorithm 1.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> stream = "flipped_relevance(n_items=6, n_relevant=2)"
      >>> round(play_mean("cascade_ucb", stream, "cascade(max_grade=1)", "nDCG@5"), 3)
      0.919
    """

    exploration: Positive = 1.5

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    reports: ClassVar[tuple[str, ...]] = ("click_rate",)

    def init(self, problem: Problem) -> CascadeState:
        no_counts = np.zeros(size_of_fixed_set(problem))
        return CascadeState(no_counts, no_counts, 0, shown_or_all(problem))

    def learn(
        self, state: CascadeState, query: Query, decision: Decision[tuple[()]], feedback: Feedback
    ) -> CascadeState:
        items, weights = expect(feedback, Clicks)
        looks, clicks = _after_clicks(state.looks, state.clicks, decision.ranking, state.shown, items, weights)
        return CascadeState(looks, clicks, state.rounds + 1, state.shown)

    def predict(self, state: CascadeState, query: Query) -> Ints:
        return ranking_of(state.clicks / np.maximum(state.looks, 1.0))

    def _ranking(self, state: CascadeState, query: Query) -> Ints:
        return _optimistic(state.looks, state.clicks, self.exploration * math.log(max(state.rounds, 1)))
