"""The rules that every kind of simulated people keeps, found by walking the registry."""

import numpy as np
import pytest
from numpy.random import PCG64, Generator

from rankloop import Clicks, Preferred, Relevances, Reward, build, spec_of
from rankloop.core.protocols import FeedbackModel
from rankloop.core.registry import entries

KINDS = [entry.kind for entry in entries("feedback")]


class Counting(Generator):
    """Counts its doubles."""

    def __init__(self, seed):
        super().__init__(PCG64(seed))
        self.n_drawn = 0

    def random(self, size=None):
        self.n_drawn += 1 if size is None else int(np.prod(size))
        return super().random(size)


@pytest.mark.parametrize("kind", KINDS)
def test_spec_round_trip_and_protocol(kind):
    users = build(kind, "feedback")
    assert isinstance(users, FeedbackModel)
    assert build(spec_of(users), "feedback") == users


def check_items(users, ranking, feedback):
    """Items of the seen part, each once; grades of all of it, or clicks of weight 1 from the top."""
    items, values = feedback
    part = ranking[: users.shown if isinstance(feedback, Clicks) else users.depth]
    assert items.dtype == np.int64
    assert values.dtype == np.float64
    assert len(items) == len(values) == len(set(items.tolist()))
    assert set(items.tolist()) <= set(part.tolist())
    if isinstance(feedback, Relevances):
        assert items.tolist() == part.tolist()
    else:
        positions = [ranking.tolist().index(item) for item in items]
        assert positions == sorted(positions)
        assert np.all(values == 1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_items", [1, 2, 7, 15])
def test_feedback_fits_what_was_shown(kind, n_items):
    users, rng = build(kind, "feedback"), Generator(PCG64(0))
    for _ in range(50):
        ranking = rng.permutation(n_items)
        relevance = rng.integers(0, 5, n_items).astype(float)
        before = ranking.copy(), relevance.copy()
        feedback = users.observe(ranking, relevance, rng)
        assert isinstance(feedback, Clicks | Relevances | Preferred | Reward)
        if isinstance(feedback, Clicks | Relevances):
            check_items(users, ranking, feedback)
        elif isinstance(feedback, Preferred):
            assert sorted(feedback.ranking) == list(range(n_items))
        else:
            assert np.isfinite(feedback.value)
        assert np.array_equal(before[0], ranking)
        assert np.array_equal(before[1], relevance)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_draws_is_fixed_by_the_number_of_items(kind):
    users, rng, taken = build(kind, "feedback"), Generator(PCG64(1)), set()
    for seed in range(20):
        draws = Counting(seed)
        users.observe(rng.permutation(12), rng.integers(0, 3, 12).astype(float), draws)
        taken.add(draws.n_drawn)
    assert len(taken) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_draws_give_the_same_feedback(kind):
    users, ranking, relevance = build(kind, "feedback"), np.arange(9), np.arange(9.0) % 3
    one = users.observe(ranking, relevance, Generator(PCG64(3)))
    other = users.observe(ranking, relevance, Generator(PCG64(3)))
    assert type(one) is type(other)
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a, b)
