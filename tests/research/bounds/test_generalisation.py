"""The bounds of the theory: constants by search, integrals by closed forms, and that none is below what is measured."""

import inspect
import math

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset
from rankloop.surrogates.list_net import ListNet
from rankloop.surrogates.pairwise import RankSVM
from rankloop.surrogates.pointwise import SmoothDCG
from research.bounds import generalisation as bounds
from research.bounds.generalisation_table import Sample, sample_of, table

MQ = Sample(n_queries=471, n_items=121, n_features=46, longest=4.0, widest=1.0, max_grade=2.0)


@pytest.mark.parametrize(
    ("surrogate", "kind", "extreme"),
    [
        (ListNet(), "list_net", (np.array([40.0, 0, 0]), np.array([0.0, 0, 40.0]))),  # certain of the wrong item
        (SmoothDCG(smoothing=0.6), "smooth_dcg", (np.zeros(2), np.array([2.0, 0.0]))),
        (RankSVM(), "rank_svm", (np.zeros(6), np.array([0.0, 0, 0, 1, 1, 1]))),
    ],
)
def test_lipschitz_constants_hold_and_are_attained(surrogate, kind, extreme):
    rng = default_rng(0)
    for _ in range(300):
        m = int(rng.integers(2, 7))
        grad = surrogate.value_and_grad(3 * rng.normal(size=m), rng.integers(0, 3, m).astype(float))[1]
        known = bounds.constants_of(kind, m, 2.0, 0.6)
        assert np.abs(grad).sum() <= known.lipschitz + 1e-12
        assert np.sqrt(grad @ grad) <= known.euclidean + 1e-12
    grad = surrogate.value_and_grad(*extreme)[1]
    assert np.abs(grad).sum() == pytest.approx(bounds.constants_of(kind, len(extreme[0]), 2.0, 0.6).lipschitz)


def test_list_net_curves_by_one_at_most():
    rng = default_rng(1)
    largest = 0.0
    for _ in range(2000):
        p = rng.dirichlet(np.full(3, 0.3))
        signs = rng.choice([-1.0, 1.0], 3)
        largest = max(largest, np.abs((np.diag(p) - np.outer(p, p)) @ signs).sum())
    assert 0.99 < largest <= bounds.constants_of("list_net", 3).smoothness + 1e-12


def test_simple_bounds_are_their_arithmetic():
    assert bounds.online_to_batch(2, 3, 5, 50) == pytest.approx(2 * 3 * 5 * math.sqrt(2 / 50))
    assert bounds.rerm(2, 3, 5, 50) == pytest.approx(2 * 2 * 3 * 5 * (8 / 50 + math.sqrt(2 / 50)))
    expected = 3 * 2 * 3 * 5 * math.sqrt(7 / 50) + 11 * math.sqrt(8 * math.log(20) / 50)
    assert bounds.chapelle_wu(2, 3, 5, 50, 7, 0.05, 11) == pytest.approx(expected)


def test_entropy_integral_against_closed_forms():
    # √(c/ε²) = √c/ε: 4α + 10·√(c/n)·ln(B/α), least at α = 2.5·√(c/n)
    c, n, largest = 7.0, 1000, 2.0
    alpha = 2.5 * math.sqrt(c / n)
    exact = 4 * alpha + 10 * math.sqrt(c / n) * math.log(largest / alpha)
    assert bounds.rademacher(lambda e: c / e**2, n, largest) == pytest.approx(exact, rel=2e-3)
    flat = bounds.rademacher(lambda e: np.full_like(e, c), n, largest)  # a constant entropy: α → 0
    assert flat == pytest.approx(10 * math.sqrt(c / n) * largest, rel=2e-3)


@pytest.mark.parametrize("m", [1, 20, 1000])
@pytest.mark.parametrize("times", [1.1, 2.0, 50.0])
def test_corollary_37_follows_once_one_point_covers_the_class(m, times):
    """The integral is at most the printed value (the grid adds up to 0.1 %); without the cut it is not."""
    for n in (100, 10**4, 10**7):
        for size in (0.5, 20.0):
            largest, log_term = times * size, math.log2(3 * m * n)
            inside = 6 * largest * math.sqrt(n) / (5 * size * math.sqrt(log_term))
            printed = 10 * size * math.sqrt(log_term / n) * math.log(inside)
            assert bounds.ball_rademacher(size, n, m, largest) <= 1.001 * printed
            cover = math.log2(2 * m * n + 1)
            uncut = bounds.rademacher(lambda e: np.ceil((size / e) ** 2) * cover, n, largest)  # noqa: B023
            assert times < 50.0 or uncut > 2.0 * printed


def test_one_point_covers_from_the_size_of_the_class_on():
    """‖φ(Xw) − φ(0)‖ ≤ G·W·R, so a larger bound B on the loss adds nothing to the integral."""
    small, large = (bounds.ball_rademacher(2.0, 1000, 10, largest) for largest in (2.0, 2e3))
    assert large == pytest.approx(small, rel=2e-3)


def test_smooth_uniform_solves_its_inequality():
    H, W, R, n, m, B, delta, training = 0.5, 1.5, 3.0, 10**9, 50, 6.0, 0.05, 0.3
    L = bounds.smooth_uniform(H, W, R, n, m, B, delta, training)
    fixed = bounds.local_rademacher(H, W, R, n, m, B, 1.0) ** 2
    assert bounds.local_rademacher(H, W, R, n, m, B, fixed) == pytest.approx(fixed)  # r* solves r = ψ(r)
    noise = B * (math.log(20) + math.log(math.log(n))) / n
    right = training + 45 * fixed + math.sqrt(8 * fixed * L) + math.sqrt(4 * noise * L) + 20 * noise
    assert pytest.approx(right, rel=1e-9) == L
    perfect = [bounds.smooth_uniform(H, W, R, n, m, B, delta, 0.0) for n in (10**9, 10**11)]
    assert perfect[0] / perfect[1] > 40  # nearly 1/n where the training risk is 0


def test_smooth_online_is_above_what_its_step_size_gives():
    H, W, R, best, n = 2.0, 1.5, 3.0, 0.4, 500
    rate = bounds.smooth_online_rate(H, W, R, best, n)
    left = 1 - 4 * rate * H * R**2
    achieved = best / left + W**2 / (2 * rate * left * n)
    assert achieved - best <= bounds.smooth_online(H, W, R, best, n) + 1e-12
    nearby = [(1 - 4 * r * H * R**2, r) for r in (0.9 * rate, 1.1 * rate)]
    assert all(best / s + W**2 / (2 * r * s * n) >= achieved - 1e-12 for s, r in nearby)
    assert bounds.smooth_online_rate(1.0, 1.0, 3.0, 1.0, 100) == pytest.approx(1 / (36 + 2 * math.sqrt(324 + 1800)))


def test_the_integrals_are_those_of_their_covering_numbers():
    """Over a fine sum of the entropies of Propositions 3 and 4 with their ceilings."""
    G, W, R, n, m, d, B, delta = 0.4, 1.5, 3.0, 10**4, 20, 30, 5.0, 0.05
    scales = B * np.logspace(-6, 0, 200_001)
    ball = np.ceil((G * W * R / scales) ** 2) * math.log2(2 * m * n + 1)
    l1 = np.ceil(288 * (G * W * R / scales) ** 2 * (2 + math.log(d)))
    l1 *= np.log2(2 * np.ceil(8 * G * W * R / scales) * m * n + 1)
    ball[scales >= G * W * R] = l1[scales >= G * W * R] = 0.0
    for entropy, found in (
        (ball, bounds.uniform(G, W, R, n, m, B, delta)),
        (l1, bounds.uniform_l1(G, W, R, n, m, d, B, delta)),
    ):
        areas = np.sqrt((entropy[1:] + entropy[:-1]) / 2 / n) * np.diff(scales)
        least = np.min(4 * scales[:-1] + 10 * np.cumsum(areas[::-1])[::-1])
        assert found == pytest.approx(2 * least + 3 * B * math.sqrt(math.log(2 / delta) / (2 * n)), rel=2e-3)


def test_local_rademacher_lies_between_the_integral_without_ceiling_and_the_printed_form():
    """Proposition 5 at half the scale: C of Corollary 43 is doubled."""
    H, W, R, n, m, level = 0.5, 1.5, 3.0, 10**9, 50, 0.7
    size = math.sqrt(48 * H) * W * R
    for B in (size**2 / 4, size**2, 30 * size**2):
        C = 10 * math.sqrt(3) * W * R * math.sqrt(H * math.log2(3 * m * n) / n)
        printed = 4 * math.sqrt(level) * C * math.log(3 * math.sqrt(B) / C)
        plain = 10 * math.sqrt(3) * W * R * math.sqrt(H * math.log2(2 * m * n + 1) / n)
        without_ceiling = 4 * math.sqrt(level) * plain * (1 + math.log(min(math.sqrt(B), size) / plain))
        assert without_ceiling <= bounds.local_rademacher(H, W, R, n, m, B, level) <= printed


def test_only_one_bound_grows_with_the_length_of_the_list():
    short, long = (table(MQ._replace(n_items=m)) for m in (10, 1000))
    growth = {row.name: after.value / row.value for row, after in zip(short, long)}
    assert growth["Theorem 35"] == growth["Theorem 36"] == 1.0
    assert growth["Chapelle and Wu"] > 5.0
    assert growth["Theorem 38"] < 1.6


def test_the_table_says_which_bounds_mean_anything():
    rows = {row.name: row for row in table(MQ, radius=0.3, training=3.0)}
    assert rows["Theorem 35"].meaningful
    assert not rows["Theorem 38"].meaningful
    for row in rows.values():
        assert row.meaningful == (row.queries_needed <= MQ.n_queries)
    assert "Theorem 35" not in {row.name for row in table(MQ, "smooth_dcg")}  # not convex


def test_queries_needed_is_where_the_bound_crosses():
    needed = bounds.queries_needed(lambda n: 3.0 / math.sqrt(n), 0.5)
    assert needed == 37  # 3/√36 is not below ½
    assert bounds.queries_needed(lambda n: 1.0, 0.5) == math.inf


def test_a_sample_is_measured():
    data = Dataset.of([[3.0, 4.0], [0.0, -1.0], [1.0, 0.0]], [0, 3, 1], [0, 2, 3])
    assert sample_of(data) == Sample(2, 2, 2, 5.0, 4.0, 3.0)
    with pytest.raises(InvalidInput, match="no constants"):
        bounds.constants_of("squared", 3)


SIZES = {
    "lipschitz": 2.0,
    "euclidean": 1.4,
    "smoothness": 0.6,
    "radius": 1.7,
    "longest": 4.0,
    "largest": 9.0,
    "size": 3.0,
}
COUNTS = {"n_queries": 471, "n_items": 121, "n_features": 46}
REST = {"delta": 0.05, "training": 0.1, "best": 0.1, "level": 0.5}
BOUNDS = [
    bounds.online_to_batch,
    bounds.rerm,
    bounds.chapelle_wu,
    bounds.uniform,
    bounds.uniform_l1,
    bounds.ball_rademacher,
    bounds.smooth_online_rate,
    bounds.smooth_online,
    bounds.local_rademacher,
    bounds.smooth_uniform,
]


@pytest.mark.parametrize("bound", BOUNDS)
def test_numbers_that_mean_nothing_are_refused(bound):
    given = {name: (SIZES | COUNTS | REST)[name] for name in inspect.signature(bound).parameters}
    assert math.isfinite(bound(**given))
    assert math.isfinite(bound(*given.values()))
    for name in given:
        wrong = [math.nan, math.inf, -1.0, "3"]
        wrong += [] if name in ("training", "best", "level", "euclidean") else [0]
        for value in [*wrong, 1.0, 2.5] if name == "delta" else wrong:
            with pytest.raises(InvalidInput, match=f"{name} = "):
                bound(**(given | {name: value}))


def test_constants_and_integrals_refuse_too():
    for options in ({"n_items": 0}, {"smoothing": 0.0}, {"max_grade": -1.0}, {"max_grade": 1e9}):
        with pytest.raises(InvalidInput, match=next(iter(options))):
            bounds.constants_of("smooth_dcg", **({"n_items": 3} | options))
    for options in ({"n_queries": 0}, {"largest": 0.0}):
        with pytest.raises(InvalidInput, match=next(iter(options))):
            bounds.rademacher(lambda scale: 1.0 / scale, **({"n_queries": 10, "largest": 1.0} | options))
    with pytest.raises(InvalidInput, match="radius"):
        table(MQ, radius=0.0)
