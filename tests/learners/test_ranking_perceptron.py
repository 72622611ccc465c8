"""The perceptrons: mistakes by brute force, steps by hand, and what must not disturb them."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.session import Session
from rankloop.core.types import Problem, Query, Relevances
from rankloop.learners.ranking_perceptron import (
    MaxPairPerceptron,
    Perceptron,
    RankingPerceptron,
    _is_mistake,
    cutoff_and_kind,
    moved,
)
from rankloop.measures.base import parse_measure
from rankloop.surrogates.pairwise import Slam, slam_of

MEASURES = ["nDCG", "nDCG@1", "nDCG@2", "AP"]
LINEAR = ["ranking_perceptron", "max_pair_perceptron", "perceptron"]


def consistent(scores):
    """Every ranking that sorts by these scores, whichever way ties are broken."""
    for order in permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in pairwise(order)):
            yield np.array(order)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0])), min_size=1, max_size=5),
    st.sampled_from(MEASURES),
)
def test_a_mistake_is_a_loss_under_the_worst_tie_break(items, name):
    scores = np.array([float(score) for score, _ in items])
    grades = np.array([grade for _, grade in items])
    measure = parse_measure(name)
    worst = min(measure(ranking, grades) for ranking in consistent(scores))
    assert _is_mistake(scores, grades, *cutoff_and_kind(measure)) == (worst < measure.best(grades) - 1e-12)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-3, 3), st.integers(0, 3)), min_size=1, max_size=6), st.sampled_from(MEASURES))
def test_the_slope_is_that_of_the_slam_surrogate(items, name):
    scores, grades = (np.array(column, dtype=float) for column in zip(*items))
    measure = parse_measure(name)
    cutoff = getattr(measure, "cutoff", None)
    surrogate = Slam(measure="AP") if name == "AP" else Slam(cutoff=cutoff)
    slope = slam_of(scores, grades, *cutoff_and_kind(measure), True, 1.0)[1]
    assert slope == pytest.approx(surrogate.value_and_grad(scores, grades)[1])


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_moved_is_a_gradient_step(n_items, n_features, seed):
    rng = np.random.default_rng(seed)
    weights, features = rng.normal(size=n_features), rng.normal(size=(n_items, n_features))
    items, slope = rng.permutation(n_items), rng.normal(size=n_items)
    assert moved(weights, features, items, slope, 0.3) == pytest.approx(weights - 0.3 * features[items].T @ slope)


def taught(learner, features, grades, problem=None):
    """The state after one round from zero weights."""
    query = Query.of(features)
    session = Session(learner, problem or Problem(len(features[0])), seed=0)
    decision = session.rank(query)
    return session.learn(query, decision, Relevances(decision.ranking, np.array(grades)[decision.ranking]))


def test_one_step_of_algorithm_2_by_hand():
    # all scores tie at 0: a mistake, every better item gets its weight, the first lower item pays for it
    state = taught(RankingPerceptron(measure="nDCG", learning_rate=2.0), np.eye(3), [0.0, 2.0, 1.0])
    ideal = 3 * 1 + 1 / np.log2(3)
    v = np.array([0.0, 3 * 1, 1 / np.log2(3)]) / ideal
    assert state.weights == pytest.approx(2.0 * np.array([-(v[1] + v[2]), v[1], v[2]]))
    assert state.mistakes == 1


def test_one_step_of_algorithm_3_by_hand():
    state = taught(MaxPairPerceptron(learning_rate=2.0), np.eye(2), [0.0, 1.0])
    assert state.weights == pytest.approx([-2.0, 2.0])


def test_one_round_of_algorithm_1_by_hand():
    # item 0: score 0, label +1, mistake: w = x0; item 1: w·x1 = 0.5 > 0, label −1, mistake; item 2: −0.25 < 0, right
    features = [[1.0, 0.0], [0.5, 1.0], [0.5, 0.5]]
    state = taught(Perceptron(), features, [1.0, 0.0, 0.0])
    assert state.weights == pytest.approx([1.0 - 0.5, 0.0 - 1.0])
    assert state.mistakes == 2


def test_items_stored_by_grade_are_no_excuse_at_zero_weights():
    # a stable sort would show the ideal order and learn nothing for ever
    for learner in (RankingPerceptron(), MaxPairPerceptron()):
        assert taught(learner, np.eye(3), [2.0, 1.0, 0.0]).mistakes == 1


def test_a_perfect_round_changes_nothing():
    learner = RankingPerceptron(start=(1.0,))
    query, grades = Query.of([[3.0], [2.0], [1.0]]), np.array([2.0, 1.0, 0.0])
    state = learner.init(Problem(1))
    assert learner.learn(state, query, None, Relevances(np.arange(3), grades)) is state


def test_every_learning_rate_of_algorithm_3_shows_the_same_rankings():
    stream, users = build("separable(n_queries=50)"), build("full")
    from rankloop.simulate.play import play

    runs = [
        [r.decision.ranking for r in play(MaxPairPerceptron(learning_rate=rate), stream, users, horizon=60, seed=3)]
        for rate in (0.25, 4.0)
    ]
    assert np.array_equal(runs[0], runs[1])


@pytest.mark.parametrize("kind", [*LINEAR, "online_gradient", "topk_gradient", "kernel_perceptron"])
@pytest.mark.parametrize(
    ("features", "grades"),
    [
        pytest.param(np.ones((4, 3)), [0.0, 1.0, 2.0, 0.0], id="constant features"),
        pytest.param(np.repeat([[1.0, 2.0, 3.0]], 4, axis=0), [1.0, 0.0, 0.0, 1.0], id="duplicated rows"),
        pytest.param(np.zeros((4, 3)), [0.0, 1.0, 2.0, 0.0], id="all-zero features"),
        pytest.param([[1e8, 1.0, 0.0], [-3e8, 2.0, 1.0], [5e7, 0.0, 4.0]], [0.0, 2.0, 1.0], id="raw MSLR sizes"),
        pytest.param([[1.0, 2.0, 3.0]], [1.0], id="one item"),
        pytest.param(np.eye(3), [0.0, 0.0, 0.0], id="no relevant items"),
        pytest.param(np.eye(3), [0.25, 1.5, 0.75], id="grades that are not whole"),
    ],
)
def test_odd_queries_leave_a_finite_state_and_valid_rankings(kind, features, grades):
    query, relevance = Query.of(features), np.array(grades)
    session = Session(build(kind, "learner"), Problem(3), seed=0)
    for _ in range(5):
        decision = session.rank(query)
        assert sorted(decision.ranking) == list(range(len(relevance)))
        session.learn(query, decision, Relevances(decision.ranking, relevance[decision.ranking]))
    assert all(np.isfinite(part).all() for part in session.state)


@pytest.mark.parametrize("kind", ["ranking_perceptron", "max_pair_perceptron", "kernel_perceptron"])
def test_equal_features_are_never_learned_apart(kind):
    state = taught(build(kind, "learner"), np.ones((4, 3)), [0.0, 1.0, 2.0, 0.0])
    if kind != "kernel_perceptron":
        assert state.weights == pytest.approx([0.0, 0.0, 0.0])


@pytest.mark.parametrize("kind", ["ranking_perceptron", "max_pair_perceptron", "kernel_perceptron"])
def test_no_relevant_item_no_update(kind):
    assert taught(build(kind, "learner"), np.eye(3), [0.0, 0.0, 0.0]).mistakes == 0


@pytest.mark.parametrize("kind", [*LINEAR, "kernel_perceptron"])
def test_mixed_list_lengths_and_partial_grades(kind):
    rng = np.random.default_rng(0)
    session = Session(build(kind, "learner"), Problem(3, depth=4), seed=0)
    for n_items in (1, 7, 3, 50, 2):
        query = Query.of(rng.normal(size=(n_items, 3)))
        decision = session.rank(query)
        items = decision.ranking[:4]
        session.learn(query, decision, Relevances(items, rng.integers(0, 3, len(items)).astype(float)))
    assert session.learned == 5


@pytest.mark.parametrize("measure", ["nDCG(gain='linear')", "AP@5", "AP(relevant_from=2.0)", "RR", "DCG"])
def test_measures_without_a_guarantee_are_refused(measure):
    for kind in ("ranking_perceptron", "max_pair_perceptron", "kernel_perceptron"):
        with pytest.raises(InvalidInput, match="nDCG, nDCG@k or AP"):
            build({"kind": kind, "measure": measure})


@pytest.mark.parametrize("kind", LINEAR)
def test_start_must_fit_the_features(kind):
    assert build({"kind": kind, "start": [1.0, 2.0]}).init(Problem(2)).weights.tolist() == [1.0, 2.0]
    with pytest.raises(InvalidInput, match="start has 2 weights"):
        build({"kind": kind, "start": [1.0, 2.0]}).init(Problem(3))
