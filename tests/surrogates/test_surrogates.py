"""Each surrogate against a plain second reading of its formula."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, entries
from rankloop.surrogates.base import levels_of
from rankloop.surrogates.pairwise import _best_below, ndcg_weights


def softmax(values: Any) -> Any:
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def discounts(n: int) -> Any:
    return 1 / np.log2(np.arange(n) + 2)


def squared(s: Any, r: Any) -> tuple[float, Any]:
    return np.sum((s - r) ** 2), 2 * (s - r)


def list_net(s: Any, r: Any) -> tuple[float, Any]:
    return -softmax(r) @ np.log(softmax(s)), softmax(s) - softmax(r)


def kl(s: Any, r: Any) -> tuple[float, Any]:
    p, q = np.exp(r), np.exp(s)
    return np.sum(p * np.log(p) - p * np.log(q) - p + q), q - p


def smooth_dcg(s: Any, r: Any) -> tuple[float, Any]:
    p, gain = softmax(s), 2**r - 1
    return -p @ gain, -(np.diag(p) - np.outer(p, p)) @ gain


def rank_svm(s: Any, r: Any) -> tuple[float, Any]:
    value, grad = 0.0, np.zeros(len(s))
    for i in range(len(s)):
        for j in range(len(s)):
            if r[i] > r[j] and 1 + s[j] - s[i] > 0:
                value += 1 + s[j] - s[i]
                grad += np.eye(len(s))[j] - np.eye(len(s))[i]
    return value, grad


def calibrated_squared(s: Any, r: Any) -> tuple[float, Any]:
    gain = 2**r - 1
    ideal = np.sort(gain)[::-1] @ discounts(len(r))
    gap = s - (gain / ideal if ideal else 0)
    return gap @ gap, 2 * gap


def max_pair(s: Any, r: Any) -> tuple[float, Any]:
    pairs = [(1 + s[j] - s[i]) for i in range(len(s)) for j in range(len(s)) if r[i] > r[j]]
    return max([0.0, *pairs]), None  # the sub-gradient is not unique: see the checklist


def slam(s: Any, r: Any) -> tuple[float, Any]:
    return hinged(s, r, mean_weights(r)), None


def mean_weights(r: Any, cutoff: int | None = None) -> Any:
    """gain · discount in an order by grade, divided by their sum; equal grades share."""
    order = np.argsort(-r, kind="stable")
    cut = discounts(len(r)) * (np.arange(len(r)) < (cutoff or len(r)))
    weights = np.empty(len(r))
    weights[order] = (2 ** r[order] - 1) * cut
    for grade in np.unique(r):
        weights[r == grade] = weights[r == grade].mean()
    return weights / weights.sum() if weights.sum() else weights


def hinged(s: Any, r: Any, weights: Any, margin: float = 1.0) -> float:
    total = 0.0
    for i in range(len(s)):
        lower = s[r < r[i]]
        total += weights[i] * max([0.0, *(margin + lower - s[i])])
    return total


def squared_gains(s: Any, r: Any) -> tuple[float, Any]:
    gap = s - (2**r - 1)
    return float(gap @ gap), 2 * gap


TWINS = (squared, squared_gains, list_net, kl, smooth_dcg, rank_svm, calibrated_squared, max_pair, slam)
BY_KIND = {twin.__name__: twin for twin in TWINS}

whole = st.integers(0, 4).map(float)
fine = st.integers(0, 12).map(lambda quarter: quarter / 4)
ragged = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, n, elements=st.floats(-8, 8, width=16)),
        st.one_of(arrays(np.float64, n, elements=whole), arrays(np.float64, n, elements=fine)),
    )
)


def test_every_surrogate_has_a_twin():
    assert set(BY_KIND) == {entry.kind for entry in entries("surrogate")}


@pytest.mark.parametrize("kind", sorted(BY_KIND))
@settings(deadline=None, max_examples=150)
@example((np.zeros(3), np.zeros(3)))
@example((np.array([100.0, -50.0, 3.0] * 30), np.array([0.0, 2.0, 1.0] * 30)))  # longer than the small sort
@given(ragged)
def test_value_and_gradient(kind: str, case: tuple[Any, Any]):
    scores, relevance = case
    value, grad = build(kind, "surrogate").value_and_grad(scores, relevance)
    expected, expected_grad = BY_KIND[kind](scores, relevance)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    if expected_grad is not None:
        np.testing.assert_allclose(grad, expected_grad, rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(ragged, st.integers(1, 5), st.sampled_from([0.5, 2.0]))
def test_slam_with_cutoff_and_margin(case: tuple[Any, Any], cutoff: int, margin: float):
    scores, relevance = case
    slam = build({"kind": "slam", "cutoff": cutoff, "margin": margin}, "surrogate")
    value, _ = slam.value_and_grad(scores, relevance)
    expected = hinged(scores, relevance, mean_weights(relevance, cutoff), margin)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(deadline=None)
@given(ragged)
def test_slam_with_the_weights_of_average_precision(case: tuple[Any, Any]):
    scores, relevance = case
    relevant = (relevance >= 1).astype(float)
    weights = relevant / max(relevant.sum(), 1)
    value, _ = build("slam(measure='AP')", "surrogate").value_and_grad(scores, relevance)
    assert value == pytest.approx(hinged(scores, relevant, weights), rel=1e-9, abs=1e-9)


@settings(deadline=None)
@given(ragged)
def test_levels_follow_the_grades(case: tuple[Any, Any]):
    scores, relevance = case
    levels, n_levels = levels_of(relevance)
    assert np.array_equal(np.sign(levels[:, None] - levels), np.sign(relevance[:, None] - relevance))
    assert levels.max() < n_levels
    below = _best_below(scores, levels, n_levels)
    for i, level in enumerate(levels):
        lower = scores[relevance < relevance[i]]
        assert (below[level] < 0) == (len(lower) == 0)
        if len(lower):
            assert scores[below[level]] == lower.max()


def test_weights_written_out():
    relevance = np.array([0.0, 1.0, 2.0, 1.0])
    gains = [3, 1 / 2 * (1 / np.log2(3) + 1 / np.log2(4)), 1 / 2 * (1 / np.log2(3) + 1 / np.log2(4))]
    levels, n_levels = levels_of(relevance)
    shared = ndcg_weights(relevance, levels, n_levels, 4, True)
    np.testing.assert_allclose(shared, np.array([0, gains[1], gains[0], gains[2]]) / sum(gains))
    in_order = ndcg_weights(relevance, levels, n_levels, 4, False)
    np.testing.assert_allclose(in_order, np.array([0, 1 / np.log2(3), 3, 1 / np.log2(4)]) / sum(gains))


@pytest.mark.parametrize("spec", ["slam", "slam(within='item_order')", "slam(cutoff=2)", "calibrated_squared"])
@given(
    arrays(np.float64, 4, elements=st.floats(-3, 3)),
    arrays(np.float64, 4, elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0])),
)
@example(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, -1.0, -2.0, -1.0]))
def test_negative_grades_count_as_zero(spec, scores, relevance):
    surrogate = build(spec, "surrogate")
    value, grad = surrogate.value_and_grad(scores, relevance)
    wanted, slope = surrogate.value_and_grad(scores, np.maximum(relevance, 0.0))
    assert value == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(grad, slope, rtol=1e-12, atol=1e-12)


def in_score_order(scores: Any, relevance: Any) -> float:
    """SLAM with equal grades ordered by score."""
    order = np.lexsort((-scores, -relevance))
    weights = np.empty(len(scores))
    weights[order] = (2 ** relevance[order] - 1) * discounts(len(scores))
    return hinged(scores, relevance, weights / weights.sum())


def test_ordering_equal_grades_by_score_would_destroy_convexity():
    relevance, one, other = np.array([1.0, 1.0, 0.0]), np.array([1.0, -1.0, 0.0]), np.array([-1.0, 1.0, 0.0])
    ends = (in_score_order(one, relevance) + in_score_order(other, relevance)) / 2
    assert in_score_order((one + other) / 2, relevance) > ends + 0.1
    for within in ("mean", "item_order"):
        surrogate = build({"kind": "slam", "within": within}, "surrogate")
        values = [surrogate.value_and_grad(scores, relevance)[0] for scores in (one, other, (one + other) / 2)]
        assert values[2] <= (values[0] + values[1]) / 2 + 1e-12


@pytest.mark.parametrize(
    "spec",
    ["slam(margin=0.0)", "slam@0", "slam(measure='AP', cutoff=3)", "slam(measure='AUC')", "smooth_dcg(smoothing=0.0)"],
)
def test_parameters_without_meaning_are_refused(spec: str):
    with pytest.raises(InvalidInput):
        build(spec, "surrogate")
