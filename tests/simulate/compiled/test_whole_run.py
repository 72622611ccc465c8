"""Whole runs: the very same rankings and states as `play`, sums and regret as defined."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.session import generators
from rankloop.core.types import Problem, Query
from rankloop.data.dataset import Dataset
from rankloop.learners._shared.compiled_rounds import FixedSetRounds
from rankloop.measures.base import parse_measure
from rankloop.simulate.compiled import whole_run as module
from rankloop.simulate.compiled.whole_run import whole_queries, whole_run
from rankloop.simulate.play import play
from rankloop.simulate.streams.pool import shuffled_rounds

STREAM = build("flipped_relevance(n_items=7, n_relevant=3, flip=0.2)")
ROUNDS = 700
CASES = [
    ("ftpl", "full"),
    ("ftpl(horizon=700, measure='SumLoss')", "full"),
    ("mirror_descent", "full"),
    ("mirror_descent(horizon=700, measure='P@3')", "full"),
    ("rtopk", "top_k"),
    ("rtopk", "full"),
    ("rtopk(horizon=700)", "top_k(depth=3)"),
    ("rtopk(horizon=500, blocks=40, filler='random', estimator='exploration')", "top_k"),
    ("rtopk(inner='mirror_descent', measure='P@2')", "top_k(depth=2)"),
    ("rtopk(horizon=700)", "top_k(depth=9)"),
    ("precision_bandit(n=3)", "top_k"),
    ("precision_bandit(n=3, horizon=700)", "top_k(depth=5)"),
]


class Recorder:
    """Keeps the rankings that pass through `many_rounds`."""

    def __init__(self, learner: Any) -> None:
        self.learner, self.rankings, self.compiled = learner, [], learner.compiled  # type: ignore[var-annotated]

    def init(self, problem: Problem) -> Any:
        return self.learner.init(problem)

    def doubles(self, n_items: int) -> int:
        return int(self.learner.doubles(n_items))

    def many_rounds(self, state: Any, rounds: FixedSetRounds) -> Any:
        state = self.learner.many_rounds(state, rounds)
        self.rankings.append(rounds.rankings)
        return state


def same(left: Any, right: Any) -> bool:
    if isinstance(left, tuple):
        return all(same(a, b) for a, b in zip(left, right, strict=True))
    return bool(np.array_equal(left, right))


@pytest.mark.parametrize(("learner", "people"), CASES)
def test_same_rankings_and_state_as_play(learner: str, people: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIXED_SET_CHUNK", 7 * 97)  # chunks that end inside blocks
    built, shown_to = build(learner, "learner"), build(people, "feedback")
    played = list(play(built, STREAM, shown_to, horizon=ROUNDS, seed=11))
    recorder = Recorder(built)
    run = whole_run(recorder, STREAM, shown_to, horizon=ROUNDS, seed=11, checkpoints=(3, 250))
    assert np.array_equal(np.concatenate(recorder.rankings), [turn.decision.ranking for turn in played])
    assert same(run.state, played[-1].learned)
    assert run.rounds.tolist() == [3, 250, ROUNDS]


@pytest.mark.parametrize("name", ["DCG", "DCG@2", "SumLoss", "P@2"])
def test_regret_is_against_the_best_ranking_of_the_rounds_so_far(name: str) -> None:
    stream, people = build("flipped_relevance(n_items=4, n_relevant=2, flip=0.3)"), build("full")
    learner, measure = build("ftpl"), parse_measure(name)
    run = whole_run(learner, stream, people, horizon=60, seed=2, measure=name, checkpoints=(10, 35))
    rounds = list(play(learner, stream, people, horizon=60, seed=2))
    for end, value, best in zip(run.rounds, run.value, run.best):
        assert value == pytest.approx(sum(measure(turn.decision.ranking, turn.relevance) for turn in rounds[:end]))
        sums = [sum(measure(np.array(p), turn.relevance) for turn in rounds[:end]) for p in permutations(range(4))]
        assert best == pytest.approx(max(sums) if measure.higher_is_better else min(sums))
    sign = 1 if measure.higher_is_better else -1
    assert run.regret() == pytest.approx(sign * (run.best - run.value))
    assert run.regret(factor=0.5) == pytest.approx(sign * (0.5 * run.best - run.value))
    assert run.average_regret() == pytest.approx(run.regret() / run.rounds)


def test_refuses_what_it_cannot_run() -> None:
    ftpl, full = build("ftpl"), build("full")
    with pytest.raises(InvalidInput, match="many_rounds"):
        whole_run(build("random_order"), STREAM, full, horizon=5, seed=0)
    with pytest.raises(InvalidInput, match="top_k people"):
        whole_run(ftpl, STREAM, build("gaussian_grader"), horizon=5, seed=0)
    with pytest.raises(InvalidInput, match="checkpoints"):
        whole_run(ftpl, STREAM, full, horizon=5, seed=0, checkpoints=(6,))
    with pytest.raises(InvalidInput, match="gain"):
        whole_run(ftpl, STREAM, full, horizon=5, seed=0, measure="nDCG")


@pytest.mark.parametrize(("learner", "people"), CASES)
def test_rank_takes_the_doubles_that_the_learner_names(learner: str, people: str) -> None:
    built, shown_to = build(learner, "learner"), build(people, "feedback")
    state = built.init(STREAM.problem._replace(shown=shown_to.shown, depth=shown_to.depth))
    drawn, counted = np.random.default_rng(4), np.random.default_rng(4)
    built.rank(state, Query("", np.zeros((7, 0)), np.zeros(0)), drawn)
    counted.random(built.doubles(7))
    assert drawn.random() == counted.random()


STREAMS = ("separable(n_queries=30, n_items=7, n_features=5)", "linear_gaussian(n_queries=30, n_items=6, n_features=4)")
CASES_OF_QUERIES = [
    ("ranking_perceptron(learning_rate=2.0)", "full"),
    ("ranking_perceptron(measure='AP')", "full"),
    ("ranking_perceptron", "top_k(depth=3)"),
    ("topk_gradient(surrogate='squared', exploration=1.0)", "top_k"),
    ("topk_gradient(surrogate='kl', radius=0.5)", "top_k(depth=3)"),
    ("topk_gradient(surrogate='rank_svm', floor=0.0, exploration=1.0)", "top_k(depth=3)"),
    ("topk_gradient(surrogate='squared', floor=0.0, learning_rate=1e160)", "top_k(depth=2)"),
]


class MixedLengths:
    """Queries of 1 to 9 items, with features up to `size`."""

    def __init__(self, size=1.0):
        self.size = size
        self.problem = build(STREAMS[0], "stream").problem._replace(n_features=3)

    def dataset(self, rng):
        sizes = np.arange(1, 10)
        n_rows = int(sizes.sum())
        features, grades = self.size * rng.random((n_rows, 3)), np.floor(rng.random(n_rows) * 4)
        return Dataset.of(features, grades, np.concatenate(([0], np.cumsum(sizes))))

    def rounds(self, rng):
        return shuffled_rounds(self.dataset(rng), rng)


@pytest.mark.parametrize("chunk", [64, 2**18])
@pytest.mark.parametrize(("learner", "people"), CASES_OF_QUERIES)
@pytest.mark.parametrize("stream", [*(build(text, "stream") for text in STREAMS), MixedLengths()])
def test_the_rankings_and_the_state_are_those_of_play(stream, learner, people, chunk, monkeypatch):
    monkeypatch.setattr(module, "QUERIES_CHUNK", chunk)
    recipe, crowd, judge = build(learner, "learner"), build(people, "feedback"), parse_measure("nDCG@4")
    played = list(play(recipe, stream, crowd, horizon=120, seed=3))
    whole = whole_queries(recipe, stream, crowd, horizon=120, seed=3, measure=judge)
    assert np.array_equal(whole.values, [judge(r.decision.ranking, r.relevance) for r in played])
    for ours, theirs in zip(whole.state, played[-1].learned):
        assert np.array_equal(ours, theirs)


CASES_OF_CLICKS = [
    ("newton_pairs", "dcm(behaviour='informational')"),
    ("newton_pairs(memory=40, ridge=0.5, floor=0.0)", "cascade(shown=3)"),
    ("newton_pairs(diagonal=true, memory=100)", "sdbn(persistence=0.7, shown=4)"),
    ("newton_pairs(alarm=0.5)", "dcm(behaviour='navigational')"),
    ("newton_pairs(ridge=1e-150)", "dcm(behaviour='informational')"),
    ("fair_pairs", "dcm"),
    ("fair_pairs(either=true, memory=5)", "cascade(shown=3)"),
    ("fair_pairs(learning_rate=1e308)", "dcm(behaviour='informational')"),
]


@pytest.mark.parametrize("chunk", [64, 2**18])
@pytest.mark.parametrize(("learner", "people"), CASES_OF_CLICKS)
@pytest.mark.parametrize("stream", [build(STREAMS[0], "stream"), MixedLengths()])
def test_clicks_are_those_of_play(stream, learner, people, chunk, monkeypatch):
    monkeypatch.setattr(module, "QUERIES_CHUNK", chunk)
    recipe, crowd, judge = build(learner, "learner"), build(people, "feedback"), parse_measure("nDCG@4")
    with np.errstate(all="ignore"):
        played = list(play(recipe, stream, crowd, horizon=150, seed=3))
        whole = whole_queries(recipe, stream, crowd, horizon=150, seed=3, measure=judge)
    assert np.array_equal(whole.values, [judge(r.decision.ranking, r.relevance) for r in played])
    for ours, theirs in zip(whole.state, played[-1].learned):
        assert np.array_equal(ours, theirs)


def test_steps_that_play_refuses_are_refused():
    recipe, stream, crowd = build("newton_pairs"), MixedLengths(1e155), build("dcm", "feedback")
    played = list(play(recipe, stream, crowd, horizon=100, seed=3))
    whole = whole_queries(recipe, stream, crowd, horizon=100, seed=3)
    assert 0 < played[-1].refused == 100 - whole.state.rounds


def test_people_who_click_in_their_own_way_are_refused():
    crowd = type("Own", (type(build("dcm", "feedback")),), {"observe": lambda *_: None})()
    for people in (crowd, build("full", "feedback"), build("ubm", "feedback")):
        with pytest.raises(InvalidInput, match="cascade, dcm or sdbn"):
            whole_queries(build("newton_pairs"), build(STREAMS[0], "stream"), people, horizon=5, seed=0)
    with pytest.raises(InvalidInput, match="full or top_k"):
        whole_queries(
            build("ranking_perceptron"), build(STREAMS[0], "stream"), build("dcm", "feedback"), horizon=5, seed=0
        )


def test_what_has_no_compiled_form_is_refused():
    stream, full = build(STREAMS[0], "stream"), build("full", "feedback")
    for learner in ("max_pair_perceptron", "topk_gradient(surrogate='list_net')"):
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
