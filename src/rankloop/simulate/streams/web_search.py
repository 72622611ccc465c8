"""Queries that resemble those of a web search engine: many features, few very good answers, nothing quite linear."""

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_deviation
from rankloop.core.kernels import normals, scores_of
from rankloop.core.registry import register
from rankloop.core.types import Floats
from rankloop.data.dataset import Dataset
from rankloop.simulate.streams.pool import SimulatedQueries, dataset_of_equal, grades_by_share

SHARES = (0.26, 0.36, 0.28, 0.08, 0.02)
NONLINEAR = 0.5


@register("web_search")
class WebSearch(SimulatedQueries):
    """Features in [0, 1], five grades that cut linear + ½·nonlinear + noise·N(0, 1) at .26 / .36 / .28 / .08 / .02.

    Both parts have mean 0 and variance 1: the linear one is w·x with random weights, the nonlinear one sums products
    of features that are neighbours (x_j − ½)·(x_{j+1} − ½). World and queries are drawn once per run. Use it to
    compare learners from clicks where the best linear ranker is good but not perfect.
    """

    n_items: int = 24
    n_features: int = 60
    n_queries: int = 2000
    noise: float = 1.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_deviation(noise=self.noise)

    def dataset(self, rng: Generator) -> Dataset:
        features = rng.random((self.n_queries * self.n_items, self.n_features))
        centred = features - 0.5
        linear = scores_of(centred, normals(rng, self.n_features))
        products = centred * np.roll(centred, 1, axis=1)
        nonlinear = scores_of(products, normals(rng, self.n_features))
        latent = _standard(linear) + NONLINEAR * _standard(nonlinear) + self.noise * normals(rng, len(features))
        shape = (self.n_queries, self.n_items)
        return dataset_of_equal(
            features.reshape(*shape, self.n_features), grades_by_share(latent, SHARES).reshape(shape)
        )


def _standard(values: Floats) -> Floats:
    centred: Floats = values - values.mean()
    return centred / max(float(centred.std()), np.finfo(np.float64).tiny)
