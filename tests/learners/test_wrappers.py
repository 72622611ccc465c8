"""standardised, random_features and base_score."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, entries
from rankloop.core.types import Decision, Problem, Query, Relevances
from rankloop.learners.wrappers.feature_maps import _add_rows, _cosines, _scale_rows


def rounds(n_rounds: int, n_features: int, scale=1.0, shift=0.0):
    rng = default_rng(0)
    truth = np.linspace(1, -1, n_features)
    for _ in range(n_rounds):
        rows = rng.normal(size=(6, n_features))
        grades = np.round(np.clip(rows @ truth + 1, 0, 2))
        yield Query.of(rows * scale + shift), grades


def taught(learner, data, n_features: int):
    """The learner's state and its predictions on the way."""
    state, predictions = learner.init(Problem(n_features=n_features)), []
    for query, grades in data:
        predictions.append(learner.predict(state, query).tolist())
        ranking = learner.rank(state, query, default_rng(0)).ranking
        state = learner.learn(state, query, Decision(ranking, 0.0, ()), Relevances(ranking, grades[ranking]))
    return state, predictions


@settings(deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.sampled_from([0.0, 1e8]), st.integers(0, 1000))
def test_running_moments_are_those_of_all_rows(sizes: list[int], shift: float, seed: int):
    rng = default_rng(seed)
    parts = [rng.normal(size=(size, 3)) + shift for size in sizes]
    count, mean, squares = 0, np.zeros(3), np.zeros(3)
    for part in parts:
        mean, squares = _add_rows(count, mean, squares, part)
        count += len(part)
    rows = np.concatenate(parts)
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(squares, ((rows - rows.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-6, atol=1e-6)
    if count > 1:
        scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        np.testing.assert_allclose(_scale_rows(count, mean, squares, rows), scaled, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e8, -1e-300])
def test_features_that_never_varied_count_as_zero(constant: float):
    rows = np.full((7, 1), constant)
    mean, squares = _add_rows(0, np.zeros(1), np.zeros(1), rows)
    assert _scale_rows(7, mean, squares, rows).tolist() == [[0.0]] * 7


def test_before_the_first_item_features_are_as_they_are():
    rows = np.array([[3.0, -4.0]])
    assert _scale_rows(0, np.zeros(2), np.zeros(2), rows).tolist() == rows.tolist()


def test_learning_adds_the_query_first_and_then_scales_with_it():
    inner, outer = build("online_gradient"), build("standardised(inner='online_gradient')")
    (query, grades) = next(iter(rounds(1, 3, scale=50.0, shift=7.0)))
    state, _ = taught(outer, [(query, grades)], 3)
    rows = query.features
    scaled = Query.of((rows - rows.mean(axis=0)) / rows.std(axis=0))
    ranking = np.arange(6)
    expected = inner.learn(
        inner.init(Problem(n_features=3)), scaled, Decision(ranking, 0.0, ()), Relevances(ranking, grades)
    )
    np.testing.assert_allclose(state.inner.weights, expected.weights, rtol=1e-9)


def test_size_and_origin_of_features_do_not_matter():
    learner = build("standardised(inner='online_gradient')")
    scale, shift = np.array([1e8, 1.0, 1e-4]), np.array([1e8, 0.0, 5.0])
    _, plain = taught(learner, rounds(40, 3), 3)
    _, raw = taught(learner, rounds(40, 3, scale, shift), 3)
    assert plain == raw


def test_random_features_approach_the_gaussian_kernel():
    learner = build({"kind": "random_features", "inner": "online_gradient", "n_features": 20_000, "bandwidth": 1.5})
    state = learner.init(Problem(n_features=2))
    rows = np.array([[0.0, 0.0], [1.0, -1.0], [0.5, 2.0]])
    mapped = _cosines(rows, state.directions, state.phases)
    distances = ((rows[:, None] - rows) ** 2).sum(axis=2)
    assert np.abs(mapped @ mapped.T - np.exp(-distances / (2 * 1.5**2))).max() < 5 / math.sqrt(20_000)


def test_random_features_against_numpy():
    rng = default_rng(0)
    rows, directions, phases = rng.normal(size=(4, 3)), rng.normal(size=(7, 3)), rng.random(7)
    expected = np.sqrt(2 / 7) * np.cos(rows @ directions.T + phases)
    np.testing.assert_allclose(_cosines(rows, directions, phases), expected, atol=1e-12)


def test_random_features_depend_on_their_seed_alone():
    def directions(seed: int):
        spec = {"kind": "random_features", "inner": "online_gradient", "n_features": 5, "seed": seed}
        return build(spec).init(Problem(n_features=2)).directions.tolist()

    assert directions(1) == directions(1) != directions(2)


def test_random_features_learn_what_a_line_cannot():
    """The best items are those near zero: no weight on x tells them, cosines do."""
    rng = default_rng(3)
    data = []
    for _ in range(300):
        x = rng.uniform(-2, 2, size=(8, 1))
        data.append((Query.of(x), (np.abs(x[:, 0]) < 1).astype(float)))
    ap = build("AP")

    def late_average(spec) -> float:
        _, predictions = taught(build(spec), data, 1)
        return float(np.mean([ap(np.array(p), grades) for p, (_, grades) in zip(predictions[150:], data[150:])]))

    linear = {"kind": "online_gradient", "learning_rate": 1.0}
    assert late_average({"kind": "random_features", "n_features": 30, "inner": linear}) > late_average(linear) + 0.2


def _has_start(cls: type) -> bool:
    fields = getattr(cls, "__dataclass_fields__", {})
    return "start" in fields and "inner" not in fields


LINEAR = [entry.kind for entry in entries("learner") if _has_start(entry.cls)]


@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "standardised"])
def test_every_linear_learner_begins_with_the_base_ranking(kind: str, wrapped: bool):
    inner = {"kind": "standardised", "inner": kind} if wrapped else kind
    learner = build({"kind": "base_score", "inner": inner, "feature": 1})
    rows = default_rng(0).normal(size=(9, 3))
    prediction = learner.predict(learner.init(Problem(n_features=3)), Query.of(rows))
    assert prediction.tolist() == np.argsort(-rows[:, 1], kind="stable").tolist()


def test_the_base_score_is_the_last_feature_and_its_weight_is_learned_on():
    learner = build("base_score(inner='online_gradient(learning_rate=0.01)', weight=2.0)")
    assert learner.init(Problem(n_features=3)).weights.tolist() == [0.0, 0.0, 2.0]
    state, _ = taught(learner, rounds(30, 3), 3)
    assert state.weights[2] < 2.0  # in `rounds` the last feature counts −1
    assert state.weights[0] > 0.0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("base_score(inner='random_order')", "no start weights"),
        ("base_score(inner='online_gradient', weight=0.0)", "weight"),
        ("random_features(inner='online_gradient', n_features=0)", "n_features"),
        ("random_features(inner='online_gradient', bandwidth=0.0)", "bandwidth"),
        ("random_features(inner='online_gradient', bandwidth=1e-320)", "bandwidth"),
        ("random_features(inner='online_gradient', seed=-1)", "seed"),
        ("standardised()", "inner"),
    ],
)
def test_what_makes_no_sense_is_refused(spec: str, message: str):
    with pytest.raises(InvalidInput, match=message):
        build(spec)


def test_the_base_score_has_to_be_one_of_the_features():
    with pytest.raises(InvalidInput, match="feature = 5, of the base score, must be below n_features = 3"):
        build("base_score(inner='online_gradient', feature=5)").init(Problem(n_features=3))


def test_wrappers_report_what_the_inner_learner_reports():
    for kind in ("standardised", "random_features"):
        learner = build({"kind": kind, "inner": "online_gradient"})
        assert learner.reports == ("inner.steps",)
        assert learner.accepts == (Relevances,)
