"""topk_gradient: the estimate is unbiased by enumeration, its probabilities are those of `rank`, depths are checked."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, spec_of
from rankloop.core.session import Session
from rankloop.core.types import Decision, Problem, Query, Relevances
from rankloop.learners.topk_gradient import (
    KULLBACK_LEIBLER,
    MAX_PAIRED_ITEMS,
    NO_KERNEL,
    PAIR_HINGES,
    SQUARED,
    GradedItems,
    Receipt,
    TopKGradient,
    _estimated_gradient,
    _inclusion,
    _kernel_code,
    _kernel_step,
)
from rankloop.surrogates.pairwise import RankSVM
from rankloop.surrogates.pointwise import SmoothDCG

GENERATOR = np.random.Generator(np.random.PCG64(7))


def everything_shown(learner, state, query):
    """Every ranking with its probability, from log_prob."""
    for order in permutations(range(len(query.features))):
        ranking = np.array(order)
        yield ranking, np.exp(learner.log_prob(state, query, ranking))


def estimate(learner, scores, receipt, seen):
    graded = GradedItems(seen.items, seen.grades, receipt.familiar, receipt.exploration, learner.floor)
    code = _kernel_code(learner.surrogate)
    if code == NO_KERNEL:
        return _estimated_gradient(learner.surrogate, scores, graded)
    return scores - _kernel_step(scores, np.eye(len(scores)), graded, code, 1.0, 1.0, np.inf)


def receipt_of(learner, state, query, depth):
    gamma = min(0.5, learner.exploration * (state.steps + 1) ** -learner.exploration_decay)
    return Receipt(learner.predict(state, query)[:depth].copy(), gamma)


@pytest.mark.parametrize("n_items", [4, 5])
@pytest.mark.parametrize(
    ("surrogate", "depth"),
    [
        ("squared", 1),
        ("squared", 3),
        ("squared(divided='grade')", 1),
        ("squared(divided='grade')", 3),
        ("kl", 1),
        ("kl", 2),
        ("smooth_dcg(smoothing=0.5)", 1),
        ("smooth_dcg(smoothing=0.5)", 3),
        ("rank_svm", 2),
        ("rank_svm", 3),
    ],
)
def test_the_mean_over_all_rankings_is_the_gradient(surrogate, depth, n_items):
    query = Query.of(GENERATOR.normal(size=(n_items, 3)))
    grades = GENERATOR.integers(0, 4, n_items).astype(float)
    learner = TopKGradient(surrogate=surrogate, floor=0.0, exploration=0.4)
    state = learner.init(Problem(3, depth=depth))._replace(weights=GENERATOR.normal(size=3))
    scores = query.features @ state.weights
    mean = np.zeros(n_items)
    for ranking, probability in everything_shown(learner, state, query):
        seen = Relevances(ranking[:depth], grades[ranking[:depth]])
        mean += probability * estimate(learner, scores, receipt_of(learner, state, query, depth), seen)
    _, gradient = learner.surrogate.value_and_grad(scores, grades)
    assert np.abs(mean - gradient).max() <= 1e-10


@pytest.mark.parametrize("n_items", [4, 5])
def test_the_mean_step_of_learn_is_the_gradient_in_the_weights(n_items):
    query = Query.of(GENERATOR.normal(size=(n_items, 3)))
    grades = GENERATOR.integers(0, 3, n_items).astype(float)
    learner = TopKGradient(surrogate="rank_svm", floor=0.0, exploration=0.3, learning_rate=1.0)
    state = learner.init(Problem(3, depth=2))._replace(weights=GENERATOR.normal(size=3))
    step = np.zeros(3)
    for ranking, probability in everything_shown(learner, state, query):
        decision = Decision(ranking, np.log(probability), receipt_of(learner, state, query, 2))
        seen = Relevances(ranking[:2], grades[ranking[:2]])
        step += probability * (state.weights - learner.learn(state, query, decision, seen).weights)
    _, gradient = learner.surrogate.value_and_grad(query.features @ state.weights, grades)
    assert step == pytest.approx(query.features.T @ gradient, abs=1e-10)


@pytest.mark.parametrize("divided", ["residual", "grade"])
@pytest.mark.parametrize("seen_item", [0, 3])
def test_what_is_divided_by_the_probability_of_seeing_it(divided, seen_item):
    """Unbiasedness cannot tell the two apart: by hand, on one round."""
    m, gamma, scores = 4, 0.2, np.array([0.9, 0.5, 0.2, 0.1])
    grade, seen = 3.0, Relevances(np.array([seen_item]), np.array([3.0]))
    p = 1 - gamma + gamma / m if seen_item == 0 else gamma / m
    expected = 2 * scores if divided == "grade" else np.zeros(m)
    expected[seen_item] = 2 * (scores[seen_item] - grade) / p
    if divided == "grade":  # equation of section 3.3.3.1: 2 (s − R(σ₁)·e / p)
        expected[seen_item] = 2 * (scores[seen_item] - grade / p)
    learner = TopKGradient(surrogate=f"squared(divided={divided!r})", floor=0.0)
    receipt = Receipt(np.array([0]), gamma)
    assert estimate(learner, scores, receipt, seen) == pytest.approx(expected)
    decision = Decision(np.array([seen_item, *(i for i in range(m) if i != seen_item)]), 0.0, receipt)
    state = learner.init(Problem(m, depth=1))._replace(weights=scores)
    learned = learner.learn(state, Query.of(np.eye(m)), decision, seen)
    assert scores - learned.weights == pytest.approx(0.01 * expected)


def test_the_residual_is_divided_unless_said():
    scores, receipt = np.array([0.9, 0.5, 0.2]), Receipt(np.array([0]), 0.2)
    seen = Relevances(np.array([2]), np.array([3.0]))
    plain, named = (TopKGradient(surrogate=spec) for spec in ("squared", "squared(divided='residual')"))
    assert np.array_equal(estimate(plain, scores, receipt, seen), estimate(named, scores, receipt, seen))
    assert spec_of(plain)["surrogate"] == {"kind": "squared", "divided": "residual"}
    with pytest.raises(InvalidInput, match="divided"):
        build({"kind": "squared", "divided": "both"}, "surrogate")


@pytest.mark.parametrize(("code", "kind"), [(SQUARED, "squared"), (KULLBACK_LEIBLER, "kl"), (PAIR_HINGES, "rank_svm")])
@pytest.mark.parametrize("depth", [2, 3, 6])
def test_the_compiled_step_goes_along_the_general_estimate(code, kind, depth):
    scores, grades = GENERATOR.normal(size=6), GENERATOR.integers(0, 3, 6).astype(float)
    features = np.eye(6)  # item i has feature i only: its weight is its score, and moves by its slope
    for _ in range(30):
        items, best = GENERATOR.permutation(6)[:depth], GENERATOR.permutation(6)[:depth]
        seen = GradedItems(items, grades[items], best, 0.3, 0.0)
        general = _estimated_gradient(build(kind, "surrogate"), scores, seen)
        step = scores - _kernel_step(scores, features, seen, code, 1.0, 1.0, np.inf)
        assert step == pytest.approx(general)


@pytest.mark.parametrize("depth", [2, MAX_PAIRED_ITEMS, MAX_PAIRED_ITEMS + 1])
def test_pairs_are_counted_in_the_kernel_while_they_are_few(monkeypatch, depth):
    """The compiled step and the general estimate give the same bits; only many grades need the surrogate's Python."""
    learner, problem = build("topk_gradient(surrogate='rank_svm', exploration=1.0)"), Problem(5, depth=depth)
    queries = [(GENERATOR.normal(size=(60, 5)), GENERATOR.integers(0, 3, 60).astype(float)) for _ in range(20)]

    def weights():
        session = Session(learner, problem)
        for features, grades in queries:
            query = Query.of(features)
            decision = session.rank(query)
            items = decision.ranking[:depth].copy()
            session.learn(query, decision, Relevances(items, grades[items]))
        return session.state.weights

    compiled, calls = weights(), []
    terms = RankSVM.terms
    monkeypatch.setattr(RankSVM, "terms", lambda *arguments: calls.append(1) or terms(*arguments))
    assert np.array_equal(weights(), compiled)
    assert bool(calls) == (depth > MAX_PAIRED_ITEMS)
    monkeypatch.setattr("rankloop.learners.topk_gradient.MAX_PAIRED_ITEMS", 0)
    assert np.array_equal(weights(), compiled)


def test_annealing_is_the_gradient_of_the_sharper_surrogate():
    query, grades = Query.of(GENERATOR.normal(size=(4, 2))), np.array([3.0, 1.0, 2.0, 1.0])
    annealed = TopKGradient(surrogate=SmoothDCG(smoothing=1.0), smoothing_decay=0.5, exploration=0.0)
    sharp = TopKGradient(surrogate=SmoothDCG(smoothing=0.5), exploration=0.0)
    state = annealed.init(Problem(2, depth=1))._replace(steps=3, weights=np.array([1.0, -1.0]))  # t = 4: 4^-½ = 0.5
    decision = annealed.rank(state, query, np.random.default_rng(0))
    seen = Relevances(decision.ranking[:1], grades[decision.ranking[:1]])
    after = annealed.learn(state, query, decision, seen), sharp.learn(state, query, decision, seen)
    assert after[0].weights == pytest.approx(after[1].weights)
    assert not np.array_equal(after[0].weights, state.weights)


@settings(deadline=None)
@given(st.integers(2, 6), st.floats(0.01, 0.5), st.data())
def test_inclusion_is_the_enumerated_probability(n_items, gamma, data):
    depth = data.draw(st.integers(1, n_items))
    span = data.draw(st.integers(1, min(depth, 2)))
    wanted = set(data.draw(st.permutations(range(n_items)))[:span])
    rankings = list(permutations(range(n_items)))
    uniform = sum(wanted <= set(ranking[:depth]) for ranking in rankings) / len(rankings)
    familiar = wanted <= set(range(depth))  # the best ranking is 0, 1, 2, …
    expected = gamma * uniform + (1 - gamma) * familiar
    assert _inclusion(n_items, depth, span, gamma, familiar) == pytest.approx(expected)


def test_the_closed_forms_of_the_paper():
    m, gamma = 7, 0.2
    assert _inclusion(m, 1, 1, gamma, True) == pytest.approx(1 - gamma + gamma / m)
    assert _inclusion(m, 1, 1, gamma, False) == pytest.approx(gamma / m)
    assert _inclusion(m, 2, 2, gamma, True) == pytest.approx(1 - gamma + 2 * gamma / (m * (m - 1)))
    assert _inclusion(m, 2, 2, gamma, False) == pytest.approx(2 * gamma / (m * (m - 1)))


def test_the_floor_bounds_what_an_unlikely_item_can_do():
    scores, receipt = np.array([3.0, 2.0, 1.0]), Receipt(np.array([0]), 0.03)
    seen = Relevances(np.array([2]), np.array([4.0]))
    slope = 2 * (1.0 - 4.0)
    assert estimate(TopKGradient(floor=0.0), scores, receipt, seen)[2] == pytest.approx(slope / (0.03 / 3))
    assert estimate(TopKGradient(floor=0.3), scores, receipt, seen)[2] == pytest.approx(slope / 0.3)
    assert estimate(TopKGradient(floor=1.0), scores, receipt, seen)[2] == pytest.approx(slope)


def test_more_grades_mean_less_variance():
    query = Query.of(GENERATOR.normal(size=(5, 3)))
    grades = np.array([2.0, 0.0, 1.0, 0.0, 3.0])
    learner = TopKGradient(floor=0.0, exploration=0.4)
    spread = []
    for depth in (1, 3):
        state = learner.init(Problem(3, depth=depth))._replace(weights=np.array([1.0, 0.5, -0.2]))
        scores, receipt = query.features @ state.weights, receipt_of(learner, state, query, depth)
        squares = [
            probability * np.sum(estimate(learner, scores, receipt, Relevances(r[:depth], grades[r[:depth]])) ** 2)
            for r, probability in everything_shown(learner, state, query)
        ]
        spread.append(sum(squares))
    assert spread[0] > 2 * spread[1]


@pytest.mark.parametrize(
    ("surrogate", "depth", "needed"),
    [("list_net", 3, "all items"), ("slam", 2, "all items"), ("rank_svm", 1, "depth 2"), ("max_pair", 5, "all items")],
)
def test_a_depth_that_cannot_estimate_the_surrogate_is_refused(surrogate, depth, needed):
    with pytest.raises(InvalidInput, match=needed):
        TopKGradient(surrogate=surrogate).init(Problem(3, depth=depth))


@pytest.mark.parametrize("surrogate", ["list_net", "slam", "rank_svm", "calibrated_squared"])
def test_full_relevance_gives_the_plain_gradient_for_every_surrogate(surrogate):
    scores, grades = np.array([0.3, -0.2, 0.1, 0.4]), np.array([1.0, 0.0, 2.0, 0.0])
    learner = build({"kind": "topk_gradient", "surrogate": surrogate})
    learner.init(Problem(3))
    items = np.array([2, 0, 3, 1])
    found = estimate(learner, scores, Receipt(items, 0.4), Relevances(items, grades[items]))
    assert found == pytest.approx(learner.surrogate.value_and_grad(scores, grades)[1])


def test_lists_shorter_than_the_depth():
    session = Session(TopKGradient(surrogate="rank_svm"), Problem(2, depth=3), seed=1)
    for n_items in (1, 2, 3, 4, 1):
        query = Query.of(GENERATOR.normal(size=(n_items, 2)))
        decision = session.rank(query)
        items = decision.ranking[:3]
        session.learn(query, decision, Relevances(items, items.astype(float)))
    assert session.state.steps == 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"floor": 1.5},
        {"floor": -0.1},
        {"learning_rate": 0.0},
        {"exploration": -1.0},
        {"radius": 0.0},
        {"start": (float("nan"),)},
        {"smoothing_decay": 0.1},
    ],
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(InvalidInput):
        TopKGradient(**wrong)


def test_the_weights_stay_inside_the_radius():
    learner = TopKGradient(radius=0.5, learning_rate=10.0)
    session = Session(learner, Problem(3, depth=1), seed=0)
    for _ in range(20):
        query = Query.of(GENERATOR.normal(size=(4, 3)))
        decision = session.rank(query)
        session.learn(query, decision, Relevances(decision.ranking[:1], np.array([4.0])))
        assert np.linalg.norm(session.state.weights) <= 0.5 + 1e-12
