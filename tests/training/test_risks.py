"""The numerical checklist, run over every registered risk by walking the registry."""

from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import entries
from rankloop.measures.base import parse_measure
from rankloop.training.risks.base import StructuredRisk, risk_of
from rankloop.training.risks.listwise import SlamRisk
from rankloop.training.risks.pairwise import hinge_of_pairs
from rankloop.training.risks.structured_loss import ERULoss, NDCGLoss, NERULoss, PrecisionLoss

RISKS = [entry.cls(**parameters) for entry in entries("risk") for parameters in getattr(entry.cls, "examples", ({},))]
each = pytest.mark.parametrize("risk", RISKS, ids=str)
structured = pytest.mark.parametrize("risk", [r for r in RISKS if isinstance(r, StructuredRisk)], ids=str)
STEP = 1e-6


def bounded_measure(risk: Any) -> str | None:
    """The measure whose loss a risk bounds."""
    if isinstance(risk, SlamRisk):
        if risk.margin < 1:
            return None
        return risk.measure if risk.cutoff is None else f"{risk.measure}@{risk.cutoff}"
    if isinstance(risk, PrecisionLoss):
        return "P" if risk.cutoff is None else f"P(relevant_from={risk.relevant_from})@{risk.cutoff}"
    name = {NDCGLoss: "nDCG", ERULoss: "ERU", NERULoss: "NERU"}.get(type(risk))
    if isinstance(risk, ERULoss | NERULoss):
        name = f"{name}(half_life={risk.half_life}, neutral={risk.neutral})"
    return name if name is None or risk.cutoff is None else f"{name}@{risk.cutoff}"


def lists(n: int, scale: float = 2.0, seed: int = 0):
    """Scores and grades of lists of 1 to 6 items, some without relevant items, some all alike."""
    rng = default_rng(seed)
    for t in range(n):
        n_items = 1 + t % 6
        yield scale * rng.normal(size=n_items), rng.integers(0, 1 + t % 5, n_items).astype(float)


def one(risk: Any, scores: Any, relevance: Any) -> tuple[float, Any]:
    return risk.of_lists(np.asarray(scores, float), np.asarray(relevance, float), np.array([0, len(scores)]))


def test_all_the_risks_are_there():
    kinds = {entry.kind for entry in entries("risk")}
    assert kinds >= {"least_squares", "ordinal", "preferences", "ndcg", "precision", "eru", "neru", "list_net", "slam"}


@each
def test_gradient_by_finite_differences(risk: Any):
    for scores, relevance in lists(60):
        _, grad = one(risk, scores, relevance)
        for i in range(len(scores)):
            nudge = STEP * np.eye(len(scores))[i]
            slope = (one(risk, scores + nudge, relevance)[0] - one(risk, scores - nudge, relevance)[0]) / (2 * STEP)
            assert slope == pytest.approx(grad[i], rel=1e-5, abs=1e-5)


@each
def test_never_negative_and_convex_at_midpoints(risk: Any):
    for (left, relevance), (right, _) in zip(lists(300, 4.0, 1), lists(300, 4.0, 2)):
        ends = [one(risk, scores, relevance)[0] for scores in (left, right)]
        assert min(ends) >= -1e-12
        assert one(risk, (left + right) / 2, relevance)[0] <= sum(ends) / 2 + 1e-9


@each
def test_subgradients_support_from_below_also_at_kinks(risk: Any):
    for (rough, relevance), (other, _) in zip(lists(200, seed=3), lists(200, seed=4)):
        for scores in (np.round(rough), np.zeros_like(rough)):  # whole numbers: ties, and margins met exactly
            value, grad = one(risk, scores, relevance)
            assert one(risk, other, relevance)[0] >= value + grad @ (other - scores) - 1e-9


@each
def test_many_lists_are_summed_each_with_its_own_slope(risk: Any):
    several = list(lists(12, seed=5))
    offsets = np.cumsum([0] + [len(scores) for scores, _ in several])
    value, grad = risk.of_lists(*(np.concatenate(parts) for parts in zip(*several)), offsets)
    alone = [one(risk, scores, relevance) for scores, relevance in several]
    assert value == pytest.approx(sum(part for part, _ in alone), rel=1e-12)
    np.testing.assert_allclose(grad, np.concatenate([part for _, part in alone]), atol=1e-12)


@each
def test_upper_bound_on_what_its_measure_loses_with_ties_broken_against_it(risk: Any):
    name = bounded_measure(risk)
    if name is None:
        return
    measure = parse_measure(name)
    normalised = getattr(risk, "normalised", True)
    for n_items, levels in ((2, (0.0, 1.0, 2.0)), (3, (0.0, 0.5, 1.0)), (4, (0.0, 1.0))):
        for relevance in map(np.array, product((0.0, 1.0, 2.0), repeat=n_items)):
            best = measure.best(relevance)
            for scores in map(np.array, product(levels, repeat=n_items)):
                worst = min(measure(ranking, relevance) for ranking in rankings_by(scores))
                lost = best - worst
                scale = best if normalised and best > 0 else 1.0
                assert one(risk, scores, relevance)[0] >= lost / scale - 1e-12


@structured
def test_structured_losses_are_the_maximum_over_all_rankings(risk: Any):
    for scores, relevance in lists(60, seed=6):
        n = len(scores)
        k = n if risk.cutoff is None else min(risk.cutoff, n)
        a, c = np.zeros(n), np.zeros(n)
        a[:k], c[:k] = risk._discounts(k), (1.0 + np.arange(k)) ** -0.25
        b = risk._gains(relevance)
        ideal = max(sum(a[p] * b[i] for p, i in enumerate(ranking)) for ranking in permutations(range(n)))
        if ideal == 0:
            assert one(risk, scores, relevance)[0] == 0
            continue
        unit = ideal if risk.normalised else 1.0
        orders = list(permutations(sorted(range(n), key=lambda i: -b[i])))
        perfect = [order for order in orders if sum(a[p] * b[i] for p, i in enumerate(order)) > ideal - 1e-12]
        in_order = [order for order in perfect if all(b[i] >= b[j] for i, j in pairwise(order))]
        ref = np.mean([[c[order.index(i)] for i in range(n)] for order in in_order], axis=0)
        expected = max(sum(c[p] * scores[i] - a[p] * b[i] / unit for p, i in enumerate(order)) for order in orders)
        expected += ideal / unit - ref @ scores
        assert one(risk, scores, relevance)[0] == pytest.approx(expected, abs=1e-12)
        np.testing.assert_allclose(risk.ideal_anchors(relevance, np.array([0, n])), ref, atol=1e-12)


@structured
def test_the_tight_form_touches_at_its_anchor_and_is_between_measure_and_convex_form(risk: Any):
    measure = parse_measure(bounded_measure(risk) or "")
    for (scores, relevance), (other, _) in zip(lists(60, seed=7), lists(60, seed=8)):
        offsets = np.array([0, len(scores)])
        ideal = risk.ideal_anchors(relevance, offsets)

        def tight(at: Any, anchored: Any, relevance: Any = relevance, offsets: Any = offsets, ideal: Any = ideal):
            return one(risk, at, relevance)[0] + (ideal - risk.anchors(anchored, relevance, offsets)) @ at

        own = tight(scores, scores)
        best = measure.best(relevance)
        lost = best - min(measure(ranking, relevance) for ranking in rankings_by(scores))
        assert own >= (lost / best if risk.normalised and best > 0 else lost) - 1e-12
        assert own <= one(risk, scores, relevance)[0] + 1e-12
        assert own <= tight(scores, other) + 1e-12


def test_ordinal_is_the_sum_over_pairs():
    for scores, relevance in lists(60, seed=9):
        for costs, price in (("equal", lambda a, b: 1.0), ("gain", lambda a, b: 2**b - 2**a)):
            pairs = [(i, j) for i in range(len(scores)) for j in range(len(scores)) if relevance[i] < relevance[j]]
            hinges = [price(relevance[i], relevance[j]) * max(0, 1 + scores[i] - scores[j]) for i, j in pairs]
            value, _ = one(risk_of({"kind": "ordinal", "costs": costs}), scores, relevance)
            assert value == pytest.approx(sum(hinges) / max(len(pairs), 1), rel=1e-12, abs=1e-12)


@given(st.integers(2, 60), st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_ordinal_equals_preferences_of_all_pairs(n_items: int, seed: int):
    rng = default_rng(seed)
    scores, relevance = rng.normal(size=n_items), rng.integers(0, 4, n_items) / 2  # half grades: levels are found
    (fast, slope), (slow, twin) = (
        one(risk_of("ordinal"), scores, relevance),
        one(risk_of("preferences"), scores, relevance),
    )
    assert fast == pytest.approx(slow, rel=1e-12)
    np.testing.assert_allclose(slope, twin, atol=1e-12)


def test_pairs_may_contradict_each_other_and_have_costs():
    scores, pairs = np.array([0.5, 0.0, 2.0]), np.array([[0, 1], [1, 0], [0, 2]])
    value, grad = hinge_of_pairs(scores, pairs, np.array([2.0, 1.0, 5.0]))
    assert value == pytest.approx((2 * (1 + 0.5 - 0) + 1 * (1 + 0 - 0.5) + 0) / 3)
    np.testing.assert_allclose(grad, [(2 - 1) / 3, (1 - 2) / 3, 0.0])


def test_losses_have_the_names_of_their_measures():
    assert risk_of("nDCG@10") == risk_of({"kind": "ndcg", "cutoff": 10})
    assert risk_of("P@5") == risk_of("precision@5")
    assert risk_of("NERU(half_life=3.0)") == risk_of({"kind": "neru", "half_life": 3.0})
    with pytest.raises(InvalidInput, match="did you mean 'ordinal'"):
        risk_of("ordinl")


def test_costs_must_fit_the_grades():
    risk = risk_of({"kind": "ordinal", "costs": [[0, 1], [0, 0]]})
    with pytest.raises(InvalidInput, match="grades 0 to 1"):
        one(risk, [0.0, 1.0], [0.0, 2.0])
    with pytest.raises(InvalidInput, match="square"):
        risk_of({"kind": "ordinal", "costs": [[0, 1]]})


def rankings_by(scores: Any):
    """Every ranking that sorts by score, ties in any order."""
    for ranking in permutations(range(len(scores))):
        if all(scores[i] >= scores[j] for i, j in pairwise(ranking)):
            yield np.array(ranking)
