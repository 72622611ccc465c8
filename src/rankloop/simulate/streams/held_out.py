"""A stream that keeps some of its queries back, so that a ranker can be asked about queries that it has never met."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import Stream
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats, Problem, Query
from rankloop.data.dataset import Dataset
from rankloop.simulate.streams.pool import shuffled_rounds


@register("held_out")
class HeldOut:
    """The inner stream without a `share` of its queries, which every run draws anew.

    The inner stream is one over a data set (letor, web_search, linear_gaussian, separable). Use it with `new_queries`
    of an experiment, which judges a learner by the queries that were held out.
    """

    inner: Stream
    share: float = 0.2

    examples: ClassVar[tuple[Spec, ...]] = ({"inner": {"kind": "linear_gaussian", "n_queries": 5}},)

    def __post_init__(self) -> None:
        if not hasattr(self.inner, "dataset"):
            raise InvalidInput("held_out needs a stream over a data set: letor, web_search, linear_gaussian, separable")
        if not 0 < self.share < 1:
            raise InvalidInput(f"share = {self.share} must be a share between 0 and 1")

    @property
    def problem(self) -> Problem:
        return self.inner.problem

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        return shuffled_rounds(self.parts(rng)[0], rng, getattr(self.inner, "candidates", None))

    def parts(self, rng: Generator) -> tuple[Dataset, Dataset]:
        """The queries that take part and those that are held out, at least one of each."""
        dataset: Dataset = self.inner.dataset(rng)  # type: ignore[attr-defined]
        n_queries = dataset.n_queries
        if n_queries < 2:
            raise InvalidInput("held_out needs at least two queries")
        n_out = min(max(1, round(self.share * n_queries)), n_queries - 1)
        order = np.argsort(rng.random(n_queries), kind="stable")
        return dataset.subset(np.sort(order[n_out:])), dataset.subset(np.sort(order[:n_out]))
