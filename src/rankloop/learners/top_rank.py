"""TopRank: sort a fixed set of items into blocks as soon as clicks prove one item better than another."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import PositiveCount
from rankloop.core.kernels import kernel, seen_count
from rankloop.core.learner import check_receipt, expect, shown_or_all
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.fixed_set import size_of_fixed_set

CONFIDENCE_CONSTANT = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))  # the constant c of the paper, 3.34


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
        left = block < 0
        free = left.copy()
        for i in range(len(worse)):
            for j in range(len(worse)):
                if left[j] and worse[i, j]:
                    free[i] = False
        if not free.any():
            free = left  # proofs that contradict each other, of which there is a small probability
        block[free] = number
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
    """Add the clicks of this round to S and N, pair by pair within the blocks, and return the proofs."""
    new_lead, new_decided, new_worse = lead.copy(), decided.copy(), worse.copy()
    for i in range(len(block)):
        for j in range(len(block)):
            if block[i] == block[j]:
                difference = clicked[i] - clicked[j]
                new_lead[i, j] += difference
                new_decided[i, j] += abs(difference)
                n = new_decided[i, j]
                if n > 0 and new_lead[i, j] >= np.sqrt(
                    2 * n * (np.log(CONFIDENCE_CONSTANT * np.sqrt(n)) + log_confidence)
                ):
                    new_worse[j, i] = 1
    return new_lead, new_decided, new_worse


@register("top_rank")
class TopRank:
    """Rank a fixed set of items block by block, shuffled within blocks; clicks move items to lower blocks.

    While i and j are in one block, S_ij is the number of clicks on i less those on j, and N_ij the number of rounds
    with a difference. When

      S_ij ≥ √(2 N_ij log(c √N_ij · `horizon`)),

    j is proved worse than i and moves to a lower block.

    Use it for one list of items without features when nothing is known about how users click: it covers the cascade
    model, the position-based model and many others. It begins more slowly than `cascade_ucb`.

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
        table, worse = (n, n), np.zeros((n, n), np.int64)
        return State(np.zeros(table), np.zeros(table), worse, np.zeros(n, np.int64), shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        ranking = np.argsort(state.block + rng.random(len(state.block)) * 0.5, kind="stable")
        return Decision(ranking, self.log_prob(state, query, ranking), Receipt(state.block))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        items, weights = expect(feedback, Clicks)
        check_receipt(decision.receipt.block.shape == state.block.shape)
        clicked = np.zeros(len(state.block))
        clicked[items] = weights > 0
        together = decision.receipt.block * len(clicked) + state.block  # then and now: late feedback proves nothing new
        confidence = math.log(self.horizon)
        lead, decided, worse = _proved(state.lead, state.decided, state.worse, together, clicked, confidence)
        return State(lead, decided, worse, _blocks_of(worse), state.shown)

    def predict(self, state: State, query: Query) -> Ints:
        return np.lexsort((-state.lead.sum(axis=1), state.block))

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return _log_prob(state.block, ranking, seen_count(state.shown, len(ranking)))
