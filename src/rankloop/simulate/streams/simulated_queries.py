"""Simulated queries with features: linear with noise, separable, and similar to those of a web search engine."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import NotNegative, PositiveCount
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import normals, scores_of
from rankloop.core.registry import register
from rankloop.core.statistics import normal_cdf, normal_quantiles
from rankloop.core.types import Floats, Problem, Query
from rankloop.data.dataset import Dataset
from rankloop.simulate.streams.pool import shuffled_rounds

N_GRADES = 5
LINEAR_SHARES = (0.5, 0.25, 0.15, 0.07, 0.03)
WEB_SHARES = (0.26, 0.36, 0.28, 0.08, 0.02)
NONLINEAR_WEIGHT = 0.5


@dataclass(frozen=True, kw_only=True)
class SimulatedQueries:
    """Queries with equally many items and grades 0 to 4; a subclass draws those of one run in `dataset`."""

    n_items: PositiveCount
    n_features: PositiveCount
    n_queries: PositiveCount

    @property
    def problem(self) -> Problem:
        return Problem(n_features=self.n_features, max_grade=N_GRADES - 1)

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        return shuffled_rounds(self.dataset(rng), rng)

    @abstractmethod
    def dataset(self, rng: Generator) -> Dataset:
        """Return the queries of one run."""


@register("linear_gaussian")
class LinearGaussian(SimulatedQueries):
    """Normal features, and five grades that cut w·x + noise·N(0, 1) at the shares .50 / .25 / .15 / .07 / .03.

    w is a random unit vector, drawn with the queries once per run. No ranker is perfect, but a linear one is the best.

    Args:
      noise: The standard deviation of the noise.
    """

    n_items: PositiveCount = 20
    n_features: PositiveCount = 25
    n_queries: PositiveCount = 2000
    noise: NotNegative = 0.5

    def dataset(self, rng: Generator) -> Dataset:
        """Return the queries of one run."""
        weights = _unit_vector(rng, self.n_features)
        features = normals(rng, self.n_queries * self.n_items, self.n_features)
        latent = scores_of(features, weights)
        latent += self.noise * normals(rng, self.n_queries * self.n_items)
        return _dataset_of_equal(features, _grades_by_share(latent, LINEAR_SHARES), self.n_items)


@register("separable")
class Separable(SimulatedQueries):
    """Items of grade g are N(g·w, I) with w·x kept within ±(1 − margin)/2 of g: w ranks every query perfectly.

    w is a random unit vector and the five grades are equally frequent. Features are shifted so that the middle grade is
    at the origin, then divided by one number so that the longest has length 1 (the papers' R_X = 1), which divides the
    margin too. Use it for learners whose loss should stay bounded.

    Args:
      margin: The margin before features are scaled.

    References:
      Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
    """

    n_items: PositiveCount = 20
    n_features: PositiveCount = 20
    n_queries: PositiveCount = 2000
    margin: float = 0.4

    def __post_init__(self) -> None:
        if not 0.0 < self.margin <= 1.0:
            raise InvalidInput(f"margin must be above 0 and at most 1, the distance of two grades, got {self.margin}")

    def dataset(self, rng: Generator) -> Dataset:
        """Return the queries of one run."""
        return self.dataset_and_weights(rng)[0]

    def dataset_and_weights(self, rng: Generator) -> tuple[Dataset, Floats]:
        """Return the queries and the unit vector that ranks them."""
        weights = _unit_vector(rng, self.n_features)
        features = normals(rng, self.n_queries * self.n_items, self.n_features)
        grades = np.tile(np.arange(self.n_items) % N_GRADES, self.n_queries).astype(np.float64)
        low, high = normal_cdf(-(1.0 - self.margin) / 2), normal_cdf((1.0 - self.margin) / 2)
        wobble = normal_quantiles(low + rng.random(len(grades)) * (high - low))  # normal, within ±(1 − margin)/2
        targets = grades - (N_GRADES - 1) / 2 + wobble
        features += (targets - scores_of(features, weights))[:, np.newaxis] * weights
        features /= np.sqrt(np.sum(features**2, axis=1).max())
        return _dataset_of_equal(features, grades, self.n_items), weights


@register("web_search")
class WebSearch(SimulatedQueries):
    """Features in [0, 1], and five grades that cut linear + ½·nonlinear + noise·N(0, 1) as in web search.

    The shares of the grades are .26 / .36 / .28 / .08 / .02. Both parts have mean 0 and variance 1: the linear one is
    w·x with random weights, the nonlinear one sums products of neighbouring features (x_j − ½)·(x_{j+1} − ½). They are
    drawn once per run. Use it to compare learners from clicks where the best linear ranker is good but not perfect.

    Args:
      noise: The standard deviation of the noise.
    """

    n_items: PositiveCount = 24
    n_features: PositiveCount = 60
    n_queries: PositiveCount = 2000
    noise: NotNegative = 1.1

    def dataset(self, rng: Generator) -> Dataset:
        """Return the queries of one run."""
        features = rng.random((self.n_queries * self.n_items, self.n_features))
        centred = features - 0.5
        linear = scores_of(centred, normals(rng, self.n_features))
        products = centred * np.roll(centred, 1, axis=1)
        nonlinear = scores_of(products, normals(rng, self.n_features))
        latent = _standard(linear) + NONLINEAR_WEIGHT * _standard(nonlinear) + self.noise * normals(rng, len(features))
        return _dataset_of_equal(features, _grades_by_share(latent, WEB_SHARES), self.n_items)


def _unit_vector(rng: Generator, length: int) -> Floats:
    direction = normals(rng, length)
    scaled: Floats = direction / np.sqrt(np.sum(direction**2))
    return scaled


def _standard(values: Floats) -> Floats:
    centred: Floats = values - values.mean()
    return centred / max(float(centred.std()), np.finfo(np.float64).tiny)


def _dataset_of_equal(features: Floats, relevance: Floats, n_items: int) -> Dataset:
    offsets = np.arange(0, len(features) + 1, n_items, dtype=np.int64)
    return Dataset(np.ascontiguousarray(features), relevance, offsets, tuple(map(str, range(len(offsets) - 1))))


def _grades_by_share(latent: Floats, shares: tuple[float, ...]) -> Floats:
    cuts = np.quantile(latent, np.cumsum(shares)[:-1] / np.sum(shares))
    return np.searchsorted(cuts, latent, side="left").astype(np.float64)
