"""Distributions, and sequential tests: p-values and intervals that hold at every moment, however often one looks.

The tests are mixture martingales: the likelihood of the data under a mixture of alternatives, divided by that under the
hypothesis, is ever above 1 / α with a probability of at most α if the hypothesis holds. The interval holds every value
that is not rejected. Of wins and losses the mixture is uniform over the share of wins, and the test is exact. Of means
per user it is normal over the difference, by which the test is right for many users, also where users come back: what a
user brings never falls, so that by Slepian's inequality differences cross a boundary no more often.

References:
  Robbins (1970), Statistical Methods Related to the Law of the Iterated Logarithm. Waudby-Smith, Arbour, Sinha, Kennedy
  and Ramdas (2024), Time-uniform Central Limit Theory and Asymptotic Confidence Sequences.
"""

from collections.abc import Callable
from math import erfc, exp, inf, lgamma, log, log1p, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from rankloop.core.compilation import kernel
from rankloop.core.types import Floats

MAX_FRACTION_TERMS = 500
MAX_BISECTIONS = 200
SMALLEST_DENOMINATOR = 1e-300
ERROR_PROBABILITY = 0.05  # of all looks together
MIN_USERS = 100  # per variant, before means are compared
TUNED_USERS = 1_000  # by which the mixture is scaled: intervals are shortest from 5 to 20 times as many users
POWER_Z_SCORE = 0.8416  # an effect of the planned size is found with probability 0.8
MAX_PLANNED_USERS = 1e12
STANDARD_NORMAL = NormalDist()


def normal_quantiles(probabilities: Floats) -> Floats:
    """Return the standard normal quantile of each probability, which must lie strictly between 0 and 1."""
    return np.array([STANDARD_NORMAL.inv_cdf(probability) for probability in probabilities.tolist()])


@kernel
def normal_cdf(x: float) -> float:
    """Return P(X ≤ x) for a standard normal X."""
    return 0.5 * erfc(-x / sqrt(2.0))


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by Lentz's continued fraction.

    Args:
      x: A number from 0 to 1.
      a: The first shape, above 0.
      b: The second shape, above 0.
    """
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):  # where the fraction converges slowly, the mirrored one is quick
        return 1.0 - beta_cdf(1.0 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    ratio, c, d = 1.0, 1.0, 0.0
    for term in range(MAX_FRACTION_TERMS):
        m = term // 2
        if term % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)) if m else 1.0
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        d = 1.0 + numerator * d
        d = 1.0 / (d if abs(d) > SMALLEST_DENOMINATOR else SMALLEST_DENOMINATOR)
        c = 1.0 + numerator / c
        c = c if abs(c) > SMALLEST_DENOMINATOR else SMALLEST_DENOMINATOR
        ratio *= c * d
        if abs(1.0 - c * d) < 1e-16:
            break
    return front * (ratio - 1.0)


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the x with I_x(a, b) = p, by bisection.

    Args:
      p: A probability from 0 to 1.
      a: The first shape, above 0.
      b: The second shape, above 0.
    """
    return _bisected(lambda x: beta_cdf(x, a, b) < p, 0.0, 1.0)


def _bisected(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the number between two up to which a condition holds that holds at the first."""
    for _ in range(MAX_BISECTIONS):
        middle = (inside + outside) / 2.0
        if middle in (inside, outside):
            break
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


def chi_square_tail(x: float, degrees: int) -> float:
    """Return P(X > x) for the chi-square distribution: from n to n + 2 degrees it grows by a term of Poisson's series.

    Args:
      x: A number from 0.
      degrees: Degrees of freedom, at least 1.
    """
    half, n_first = x / 2.0, 2 - degrees % 2
    if half <= 0.0:
        return 1.0
    tail = exp(-half) if n_first == 2 else erfc(sqrt(half))
    for n in range(n_first, degrees, 2):
        tail += exp(0.5 * n * log(half) - half - lgamma(0.5 * n + 1.0))
    return tail


def student_cdf(t: float, degrees: float) -> float:
    """Return P(T ≤ t) for Student's distribution.

    Args:
      t: A number.
      degrees: Degrees of freedom, above 0.
    """
    tail = 0.5 * beta_cdf(degrees / (degrees + t * t), degrees / 2.0, 0.5)
    return tail if t < 0.0 else 1.0 - tail


def student_quantile(p: float, degrees: float) -> float:
    """Return the t with P(T ≤ t) = p for Student's distribution.

    Args:
      p: A probability strictly between 0 and 1.
      degrees: Degrees of freedom, above 0.
    """
    x = beta_quantile(2.0 * min(p, 1.0 - p), degrees / 2.0, 0.5)
    size: float = (degrees * (1.0 - x) / x) ** 0.5
    return -size if p < 0.5 else size


class MeanDifference(NamedTuple):
    """A difference of two means, with an interval and a p-value that hold at any time."""

    value: float
    low: float
    high: float
    p_value: float


class VariantSums(NamedTuple):
    """Sums over the users of one variant of a test: of what each brought, and of its square."""

    users: int
    total: float
    squares: float

    @property
    def mean(self) -> float:
        """The mean per user."""
        return self.total / self.users if self.users else 0.0

    @property
    def variance(self) -> float:
        """The variance between users."""
        return max(0.0, self.squares / self.users - self.mean**2) if self.users else 0.0

    def minus(self, other: "VariantSums") -> MeanDifference | None:
        """Compare what users of two variants bring on average; None while users are too few or all equal."""
        if min(self.users, other.users) < MIN_USERS:
            return None
        difference = self.mean - other.mean
        standard_error = sqrt(self.variance / self.users + other.variance / other.users)
        if standard_error == 0.0:
            return None
        scale = (self.users + other.users) / TUNED_USERS
        log_evidence = 0.5 * ((difference / standard_error) ** 2 * scale / (scale + 1) - log(scale + 1))
        width = standard_error * _boundary(self.users + other.users)
        return MeanDifference(difference, difference - width, difference + width, min(1.0, exp(-log_evidence)))

    def users_needed(self, other: "VariantSums", effect: float) -> float:
        """Return how many users find a relative change of the other's mean with probability 0.8."""
        size = abs(effect * other.mean)
        if size == 0.0:
            return inf

        def is_enough(log_users: float) -> bool:
            standard_error = sqrt(2 * (self.variance + other.variance) / exp(log_users))
            return size >= standard_error * (_boundary(exp(log_users)) + POWER_Z_SCORE)

        most = log(MAX_PLANNED_USERS)
        return exp(_bisected(is_enough, most, log(2.0 * MIN_USERS))) if is_enough(most) else inf


def sign_p_value(wins: int, losses: int) -> float:
    """Return the p-value of the hypothesis that wins and losses are equally likely.

    With n decided comparisons it is (n + 1) · C(n, wins) / 2ⁿ, at most 1.

    Args:
      wins: Of the first variant.
      losses: Of the first variant; ties are left out.
    """
    return min(1.0, exp(-_log_share_evidence(wins, losses, 0.5)))


def share_interval(wins: int, losses: int) -> tuple[float, float]:
    """Return an interval of the share of wins, which ever leaves out the true one with a probability of at most 5 %.

    Args:
      wins: Of the first variant.
      losses: Of the first variant.
    """
    if not wins + losses:
        return 0.0, 1.0
    mode = wins / (wins + losses)

    def is_possible(share: float) -> bool:
        return _log_share_evidence(wins, losses, share) < -log(ERROR_PROBABILITY)

    return _bisected(is_possible, mode, 0.0), _bisected(is_possible, mode, 1.0)


def _boundary(users: float) -> float:
    """Return how many standard errors the difference of equal variants never reaches, but with a probability of 5 %."""
    scale = users / TUNED_USERS
    return sqrt((scale + 1) / scale * log((scale + 1) / ERROR_PROBABILITY**2))


def _log_share_evidence(wins: int, losses: int, share: float) -> float:
    """Return the logarithm of the evidence against a share of wins; infinite for a share that cannot be."""
    mixed = lgamma(wins + 1) + lgamma(losses + 1) - lgamma(wins + losses + 2)
    if (wins and share <= 0.0) or (losses and share >= 1.0):
        return inf
    of_wins, of_losses = wins * log(share) if wins else 0.0, losses * log(1 - share) if losses else 0.0
    return mixed - (of_wins + of_losses)  # in brackets: exchanged variants are rounded alike
