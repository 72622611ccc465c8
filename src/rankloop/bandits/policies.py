"""From scores of ads to the probabilities with which they are shown, of many visitors or of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, ranking_of, scores_of, seen_count
from rankloop.core.types import Floats, Ints

NEVER = 1e12  # the threshold of an ad that nobody ever clicked: it stands last


class Scorer(Protocol):
    """Judges every ad for every person."""

    def scores(self, contexts: Floats) -> Floats:
        """(n_people, n_ads), the higher the better."""


class Policy(Protocol):
    """Says how likely it is to show each ad to each person."""

    def probabilities(self, contexts: Floats) -> Floats:
        """(n_people, n_ads); rows sum to 1."""


class LinearScorer(NamedTuple):
    """f_a(x) − s_a with f_a(x) = weights[a] · x: equation 5.2 of the thesis."""

    weights: Floats  # (n_ads, n_context)
    thresholds: Floats  # (n_ads,)

    def scores(self, contexts: Floats) -> Floats:
        return np.column_stack([scores_of(contexts, weights) for weights in self.weights]) - self.thresholds


@dataclass(frozen=True, kw_only=True)
class EpsilonGreedy:
    """The best ad with probability 1 − `epsilon`, every other with epsilon / (n_ads − 1); 0 is the plain best one."""

    scorer: Scorer
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon <= 1.0:
            raise InvalidInput(f"epsilon = {self.epsilon} must be a probability from 0 to 1")

    def probabilities(self, contexts: Floats) -> Floats:
        return _shares_by_row(self.scorer.scores(contexts), self.epsilon, 0.0)


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Ads in proportion to exp(score / `temperature`)."""

    scorer: Scorer
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)

    def probabilities(self, contexts: Floats) -> Floats:
        return _shares_by_row(self.scorer.scores(contexts), 0.0, self.temperature)


@dataclass(frozen=True, kw_only=True)
class Thompson:
    """The best ad of one of the `scorers`, drawn at random: each was trained on its own resample of the log.

    An ad's probability is the share of scorers that prefer it, which is exact, so logs of this policy can be evaluated.
    Reference: Eckles and Kaptein (2014), Thompson Sampling with the Online Bootstrap.
    """

    scorers: Sequence[Scorer]

    def __post_init__(self) -> None:
        if not len(self.scorers):
            raise InvalidInput("Thompson sampling needs at least one scorer")

    def probabilities(self, contexts: Floats) -> Floats:
        votes = [_shares_by_row(scorer.scores(contexts), 0.0, 0.0) for scorer in self.scorers]
        shares: Floats = np.mean(votes, axis=0)
        return shares


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Every ad with the same probability."""

    n_ads: int

    def probabilities(self, contexts: Floats) -> Floats:
        return np.full((len(contexts), self.n_ads), 1.0 / self.n_ads)


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


@kernel
def _shares_by_row(scores: Floats, epsilon: float, temperature: float) -> Floats:
    """The probabilities of many visitors, one row of scores each."""
    shares = np.empty(scores.shape)
    for row in range(len(scores)):
        shares[row] = shares_of(scores[row], epsilon, temperature)
    return shares


def choose(probabilities: Floats, rng: Generator) -> Ints:
    """One ad per row, drawn with these probabilities from one double each."""
    edges = np.cumsum(probabilities, axis=1)
    drawn = (rng.random(len(edges))[:, None] * edges[:, -1:] >= edges).sum(axis=1)
    return np.asarray(np.minimum(drawn, probabilities.shape[1] - 1), dtype=np.int64)
