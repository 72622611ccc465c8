"""Whole runs over queries show exactly what `play` shows."""

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.session import generators
from rankloop.data.dataset import Dataset
from rankloop.data.streams.pool import shuffled_rounds
from rankloop.measures.base import parse_measure
from rankloop.simulate.compiled import whole_run as module
from rankloop.simulate.compiled.whole_run import whole_queries, whole_run
from rankloop.simulate.play import play

STREAMS = ("separable(n_queries=30, n_items=7, n_features=5)", "linear_gaussian(n_queries=30, n_items=6, n_features=4)")
CASES = [
    ("ranking_perceptron(learning_rate=2.0)", "full"),
    ("ranking_perceptron(measure='AP')", "full"),
    ("ranking_perceptron", "top_k(depth=3)"),
    ("topk_gradient(surrogate='squared', exploration=1.0)", "top_k"),
    ("topk_gradient(surrogate='kl', radius=0.5)", "top_k(depth=3)"),
    ("topk_gradient(surrogate='rank_svm', floor=0.0, exploration=1.0)", "top_k(depth=3)"),
    ("topk_gradient(surrogate='squared', floor=0.0, learning_rate=1e160)", "top_k(depth=2)"),
]


class MixedLengths:
    """Queries of 1 to 9 items."""

    def __init__(self):
        self.problem = build(STREAMS[0], "stream").problem._replace(n_features=3)

    def dataset(self, rng):
        sizes = np.arange(1, 10)
        n_rows = int(sizes.sum())
        features, grades = rng.random((n_rows, 3)), np.floor(rng.random(n_rows) * 4)
        return Dataset.of(features, grades, np.concatenate(([0], np.cumsum(sizes))))

    def rounds(self, rng):
        return shuffled_rounds(self.dataset(rng), rng)


@pytest.mark.parametrize("chunk", [64, 2**18])
@pytest.mark.parametrize(("learner", "people"), CASES)
@pytest.mark.parametrize("stream", [*(build(text, "stream") for text in STREAMS), MixedLengths()])
def test_the_rankings_and_the_state_are_those_of_play(stream, learner, people, chunk, monkeypatch):
    monkeypatch.setattr(module, "QUERIES_CHUNK", chunk)
    recipe, crowd, judge = build(learner, "learner"), build(people, "feedback"), parse_measure("nDCG@4")
    played = list(play(recipe, stream, crowd, horizon=120, seed=3))
    whole = whole_queries(recipe, stream, crowd, horizon=120, seed=3, measure=judge)
    assert np.array_equal(whole.values, [judge(r.decision.ranking, r.relevance) for r in played])
    for ours, theirs in zip(whole.state, played[-1].learned):
        assert np.array_equal(ours, theirs)


def test_what_has_no_compiled_form_is_refused():
    stream, full = build(STREAMS[0], "stream"), build("full", "feedback")
    for learner in ("random_order", "topk_gradient(surrogate='list_net')"):
        with pytest.raises(InvalidInput, match="use play"):
            whole_queries(build(learner, "learner"), stream, full, horizon=5, seed=0)
    people = type("Clicker", (), {"shown": None, "depth": None, "observe": None})()
    with pytest.raises(InvalidInput, match="full or top_k"):
        whole_queries(build("ranking_perceptron", "learner"), stream, people, horizon=5, seed=0)


@pytest.mark.parametrize("wrong", [{"horizon": -1}, {"horizon": 2.5}, {"seed": -1}])
def test_numbers_that_count_nothing_are_refused(wrong):
    given = {"horizon": 5, "seed": 0} | wrong
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        whole_queries(build("ranking_perceptron"), build(STREAMS[0], "stream"), build("full", "feedback"), **given)
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        whole_run(
            build("ftpl"), build("flipped_relevance", "stream"), build("full", "feedback"), measure="DCG", **given
        )


def test_draws_in_blocks_are_the_draws_one_by_one():
    one, other = generators(1)[0], generators(1)[0]
    singles = np.concatenate([[one.random()], one.random(5), [one.random()], one.random(3)])
    assert np.array_equal(singles, other.random(10))
