"""How far the risk on new queries can be from the risk on the training queries: the bounds that do not know the length.

G `lipschitz` is the largest sum of absolute slopes of the loss in the scores, H `smoothness` that of its curvature, W
`radius` the bound on the weights, R `longest` that on the rows of the features (‖·‖₂ where ‖w‖₂ ≤ W, ‖·‖_∞ where
‖w‖₁ ≤ W), n `n_queries`, m `n_items` the longest list, d `n_features`, B `largest` the largest loss, δ `delta` the
probability to fail.
Reference: Chaudhuri (2016), Learning to Rank, chapter IV and appendix C; what is corrected is said where it is.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import exponential_gain
from rankloop.core.types import Floats
from research.bounds.arguments import checked

SMALLEST, GRID = 9.0, 20_001  # the entropy integral: from B·10⁻⁹ to B, in so many points
MAX_QUERIES = 2**60


class Constants(NamedTuple):
    """Constants of a loss: sum of absolute slopes G, Euclidean slope G₂, curvature H (None: not smooth)."""

    lipschitz: float
    euclidean: float
    smoothness: float | None = None
    convex: bool = True


@checked
def constants_of(surrogate: str, n_items: int, max_grade: float = 2.0, smoothing: float = 1.0) -> Constants:
    """Of `list_net`, `smooth_dcg` and `rank_svm`, as small as they can be.

    ListNet: G = 2, attained in the limit of certainty in the wrong item, and H = 1 (Proposition 1 says 2: of the m²
    entries of the curvature half cancel). SmoothDCG@1: G = G(Y_max)/(2σ) (Proposition 2 says 2·G(Y_max)/σ).
    RankSVM: m²/2, where half the items should stand above the other half and none does; no item has more than m − 1
    pairs, so G₂ is at most m·√((m − 1)/2).
    """
    if surrogate == "list_net":
        return Constants(2.0, math.sqrt(2.0), 1.0)
    if surrogate == "smooth_dcg":
        gain = float(exponential_gain(max_grade))
        return Constants(gain / (2.0 * smoothing), gain / (2.0 * math.sqrt(2.0) * smoothing), None, convex=False)
    if surrogate == "rank_svm":
        return Constants(n_items**2 / 2.0, n_items * math.sqrt((n_items - 1.0) / 2.0))
    raise InvalidInput(f"no constants are known for {surrogate!r}; there are list_net, smooth_dcg and rank_svm")


@checked
def online_to_batch(lipschitz: float, radius: float, longest: float, n_queries: int) -> float:
    """Theorem 35: the expected excess risk of the averaged online gradient descent, G·W·R·√(2/n). Convex losses."""
    return lipschitz * radius * longest * math.sqrt(2.0 / n_queries)


@checked
def rerm(lipschitz: float, radius: float, longest: float, n_queries: int) -> float:
    """Theorem 36: the expected excess risk of `RERM`, 2·G·W·R·(8/n + √(2/n)). Convex losses."""
    return 2.0 * lipschitz * radius * longest * (8.0 / n_queries + math.sqrt(2.0 / n_queries))


@checked
def chapelle_wu(
    euclidean: float, radius: float, longest: float, n_queries: int, n_items: int, delta: float, largest: float = 1.0
) -> float:
    """Chapelle and Wu (2010), Theorem 1: 3·G₂·W·R·√(m/n) + B·√(8·ln(1/δ)/n), which grows with the length of the list.

    It is printed without B, for losses of at most 1.
    """
    spread = 3.0 * euclidean * radius * longest * math.sqrt(n_items / n_queries)
    return spread + largest * math.sqrt(8.0 * math.log(1.0 / delta) / n_queries)


@checked
def uniform(
    lipschitz: float, radius: float, longest: float, n_queries: int, n_items: int, largest: float, delta: float
) -> float:
    """Theorem 38: risk − training risk of every w at once, 2·Rad + 3·B·√(ln(2/δ)/(2n)). Any Lipschitz loss.

    Rad is `ball_rademacher`.
    """
    complexity = ball_rademacher(lipschitz * radius * longest, n_queries, n_items, largest)
    return 2.0 * complexity + _deviation(largest, n_queries, delta)


@checked
def ball_rademacher(size: float, n_queries: int, n_items: int, largest: float) -> float:
    """Return equation 4.6 with Proposition 3: entropy ⌈(A/ε)²⌉·log₂(2mn + 1) below A = `size`, 0 from A on.

    With A = G·W·R the loss of every w is within A of the loss of w = 0, so from ε = A on one point is a cover. With
    that, the integral is below the printed Corollary 37.
    """

    def entropy(scale: Floats) -> Floats:
        pieces = np.ceil((size / scale) ** 2) * math.log2(2.0 * n_items * n_queries + 1.0)
        return _without_single_point(pieces, scale, size)

    return rademacher(entropy, n_queries, largest)


@checked
def uniform_l1(
    lipschitz: float,
    radius: float,
    longest: float,
    n_queries: int,
    n_items: int,
    n_features: int,
    largest: float,
    delta: float,
) -> float:
    """Theorem 40: the same for ‖w‖₁ ≤ W and features in ± R, from Proposition 4; the dimension enters as ln d only.

    The printed Corollary 39 is about a hundred times the integral that it stands for.
    """
    size = lipschitz * radius * longest

    def entropy(scale: Floats) -> Floats:
        pieces: Floats = np.ceil(288.0 * (size / scale) ** 2 * (2.0 + math.log(n_features)))
        pieces *= np.log2(2.0 * np.ceil(8.0 * size / scale) * n_items * n_queries + 1.0)
        return _without_single_point(pieces, scale, size)

    return 2.0 * rademacher(entropy, n_queries, largest) + _deviation(largest, n_queries, delta)


@checked
def rademacher(entropy: Callable[[Floats], Floats], n_queries: int, largest: float) -> float:
    """Return inf over α of 4α + 10 ∫_α^B √(entropy(ε)/n) dε, equation 4.6; `entropy` is log₂ of the covering number.

    Entropies fall as ε grows, so that rectangles of the height at their left end are an upper bound, here on a grid so
    fine that it is within 0.1 % of the integral.
    """
    scales = largest * np.logspace(-SMALLEST, 0.0, GRID)
    areas = np.sqrt(entropy(scales[:-1]) / n_queries) * np.diff(scales)
    above = np.append(np.cumsum(areas[::-1])[::-1], 0.0)
    return float(np.min(4.0 * scales + 10.0 * above))


@checked
def smooth_online_rate(smoothness: float, radius: float, longest: float, best: float, n_queries: int) -> float:
    """Equation 4.7: the step size of online gradient descent, W / (4HW + 2·√(4H²W² + 2·H·L*·n)), H·R² being H."""
    curvature = smoothness * longest**2
    inside = 4.0 * curvature**2 * radius**2 + 2.0 * curvature * best * n_queries
    return radius / (4.0 * curvature * radius + 2.0 * math.sqrt(inside))


@checked
def smooth_online(smoothness: float, radius: float, longest: float, best: float, n_queries: int) -> float:
    """Equation 4.8: its expected excess risk, 2·√(2·H·W²·L*/n) + 8·H·W²/n with H·R² in the place of H; L* `best`."""
    curvature = smoothness * longest**2 * radius**2
    return 2.0 * math.sqrt(2.0 * curvature * best / n_queries) + 8.0 * curvature / n_queries


@checked
def local_rademacher(
    smoothness: float, radius: float, longest: float, n_queries: int, n_items: int, largest: float, level: float
) -> float:
    """Return the complexity of the w with training risk at most r = `level`: √r times `_local_complexity`."""
    return math.sqrt(level) * _local_complexity(smoothness, radius, longest, n_queries, n_items, largest)


@checked
def smooth_uniform(
    smoothness: float,
    radius: float,
    longest: float,
    n_queries: int,
    n_items: int,
    largest: float,
    delta: float,
    training: float,
) -> float:
    """Theorem 44 through appendix C: the risk L of every w at once, from its training risk L̂. Any smooth loss.

    L ≤ L̂ + 45·r* + √(8·r*·L) + √(4·r₀·L) + 20·r₀, a quadratic in √L, with r* the solution of
    r = `local_rademacher`(…, r) and r₀ = B·(ln(1/δ) + ln ln n)/n; the displays at the end of appendix C lack their
    leading L.
    """
    fixed = _local_complexity(smoothness, radius, longest, n_queries, n_items, largest) ** 2
    noise = largest * (math.log(1.0 / delta) + math.log(max(math.log(max(n_queries, 3)), 1.0))) / n_queries
    slope = math.sqrt(8.0 * fixed) + math.sqrt(4.0 * noise)
    constant = training + 45.0 * fixed + 20.0 * noise
    return ((slope + math.sqrt(slope**2 + 4.0 * constant)) / 2.0) ** 2


def queries_needed(bound: Callable[[int], float], below: float) -> float:
    """The number of queries from which on a bound is under `below`, by bisection; infinite when none is enough."""
    if bound(MAX_QUERIES) >= below:
        return math.inf
    low, high = 0, MAX_QUERIES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) < below else (middle, high)
    return float(high)


def _deviation(largest: float, n_queries: int, delta: float) -> float:
    return 3.0 * largest * math.sqrt(math.log(2.0 / delta) / (2.0 * n_queries))


def _local_complexity(
    smoothness: float, radius: float, longest: float, n_queries: int, n_items: int, largest: float
) -> float:
    """Return equation 4.6 with Proposition 5 at r = 1: that of `ball_rademacher` with A = √(48·H)·W·R.

    It is read as Corollary 37 is. The proof of Proposition 5 compares two w that are both in the class, so the points
    of the cover have to be in the class too: a cover of the scores at half the scale gives one, hence 48 where 12 is
    printed. From ε = A on any one w of the class is a cover. Losses of the class are at most √B·√r in the root mean
    square, where the integral ends.
    """
    size = math.sqrt(48.0 * smoothness) * radius * longest
    return ball_rademacher(size, n_queries, n_items, math.sqrt(largest))


def _without_single_point(entropy: Floats, scale: Floats, size: float) -> Floats:
    """Return the entropies, 0 at the scales from `size` on, where one point covers the class."""
    remaining: Floats = np.where(scale >= size, 0.0, entropy)
    return remaining
