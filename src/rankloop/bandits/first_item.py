"""The first item: drawn to explore, the others following by score; and people who reward it alone."""

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel, ranking_of, seen_count
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints, Reward


@kernel
def shares_of(scores: Floats, epsilon: float, temperature: float) -> Floats:
    """The probability of each ad to be first: ε-greedy, or softmax where the temperature is above 0."""
    n = len(scores)
    shares = np.empty(n)
    if temperature > 0.0:
        shares[:] = np.exp((scores - scores.max()) / temperature)
        shares /= shares.sum()
        return shares
    shares[:] = epsilon / max(n - 1, 1)
    shares[np.argmax(scores)] = 1.0 - epsilon if n > 1 else 1.0
    return shares


@kernel
def drawn_ranking(scores: Floats, epsilon: float, temperature: float, draw: float) -> tuple[Ints, float]:
    """The drawn ad first and the others by score; its log-probability."""
    shares = shares_of(scores, epsilon, temperature)
    first, left = len(shares) - 1, draw
    for ad in range(len(shares)):
        left -= shares[ad]
        if left < 0.0:
            first = ad
            break
    while shares[first] == 0.0:  # rounding may run past the last ad that can be shown
        first -= 1
    return _with_first(scores, first), np.log(shares[first])


@kernel
def _with_first(scores: Floats, first: int) -> Ints:
    lifted = scores.copy()
    lifted[first] = np.inf
    return ranking_of(lifted)


@kernel
def first_log_prob(scores: Floats, epsilon: float, temperature: float, ranking: Ints, shown: int) -> float:
    expected = _with_first(scores, ranking[0])
    for position in range(seen_count(shown, len(ranking))):
        if ranking[position] != expected[position]:
            return -np.inf
    share: float = shares_of(scores, epsilon, temperature)[ranking[0]]
    return np.log(share) if share > 0.0 else -np.inf


@register("first_item_reward")
class FirstItemReward:
    """Rewards the first shown item by its relevance and says nothing of the others: the ad that was shown.

    Use it with streams whose relevance is a click or a purchase, such as `campaign`, and learners of `Reward`.
    """

    shown: ClassVar[int | None] = 1
    depth: ClassVar[int | None] = None

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Reward:
        return Reward(float(relevance[ranking[0]]))
