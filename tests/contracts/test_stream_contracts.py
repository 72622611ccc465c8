"""Every stream gives what its problem announces, by its seed alone, and item numbers do not tell the grades."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.contracts.cases import _first_difference
from rankloop.core.registry import Entry, entries
from tests.contracts.examples import examples_of

streams = pytest.mark.parametrize("entry", entries("stream"), ids=lambda entry: entry.kind)


def rounds(stream: Any, n: int, seed: int = 0):
    for query, relevance in islice(stream.rounds(default_rng(seed)), n):
        yield query, relevance(np.arange(len(query.features))) if callable(relevance) else relevance


@streams
def test_queries_are_what_the_problem_announces(entry: Entry):
    for stream in examples_of(entry.cls):
        problem = stream.problem
        for query, relevance in rounds(stream, 40):
            n_items, n_features = query.features.shape
            assert n_features == problem.n_features
            assert problem.n_items in (None, n_items)
            assert query.context.shape == (problem.n_context,)
            assert relevance.shape == (n_items,)
            assert relevance.dtype == np.float64
            assert relevance.min() >= 0
            assert relevance.max() <= problem.max_grade
            assert query.features.dtype == np.float64
            assert query.features.flags.c_contiguous
            assert query.features.flags.writeable, "read-only arrays recompile every kernel"
            assert np.isfinite(query.features).all()


@streams
def test_the_seed_decides_everything(entry: Entry):
    for stream in examples_of(entry.cls):
        one, again, other = (tuple(rounds(stream, 30, seed)) for seed in (1, 1, 2))
        assert not _first_difference(one, again)
        assert _first_difference(one, other) or adversary(stream), "another seed gives the same rounds"


@streams
def test_items_are_shuffled(entry: Entry):
    for stream in examples_of(entry.cls):
        if stream.problem.n_items is None and not adversary(stream):
            trends = [trend(relevance) for _, relevance in rounds(stream, 400)]
            error = np.std(trends) / np.sqrt(len(trends))
            assert abs(np.mean(trends)) <= 5 * error + 1e-12, f"grades follow the item number: {np.mean(trends)}"


def adversary(stream: Any) -> bool:
    """Whether the grades answer the ranking that is shown."""
    return callable(next(stream.rounds(default_rng(0)))[1])


def trend(relevance: Any) -> float:
    """The covariance of grade and item number."""
    positions = np.arange(len(relevance)) - (len(relevance) - 1) / 2
    return float(np.mean(positions * relevance))
