"""Queries that a linear function ranks perfectly, with a margin."""

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import normals, scores_of, unit_vector
from rankloop.core.registry import register
from rankloop.core.types import Floats
from rankloop.data.dataset import Dataset
from rankloop.simulate.streams.pool import N_GRADES, SimulatedQueries, dataset_of_equal


@register("separable")
class Separable(SimulatedQueries):
    """Items of grade g are N(g·w, I) with w·x kept within ±(1 − margin)/2 of g: w ranks every query perfectly.

    w is a random unit vector and the five grades are equally frequent. Features are shifted so that the middle grade
    lies at the origin, then divided by one number so that the longest has length 1 (the papers' R_X = 1), which
    divides the margin too. After Chaudhuri and Tewari, "Perceptron-like Algorithms for Online Learning to Rank"
    (2015). Use it for learners whose loss should stay bounded.
    """

    n_items: int = 20
    n_features: int = 20
    n_queries: int = 2000
    margin: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.margin <= 1.0:
            raise InvalidInput(f"margin must be above 0 and at most 1, the distance of two grades, got {self.margin}")

    def dataset(self, rng: Generator) -> Dataset:
        return self.dataset_and_weights(rng)[0]

    def dataset_and_weights(self, rng: Generator) -> tuple[Dataset, Floats]:
        """The queries and the unit vector that ranks them."""
        weights = unit_vector(rng, self.n_features)
        features = normals(rng, self.n_queries * self.n_items, self.n_features)
        grades = np.tile(np.arange(self.n_items) % N_GRADES, self.n_queries).astype(np.float64)
        wanted = grades - (N_GRADES - 1) / 2 + self._wobble(rng.random(len(grades)))
        features += (wanted - scores_of(features, weights))[:, np.newaxis] * weights
        features /= np.sqrt(np.sum(features**2, axis=1).max())
        shape = (self.n_queries, self.n_items)
        return dataset_of_equal(features.reshape(*shape, self.n_features), grades.reshape(shape)), weights

    def _wobble(self, uniform: Floats) -> Floats:
        """Standard normal numbers given that they lie within ±(1 − margin)/2."""
        from scipy.special import ndtr, ndtri  # takes a tenth of a second: not for who starts a service

        low, high = ndtr(-(1.0 - self.margin) / 2), ndtr((1.0 - self.margin) / 2)
        values: Floats = ndtri(low + uniform * (high - low))
        return values
