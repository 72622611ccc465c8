"""Sequential tests: p-values and intervals that hold at every moment, however often one looks.

All come from one method, the mixture martingale: the likelihood of the data under a mixture of alternatives, divided by
that under the hypothesis, is ever above 1 / α with a probability of at most α if the hypothesis holds. So a test may be
looked at after every user, and ended when it is decided. The interval holds every value that is not rejected.

Of wins and losses the mixture is uniform over the share of wins, and the test is exact. Of means per user it is normal
over the difference, by which the test is right for many users. Users who come back keep it valid: what a user brings
never falls, so that successive differences are correlated at least as those of independent users, and by Slepian's
inequality cross a boundary no more often.

References:
  Robbins (1970), Statistical Methods Related to the Law of the Iterated Logarithm. Waudby-Smith, Arbour, Sinha, Kennedy
  and Ramdas (2024), Time-uniform Central Limit Theory and Asymptotic Confidence Sequences.
"""

from math import exp, inf, lgamma, log, sqrt
from typing import NamedTuple

ERROR_PROBABILITY = 0.05  # of all looks together
MIN_USERS = 100  # per side, before means are compared
TUNED_USERS = 1_000  # by which the mixture is scaled: intervals are shortest from 5 to 20 times as many users
POWER_Z_SCORE = 0.8416  # an effect of the planned size is found with probability 0.8
MAX_PLANNED_USERS = 1e12
N_BISECTIONS = 60


class SideSums(NamedTuple):
    """Sums over the users of one side of a test: of what each brought, and of its square."""

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


class MeanDifference(NamedTuple):
    """A difference of two means, with an interval and a p-value that hold at any time."""

    value: float
    low: float
    high: float
    p_value: float


def sign_p_value(wins: int, losses: int) -> float:
    """Return the p-value of the hypothesis that wins and losses are equally likely.

    With n decided comparisons it is (n + 1) · C(n, wins) / 2ⁿ, at most 1.

    Args:
      wins: Of the first side.
      losses: Of the first side; ties are left out.
    """
    return min(1.0, exp(-_log_share_evidence(wins, losses, 0.5)))


def share_interval(wins: int, losses: int, error: float = ERROR_PROBABILITY) -> tuple[float, float]:
    """Return the interval of the share of wins among decided comparisons.

    Args:
      wins: Of the first side.
      losses: Of the first side.
      error: The probability that the interval ever leaves out the true share.
    """
    limit, mode = -log(error), wins / (wins + losses) if wins + losses else 0.5
    bounds = []
    for outer in (0.0, 1.0):
        inside, outside = mode, outer
        for _ in range(N_BISECTIONS):
            middle = (inside + outside) / 2
            if _log_share_evidence(wins, losses, middle) < limit:
                inside = middle
            else:
                outside = middle
        bounds.append(inside)
    return bounds[0], bounds[1]


def compare_means(a: SideSums, b: SideSums, error: float = ERROR_PROBABILITY) -> MeanDifference | None:
    """Compare what users of two sides bring on average; None while there are too few users.

    Args:
      a: The first side.
      b: The second side.
      error: The probability that the interval ever leaves out the true difference.
    """
    if min(a.users, b.users) < MIN_USERS:
        return None
    difference, standard_error = a.mean - b.mean, sqrt(a.variance / a.users + b.variance / b.users)
    if standard_error == 0.0:
        return MeanDifference(difference, difference, difference, 1.0)
    scale = (a.users + b.users) / TUNED_USERS
    log_evidence = 0.5 * ((difference / standard_error) ** 2 * scale / (scale + 1) - log(scale + 1))
    width = standard_error * _boundary(a.users + b.users, error)
    return MeanDifference(difference, difference - width, difference + width, min(1.0, exp(-log_evidence)))


def users_needed(a: SideSums, b: SideSums, effect: float, error: float = ERROR_PROBABILITY) -> float:
    """Return the number of users of both sides after which an effect is found with probability 0.8.

    Args:
      a: The first side, whose variance is observed.
      b: The second side, whose mean is changed by the effect.
      effect: Relative, as in 0.05.
      error: The level of the test.

    Returns:
      The number; infinite if the second side brought nothing yet.
    """
    size = abs(effect * b.mean)
    if size == 0.0:
        return inf
    fewest, most = 2.0 * MIN_USERS, MAX_PLANNED_USERS
    for _ in range(N_BISECTIONS):
        users = sqrt(fewest * most)
        standard_error = sqrt(2 * (a.variance + b.variance) / users)
        if size >= standard_error * (_boundary(users, error) + POWER_Z_SCORE):
            most = users
        else:
            fewest = users
    return most if most < 0.99 * MAX_PLANNED_USERS else inf


def _boundary(users: float, error: float) -> float:
    """Return how many standard errors the difference of equal sides never reaches, but with probability `error`."""
    scale = users / TUNED_USERS
    return sqrt((scale + 1) / scale * log((scale + 1) / error**2))


def _log_share_evidence(wins: int, losses: int, share: float) -> float:
    """Return the logarithm of the evidence against a share of wins; infinite for a share that cannot be."""
    mixed = lgamma(wins + 1) + lgamma(losses + 1) - lgamma(wins + losses + 2)
    if (wins and share <= 0.0) or (losses and share >= 1.0):
        return inf
    of_wins, of_losses = wins * log(share) if wins else 0.0, losses * log(1 - share) if losses else 0.0
    return mixed - (of_wins + of_losses)  # added first, so that the sides can be exchanged without rounding differently
