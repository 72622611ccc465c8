"""The numerical checklist, run over every registered surrogate by walking the registry."""

from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.core.registry import Entry, build, entries

SURROGATES = [
    (entry, entry.cls(**parameters))
    for entry in entries("surrogate")
    for parameters in getattr(entry.cls, "examples", ({},))
]


NOT_CONVEX = {"smooth_dcg"}


def bounded_measures(entry: Entry, surrogate: Any) -> list[Any]:
    """Return the measures M for which the value is at least 1 − M, however ties are broken."""
    if entry.kind not in ("slam", "max_pair") or surrogate.margin < 1.0:
        return []
    if entry.kind == "max_pair":
        return [build(text, "measure") for text in ("nDCG", "nDCG@2", "AP")]
    cutoff = "" if surrogate.cutoff is None else f"@{surrogate.cutoff}"
    return [build(f"{surrogate.measure}{cutoff}", "measure")]


def name(part: Any) -> str:
    return part.kind if isinstance(part, Entry) else str(part).partition("(")[2].rstrip(")") or "default"


each = pytest.mark.parametrize(("entry", "surrogate"), SURROGATES, ids=name)


def lists(n: int, scale: float = 2.0, seed: int = 0):
    """Scores and grades of lists of 1 to 7 items, some without relevant items, some all alike."""
    rng = default_rng(seed)
    for t in range(n):
        n_items = 1 + t % 7
        yield scale * rng.normal(size=n_items), rng.integers(0, 1 + t % 5, n_items).astype(float)


@each
def test_gradient_by_finite_differences(entry: Entry, surrogate: Any):
    step = 1e-6
    for scores, relevance in lists(70):
        _, grad = surrogate.value_and_grad(scores, relevance)
        for i in range(len(scores)):
            up, down = (
                surrogate.value_and_grad(scores + s * step * np.eye(len(scores))[i], relevance)[0] for s in (1, -1)
            )
            assert (up - down) / (2 * step) == pytest.approx(grad[i], rel=1e-5, abs=1e-5)


@each
def test_convex_where_claimed_and_only_there(entry: Entry, surrogate: Any):
    bulges = []
    for (one, relevance), (other, _) in zip(lists(700, 4.0, seed=1), lists(700, 4.0, seed=2)):
        ends = (surrogate.value_and_grad(one, relevance)[0] + surrogate.value_and_grad(other, relevance)[0]) / 2
        middle, _ = surrogate.value_and_grad((one + other) / 2, relevance)
        bulges.append((middle - ends) / (1 + abs(ends)))
    assert (max(bulges) <= 1e-12) == (entry.kind not in NOT_CONVEX)


@each
def test_subgradients_support_from_below_also_at_kinks(entry: Entry, surrogate: Any):
    if entry.kind in NOT_CONVEX:
        return
    for (rough, relevance), (other, _) in zip(lists(300, seed=3), lists(300, seed=4)):
        for scores in (np.round(rough), np.zeros_like(rough)):  # whole numbers: ties, and margins met exactly
            value, grad = surrogate.value_and_grad(scores, relevance)
            there, _ = surrogate.value_and_grad(other, relevance)
            assert there >= value + grad @ (other - scores) - 1e-9 * (1 + abs(value))


@each
def test_upper_bound_on_its_measures_with_ties_broken_against_it(entry: Entry, surrogate: Any):
    for measure in bounded_measures(entry, surrogate):
        for n_items, levels in ((2, (0.0, 1.0, 2.0)), (3, (0.0, 1.0, 2.0)), (4, (0.0, 2.0))):
            for relevance in map(np.array, product((0.0, 1.0, 2.0), repeat=n_items)):
                if relevance.max() == 0:
                    continue
                for scores in map(np.array, product(levels, repeat=n_items)):
                    value, _ = surrogate.value_and_grad(scores, relevance)
                    assert value >= 1 - worst(measure, scores, relevance) - 1e-12, (scores, relevance)
        for n_relevant in (1, 3, 50):  # long lists, all tied, worst order: here the bound is nearly met
            relevance = np.repeat([0.0, 1.0], [1000, n_relevant])
            value, _ = surrogate.value_and_grad(np.zeros(len(relevance)), relevance)
            assert value >= 1 - measure(np.arange(len(relevance)), relevance) - 1e-12


def worst(measure: Any, scores: Any, relevance: Any) -> float:
    """The lowest value over all rankings that the scores allow."""
    orders = map(np.array, permutations(range(len(scores))))
    return min(measure(order, relevance) for order in orders if np.all(np.diff(scores[order]) <= 0))


@each
def test_renaming_items_renames_the_gradient(entry: Entry, surrogate: Any):
    rng = default_rng(6)
    for scores, relevance in lists(60, seed=7):
        if getattr(surrogate, "within", "mean") == "item_order":
            relevance = rng.permutation(len(scores)).astype(float)  # by its definition, items of equal grade differ
        order = rng.permutation(len(scores))
        value, grad = surrogate.value_and_grad(scores, relevance)
        renamed_value, renamed_grad = surrogate.value_and_grad(scores[order], relevance[order])
        assert renamed_value == pytest.approx(value, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(renamed_grad, grad[order], rtol=1e-9, atol=1e-12)


@each
def test_terms_over_all_items_are_the_gradient(entry: Entry, surrogate: Any):
    rng = default_rng(8)
    for scores, relevance in lists(60, seed=9):
        items = rng.permutation(len(scores))
        _, grad = surrogate.value_and_grad(scores, relevance)
        np.testing.assert_allclose(surrogate.terms(scores, items, relevance[items]), grad, rtol=1e-12, atol=1e-14)


@each
def test_terms_add_up_over_subsets_of_the_span(entry: Entry, surrogate: Any):
    for scores, relevance in lists(60, seed=10):
        n_items = len(scores)
        span = n_items if surrogate.span is None else surrogate.span
        for size in range(n_items + 1):
            items = np.arange(n_items)[::-1][:size].copy()
            parts = np.zeros(n_items)
            for subset in map(list, combinations(items, span)):
                parts += surrogate.terms(scores, np.array(subset, dtype=np.int64), relevance[subset])
            terms = surrogate.terms(scores, items, relevance[items])
            np.testing.assert_allclose(terms, parts, rtol=1e-9, atol=1e-12)
            if size < span:
                assert not terms.any(), "fewer items than the span: nothing"


@each
@pytest.mark.parametrize("n_items", [3, 4])
def test_the_span_is_the_computed_interaction_degree(entry: Entry, surrogate: Any, n_items: int):
    """Inclusion–exclusion over sets A of relevances: the largest A whose joint effect on the gradient is not zero."""
    rng, degree = default_rng(11), 0
    for _ in range(3):
        scores = 0.5 * rng.normal(size=n_items)
        for relevance in map(np.array, product((0.0, 1.0, 2.0), repeat=n_items)):
            for size in range(n_items, degree, -1):
                if any(joint_effect(surrogate, scores, relevance, set(a)) for a in combinations(range(n_items), size)):
                    degree = size
                    break
    assert degree == (n_items if surrogate.span is None else surrogate.span)


def joint_effect(surrogate: Any, scores: Any, relevance: Any, together: set[int]) -> bool:
    effect = np.zeros(len(scores))
    for size in range(len(together) + 1):
        for kept in combinations(together, size):
            partial = np.where(np.isin(np.arange(len(scores)), kept), relevance, 0.0)
            effect += (-1) ** (len(together) - size) * surrogate.value_and_grad(scores, partial)[1]
    return bool(np.abs(effect).max() > 1e-9)


@each
def test_huge_scores_overflow_only_where_the_surrogate_is_exponential(entry: Entry, surrogate: Any):
    scores, relevance = np.array([1000.0, -1000.0, 0.0]), np.array([0.0, 2.0, 1.0])
    value, grad = surrogate.value_and_grad(scores, relevance)
    finite = bool(np.isfinite(value) and np.isfinite(grad).all())
    assert finite == (entry.kind != "kl")


@each
def test_nothing_handed_in_is_changed(entry: Entry, surrogate: Any):
    scores, relevance, items = np.array([0.5, -1.0, 0.5]), np.array([0.0, 2.0, 1.0]), np.array([2, 0, 1])
    surrogate.value_and_grad(scores, relevance)
    surrogate.terms(scores, items, relevance)
    assert scores.tolist() == [0.5, -1.0, 0.5]
    assert relevance.tolist() == [0.0, 2.0, 1.0]
    assert items.tolist() == [2, 0, 1]
