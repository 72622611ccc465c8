"""From scores of ads to the probabilities with which they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
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
        return np.column_stack([scores_of(contexts, own) for own in self.weights]) - self.thresholds


def best_ads(scores: Floats) -> Ints:
    """The ad of the highest score for each person; ties go to the lowest number."""
    return np.asarray(np.argmax(scores, axis=1), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class EpsilonGreedy:
    """The best ad with probability 1 − `epsilon`, every other with epsilon / (n_ads − 1); 0 is the plain best one."""

    scorer: Scorer
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon <= 1.0:
            raise InvalidInput(f"epsilon = {self.epsilon} must be a probability from 0 to 1")

    def probabilities(self, contexts: Floats) -> Floats:
        scores = self.scorer.scores(contexts)
        return epsilon_greedy(best_ads(scores), scores.shape[1], self.epsilon)


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Ads in proportion to exp(score / `temperature`)."""

    scorer: Scorer
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)

    def probabilities(self, contexts: Floats) -> Floats:
        scores = self.scorer.scores(contexts) / self.temperature
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: Floats = powers / powers.sum(axis=1, keepdims=True)
        return shares


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
        votes = [self._votes(scorer.scores(contexts)) for scorer in self.scorers]
        shares: Floats = np.mean(votes, axis=0)
        return shares

    def _votes(self, scores: Floats) -> Floats:
        return epsilon_greedy(best_ads(scores), scores.shape[1], 0.0)


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Every ad with the same probability."""

    n_ads: int

    def probabilities(self, contexts: Floats) -> Floats:
        return np.full((len(contexts), self.n_ads), 1.0 / self.n_ads)


def epsilon_greedy(best: Ints, n_ads: int, epsilon: float) -> Floats:
    """1 − epsilon for the best ad, epsilon / (n_ads − 1) for every other; with one ad there is nothing to explore."""
    if n_ads == 1:
        return np.ones((len(best), 1))
    shares = np.full((len(best), n_ads), epsilon / (n_ads - 1))
    shares[np.arange(len(best)), best] = 1.0 - epsilon
    return shares


def choose(probabilities: Floats, rng: Generator) -> Ints:
    """One ad per row, drawn with these probabilities from one double each."""
    edges = np.cumsum(probabilities, axis=1)
    drawn = (rng.random(len(edges))[:, None] * edges[:, -1:] >= edges).sum(axis=1)
    return np.asarray(np.minimum(drawn, probabilities.shape[1] - 1), dtype=np.int64)
