"""The steps of the proofs behind the closed forms, as arithmetic."""

import decimal
import itertools
from fractions import Fraction
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankloop.games import analyse_depths
from rankloop.games.closed_forms import (
    Weighted,
    _difference_terms,
    _hidden_term,
    _is_nonzero,
    _one_over_best,
    log_discounts,
)
from rankloop.games.game import measure_for
from rankloop.measures import parse_measure


def difference(numbers: list[Fraction]) -> Fraction:
    order = len(numbers) - 1
    return sum((Fraction((-1) ** (order - u) * comb(order, u)) * value for u, value in enumerate(numbers)), Fraction(0))


@pytest.mark.parametrize("order", range(12))
def test_differences_of_one_over_s(order: int) -> None:
    """Recall and AP: Δ^t (1/s) at 1 is (−1)^t / (t + 1), never 0."""
    assert difference([Fraction(1, s) for s in range(1, order + 2)]) == Fraction((-1) ** order, order + 1)


@pytest.mark.parametrize("m", range(2, 14))
def test_differences_of_the_number_of_pairs(m: int) -> None:
    """AUC: Δ^t 1/(s(m − s)) at 1 = ((−1)^t/(t + 1) + t!(m − 2 − t)!/(m − 1)!) / m: 0 only for t = m − 2, m odd."""
    for t in range(m - 1):
        found = difference([Fraction(1, s * (m - s)) for s in range(1, t + 2)])
        formula = Fraction((-1) ** t, t + 1) + Fraction(factorial(t) * factorial(m - 2 - t), factorial(m - 1))
        assert found == formula / m
        assert (found == 0) == (t == m - 2 and m % 2 == 1)


def test_one_over_the_ideal_gain_is_completely_monotone() -> None:
    """nDCG: the differences of 1/Z alternate in sign, as those of the reciprocal of a Bernstein function do."""
    discounts = log_discounts(60)
    scales = [_one_over_best([Fraction(1)] * s, discounts) for s in range(1, 60)]
    with decimal.localcontext(prec=200):
        for order in range(59):
            total = sum(factor * known for factor, known in _difference_terms(scales[: order + 1]))
            assert (-1) ** order * total > decimal.Decimal(10) ** -20


def test_high_precision_agrees_with_the_measure() -> None:
    discounts = log_discounts(5)
    measure = parse_measure("nDCG")
    for relevant in range(1, 6):
        relevance = np.zeros(5)
        relevance[:relevant] = 1.0
        moved = np.array([4, 1, 2, 3, 0])
        scale = float(_one_over_best([Fraction(1)] * relevant, discounts))
        lost = float(discounts[0] - discounts[4]) * (relevant < 5)
        assert_allclose(measure(np.arange(5), relevance) - measure(moved, relevance), lost * scale, atol=1e-12)


def test_equal_numbers_cancel_and_unknown_ones_are_not_called_zero() -> None:
    with decimal.localcontext(prec=200):
        third, nearly_third = decimal.Decimal(1) / 3, decimal.Decimal(1) / 3 + decimal.Decimal(10) ** -150
    assert _is_nonzero([(1, third), (-1, third)]) is False
    assert _is_nonzero([(Fraction(1, 2), third), (Fraction(-1, 2), third)]) is False
    assert _is_nonzero([(1, third), (-1, nearly_third)]) is None
    assert _is_nonzero([(3, third), (-1, decimal.Decimal(1))]) is None
    assert _is_nonzero([(1, third), (-1, decimal.Decimal("0.5"))]) is True


@pytest.mark.parametrize("name", ["RR", "ERR(max_grade=2)", "ERR(max_grade=2)@2", "RR@3"])
def test_terms_of_reciprocal_ranks(name: str) -> None:
    """RR and ERR: Σ_A (−1)^(|A| − 1) / (place of the last of A) · Π_A R, over sets before the cutoff."""
    measure = measure_for(name, 2 if "ERR" in name else 1)
    cutoff = getattr(measure, "cutoff", None) or 4
    rng = np.random.default_rng(0)
    for _ in range(20):
        grades = rng.integers(0, 3 if "ERR" in name else 2, 4).astype(float)
        if not grades.any():
            continue
        probabilities = (2**grades - 1) / 4 if "ERR" in name else grades
        total = sum(
            (-1) ** (len(chosen) - 1) * np.prod(probabilities[list(chosen)]) / (max(chosen) + 1)
            for size in range(1, 5)
            for chosen in itertools.combinations(range(4), size)
            if max(chosen) < cutoff
        )
        assert_allclose(measure(np.arange(4), grades), total, atol=1e-12)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=2, max_size=4), st.sets(st.integers(0, 4), min_size=1), st.integers(1, 6))
def test_hidden_terms_by_going_through_all_orders(groups: list[int], sizes: set[int], depth: int) -> None:
    m = sum(groups)
    if m > 6:
        return
    form = Weighted(tuple(groups), tuple(sorted(size for size in sizes if size <= m - 2) or (0,)))
    assert (_hidden_term(form, min(depth, m)) is None) == every_term_seen(form, min(depth, m))


def every_term_seen(form: Weighted, depth: int) -> bool:
    group = [g for g, length in enumerate(form.groups) for _ in range(length)]
    m = len(group)
    for a, b in itertools.combinations(range(m), 2):
        if group[b] - group[a] == 1:
            exchanged = [group[b] if i == a else group[a] if i == b else group[i] for i in range(m)]
            tops = {
                frozenset(order[:depth])
                for order in itertools.permutations(range(m))
                for own in (group, exchanged)
                if all(own[order[p]] <= own[order[p + 1]] for p in range(m - 1))
            }
            others = [i for i in range(m) if i not in (a, b)]
            for size in form.sizes:
                for chosen in itertools.combinations(others, size):
                    for one in (a, b):
                        if not any({one, *chosen} <= top for top in tops):
                            return False
    return True


@pytest.mark.parametrize("m", range(2, 30))
def test_formulas_in_the_number_of_items(m: int) -> None:
    """What the docs page prints."""
    odd = m % 2 == 1

    def thresholds(name: str, max_grade: int = 1) -> tuple[int, int]:
        found = analyse_depths(name, m, max_grade)[0]
        return found.learnable_from, found.fast_from

    slow_end = m if m > 2 else 1
    assert thresholds("SumLoss") == thresholds("PairwiseLoss") == thresholds("DCG") == (1, m - 1)
    assert thresholds("nDCG") == thresholds("AP") == (m - 1, slow_end)
    assert thresholds("AUC") == ((1, 2) if m == 3 else (m - 2 if odd else m - 1, slow_end))
    assert thresholds("ERR") == thresholds("RR") == (m - 1, m - 1)
    assert thresholds("nDCG", 2) == (m, m)
    assert thresholds("PairwiseLoss", 2) == (2, m)
    assert thresholds("ERR", 2) == (m - 1, m - 1)
    for n in range(1, min(m, 4)):
        assert thresholds(f"P@{n}") == (1, 1)
        assert thresholds(f"DCG@{n}") == (1, n)
        assert thresholds(f"RR@{n}") == thresholds(f"ERR@{n}") == (n, n)
        assert thresholds(f"Recall@{n}") == (m - 1, m - 1)


@pytest.mark.parametrize("kind", ["nDCG", "nDCG(gain='linear')", "NERU"])
@pytest.mark.parametrize("cutoff", [1, 2, 10, 49, None])
def test_normalised_sums_with_cutoffs_and_grades(kind: str, cutoff: int | None) -> None:
    """The entries that are evaluated in 200 digits."""
    name = kind if cutoff is None else f"{kind}@{cutoff}"
    binary, graded = analyse_depths(name, 50)[0], analyse_depths(name, 50, 2)[0]
    assert (binary.learnable_from, binary.fast_from) == ((1, 1) if cutoff == 1 else (49, 50))
    assert (graded.learnable_from, graded.fast_from) == (50, 50)
