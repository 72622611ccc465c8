"""A stream that holds some of its queries out, so that a ranker can be evaluated on queries that it has not met."""

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

    An experiment with `new_queries` evaluates a learner on the queries that were held out.

    Args:
      inner: A stream over a data set: letor, web_search, linear_gaussian or separable.
      share: The share of the queries that is held out.
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
        """The problem that this stream poses."""
        return self.inner.problem

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        """Yield queries with their relevance, without end."""
        return shuffled_rounds(self.parts(rng)[0], rng, getattr(self.inner, "candidates", None))

    def parts(self, rng: Generator) -> tuple[Dataset, Dataset]:
        """Return the queries that take part and those that are held out, at least one of each."""
        dataset: Dataset = self.inner.dataset(rng)  # type: ignore[attr-defined]
        n_queries = dataset.n_queries
        if n_queries < 2:
            raise InvalidInput("held_out needs at least two queries")
        n_out = min(max(1, round(self.share * n_queries)), n_queries - 1)
        order = np.argsort(rng.random(n_queries), kind="stable")
        return dataset.subset(np.sort(order[n_out:])), dataset.subset(np.sort(order[:n_out]))
