"""Ad policies: the probability of each ad, from scores of the ads, for many visitors or for one."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from rankloop.core.checks import check_positive, check_probability
from rankloop.core.kernels import kernel, ranking_of, scores_of, seen_count
from rankloop.core.types import Floats, Ints

NEVER_CLICKED_THRESHOLD = 1e12  # puts an ad without any click last


class Scorer(Protocol):
    """Anything that scores every ad for every visitor."""

    def scores(self, contexts: Floats) -> Floats:
        """Return (n_visitors, n_ads) numbers, the higher the better."""


class Policy(Protocol):
    """Anything that gives each ad a probability for each visitor."""

    def probabilities(self, contexts: Floats) -> Floats:
        """Return (n_visitors, n_ads) probabilities; rows sum to 1."""


class LinearScorer(NamedTuple):
    """The score weights[a] · x − thresholds[a] of ad a for context x: equation 5.2 of the thesis."""

    weights: Floats  # (n_ads, n_context)
    thresholds: Floats  # (n_ads,)

    def scores(self, contexts: Floats) -> Floats:
        return np.column_stack([scores_of(contexts, weights) for weights in self.weights]) - self.thresholds


@dataclass(frozen=True, kw_only=True)
class EpsilonGreedy:
    """Show the best ad with probability 1 − epsilon, each other one with epsilon / (n_ads − 1)."""

    scorer: Scorer
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        check_probability(epsilon=self.epsilon)

    def probabilities(self, contexts: Floats) -> Floats:
        return _shares_by_row(self.scorer.scores(contexts), self.epsilon, 0.0)


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Show ads with probability proportional to exp(score / temperature)."""

    scorer: Scorer
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_positive(temperature=self.temperature)

    def probabilities(self, contexts: Floats) -> Floats:
        return _shares_by_row(self.scorer.scores(contexts), 0.0, self.temperature)


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Show each of `n_ads` ads with the same probability."""

    n_ads: int

    def probabilities(self, contexts: Floats) -> Floats:
        return np.full((len(contexts), self.n_ads), 1.0 / self.n_ads)


@kernel
def _shares_of(scores: Floats, epsilon: float, temperature: float) -> Floats:
    """Return the probability of each ad to be first: ε-greedy, or softmax where the temperature is above 0."""
    n = len(scores)
    if temperature > 0.0:
        softmax: Floats = np.exp((scores - scores.max()) / temperature)
        softmax /= softmax.sum()
        return softmax
    shares = np.full(n, epsilon / max(n - 1, 1))
    shares[np.argmax(scores)] = 1.0 - epsilon if n > 1 else 1.0
    return shares


@kernel
def drawn_ranking(scores: Floats, epsilon: float, temperature: float, draw: float) -> tuple[Ints, float]:
    """Draw an ad; return it first, followed by the others by score, and its log-probability.

    Args:
      scores: One score per ad.
      epsilon: The probability of ε-greedy to explore.
      temperature: Of the softmax; 0 means ε-greedy.
      draw: A uniform random number from 0 to 1.
    """
    shares = _shares_of(scores, epsilon, temperature)
    first, left = len(shares) - 1, draw
    for ad in range(len(shares)):
        left -= shares[ad]
        if left < 0.0:
            first = ad
            break
    while shares[first] == 0.0:  # by rounding the loop may have passed the last ad with a probability above 0
        first -= 1
    return _with_first(scores, first), np.log(shares[first])


@kernel
def _with_first(scores: Floats, first: int) -> Ints:
    """Return one ad, then the others by descending score."""
    lifted = scores.copy()
    lifted[first] = np.inf
    return ranking_of(lifted)


@kernel
def first_log_prob(scores: Floats, epsilon: float, temperature: float, ranking: Ints, shown: int) -> float:
    """Return the log-probability with which `drawn_ranking` gives the visible part of a ranking.

    Args:
      scores: One score per ad.
      epsilon: The probability of ε-greedy to explore.
      temperature: Of the softmax; 0 means ε-greedy.
      ranking: The ranking.
      shown: The number of visible positions; negative: all.
    """
    expected = _with_first(scores, ranking[0])
    for position in range(seen_count(shown, len(ranking))):
        if ranking[position] != expected[position]:
            return -np.inf
    share: float = _shares_of(scores, epsilon, temperature)[ranking[0]]
    return np.log(share) if share > 0.0 else -np.inf


@kernel
def _shares_by_row(scores: Floats, epsilon: float, temperature: float) -> Floats:
    """Return `_shares_of` of each visitor."""
    shares = np.empty(scores.shape)
    for row in range(len(scores)):
        shares[row] = _shares_of(scores[row], epsilon, temperature)
    return shares
