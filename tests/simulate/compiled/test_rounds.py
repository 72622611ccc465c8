"""Rounds that compiled code has played are those of the loop, part by part."""

from itertools import pairwise

import numpy as np
import pytest

from rankloop.core.registry import build
from rankloop.core.types import Arrival
from rankloop.simulate.compiled import rounds as module
from rankloop.simulate.compiled.rounds import PlayedRound, can_be_compiled
from rankloop.simulate.play import Round, play

CASES = [
    ("ranking_perceptron(learning_rate=2.0)", "full"),
    ("ranking_perceptron(measure='AP')", "top_k(depth=3)"),
    ("ranking_perceptron(learning_rate=1e308)", "full"),
    ("topk_gradient(exploration=1.0)", "top_k"),
    ("topk_gradient(surrogate='kl', radius=0.5)", "full"),
    ("topk_gradient(surrogate='rank_svm', floor=0.0, exploration=1.0)", "top_k(depth=3)"),
    ("topk_gradient(surrogate='squared', floor=0.0, learning_rate=1e160)", "top_k(depth=2)"),
    ("topk_gradient(surrogate='smooth_dcg', smoothing_decay=0.1, exploration=1.0, radius=2.0)", "top_k(depth=2)"),
    ("online_gradient(schedule='root', radius=0.5)", "full"),
    ("online_gradient(learning_rate=1e308)", "top_k(depth=3)"),
    ("random_order", "top_k"),
]
PARTS = ("t", "query", "relevance", "state", "decision", "arrived", "learned", "feedback", "refused")


class OneByOne:
    """A stream that `play` does not know, so that it goes round by round."""

    def __init__(self, inner):
        self.inner, self.problem = inner, inner.problem

    def rounds(self, rng):
        return self.inner.rounds(rng)


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    rng, lines = np.random.default_rng(0), []
    for query, n_items in enumerate(range(1, 8)):
        for _ in range(n_items):
            marks = " ".join(f"{j + 1}:{value:.3f}" for j, value in enumerate(rng.normal(size=4)))
            lines.append(f"{rng.integers(4)} qid:q{query} {marks}\n")
    path = tmp_path_factory.mktemp("letor") / "mixed.txt"
    path.write_text("".join(lines))
    gaussian = build("linear_gaussian(n_queries=20, n_items=6, n_features=4)", "stream")
    return {"gaussian": gaussian, "mixed lengths": build({"kind": "letor", "path": str(path)}, "stream")}


def alike(one, other):
    if isinstance(one, tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, np.ndarray):
        same = one.dtype == other.dtype and one.flags.c_contiguous and other.flags.c_contiguous
        return same and np.array_equal(one, other)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("chunk", [32, 2**13])
@pytest.mark.parametrize("kind", ["gaussian", "mixed lengths"])
@pytest.mark.parametrize(("learner", "people"), CASES)
def test_every_part_is_that_of_the_loop(streams, kind, learner, people, chunk, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", chunk)
    recipe, crowd = build(learner, "learner"), build(people, "feedback")
    fast = list(play(recipe, streams[kind], crowd, horizon=150, seed=5))
    slow = list(play(recipe, OneByOne(streams[kind]), crowd, horizon=150, seed=5))
    assert {type(round) for round in fast} == {PlayedRound}
    assert {type(round) for round in slow} == {Round}
    for ours, theirs in zip(fast, slow, strict=True):
        for part in PARTS:
            assert alike(getattr(ours, part), getattr(theirs, part)), part
        assert (ours.learned is ours.state) == (theirs.learned is theirs.state)
    assert all(before.learned is after.state for before, after in pairwise(fast))


def test_the_parts_of_a_round_belong_together(streams):
    (round,) = play(build("topk_gradient"), streams["gaussian"], build("top_k"), horizon=1, seed=0)
    t, query, *_, decision, arrived, learned = round
    assert (t, query, decision, learned) == (0, round.query, round.decision, round.learned)
    assert arrived == (Arrival(query, decision, round.feedback),)
    assert arrived[0].decision is decision
    assert not hasattr(round, "mood")


def test_a_kept_state_can_be_learned_from(streams):
    learner = build("topk_gradient")
    for round in play(learner, streams["gaussian"], build("top_k"), horizon=30, seed=0):
        after = learner.learn(round.state, *round.arrived[0])
        assert alike(after, round.learned)


def test_what_may_differ_goes_round_by_round(streams):
    gaussian, full = streams["gaussian"], build("full")

    class OtherRank(type(build("ranking_perceptron"))):
        def rank(self, state, query, rng):
            return super().rank(state, query, rng)

    assert can_be_compiled(build("ranking_perceptron"), gaussian, full)
    assert not can_be_compiled(OtherRank(), gaussian, full)
    assert not can_be_compiled(build("max_pair_perceptron"), gaussian, full)
    assert not can_be_compiled(build("online_gradient(schedule='adaptive')"), gaussian, full)
    assert not can_be_compiled(build("topk_gradient(surrogate='list_net')"), gaussian, full)
    assert not can_be_compiled(build("ranking_perceptron"), gaussian, build("noisy_reader"))
    assert not can_be_compiled(build("ranking_perceptron"), OneByOne(gaussian), full)
    some = build({"kind": "letor", "path": streams["mixed lengths"].path, "candidates": 2}, "stream")
    assert not can_be_compiled(build("ranking_perceptron"), some, full)
    late = play(build("ranking_perceptron"), gaussian, full, horizon=3, seed=0, delivery=build("late"))
    assert {type(round) for round in late} == {Round}
