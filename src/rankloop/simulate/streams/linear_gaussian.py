"""Queries with normal features whose grades follow a linear function and noise."""

from numpy.random import Generator

from rankloop.core.checks import check_deviation
from rankloop.core.kernels import normals, scores_of, unit_vector
from rankloop.core.registry import register
from rankloop.data.dataset import Dataset
from rankloop.simulate.streams.pool import SimulatedQueries, dataset_of_equal, grades_by_share

SHARES = (0.5, 0.25, 0.15, 0.07, 0.03)


@register("linear_gaussian")
class LinearGaussian(SimulatedQueries):
    """Normal features, and five grades that cut w·x + noise·N(0, 1) at the shares .50 / .25 / .15 / .07 / .03.

    w is a random unit vector, drawn with the `n_queries` queries once per run. The easiest stream for a linear
    learner in which no ranker is perfect.
    """

    n_items: int = 20
    n_features: int = 25
    n_queries: int = 2000
    noise: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_deviation(noise=self.noise)

    def dataset(self, rng: Generator) -> Dataset:
        weights = unit_vector(rng, self.n_features)
        features = normals(rng, self.n_queries, self.n_items, self.n_features)
        latent = scores_of(features.reshape(-1, self.n_features), weights)
        latent += self.noise * normals(rng, self.n_queries * self.n_items)
        return dataset_of_equal(features, grades_by_share(latent, SHARES))
