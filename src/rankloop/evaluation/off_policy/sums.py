"""A log of any length in constant memory: what an estimate and its bounds need of it, added up piece by piece."""

from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats

N_GROUPS = 4096
ROUNDING_TOLERANCE = 1e-24  # of their squares: what differs less is rounding
TOP, BOTTOM, REWARD = 0, 1, 2


class NeverShown(InvalidInput):
    """Nothing that a log shows would have been shown by the policy that is to be evaluated."""


class Extremes(NamedTuple):
    """The least and the largest reward, and the heaviest weight whatever its sign."""

    least: float = 0.0
    largest: float = 0.0
    heaviest: float = 0.0

    def joined(self, other: "Extremes") -> "Extremes":
        """Return the extremes of both together."""
        return Extremes(
            min(self.least, other.least), max(self.largest, other.largest), max(self.heaviest, other.heaviest)
        )


def extremes_of(weight: Floats, *rewards: Floats) -> Extremes:
    """Return the extremes of arrays of any shape; a reward model's values are rewards too."""
    least = min(float(values.min(initial=0.0)) for values in rewards)
    largest = max(float(values.max(initial=0.0)) for values in rewards)
    return Extremes(least, largest, float(np.abs(weight).max(initial=0.0)))


class Series(NamedTuple):
    """The summands of an estimator for a piece of a log, one entry per decision; the estimate is Σ top / Σ bottom."""

    top: Floats
    bottom: Floats
    reward: Floats
    weight: Floats  # how much likelier the target policy is to show this than the logging one was
    least_propensity: float
    extremes: Extremes  # of what the summands are made of


class Sums:
    """Running moments of (top, bottom, reward), of the weights, and of groups of rows for the bootstrap.

    Row i belongs to group i mod N_GROUPS: up to that many rows each is a group of its own, and the bootstrap is the
    ordinary one; beyond, groups are resampled, which keeps every cumulant of the mean (those of a sum add up).
    """

    def __init__(self) -> None:
        self.n = 0
        self.mean = np.zeros(3)
        self.scatter = np.zeros((3, 3))  # Σ (row − mean)(row − mean)ᵀ
        self.groups = np.zeros((N_GROUPS, 4))  # Σ top, Σ bottom, Σ reward, rows
        self.weight_sum = self.weight_squares = self.largest_weight = 0.0
        self.top_squares = 0.0
        self.unsupported = self.rewarded = 0
        self.least_propensity = 1.0
        self.extremes = Extremes()

    @np.errstate(over="ignore", invalid="ignore")  # refused when the log has ended
    def add(self, series: Series) -> None:
        """Add the next piece."""
        n = len(series.top)
        if n == 0:
            return
        rows = np.stack([series.top, series.bottom, series.reward])
        self._add_moments(rows, n)
        self._add_groups(rows, n)
        self._add_weights(series)
        self.n += n

    def _add_moments(self, rows: Floats, n: int) -> None:
        """Chan, Golub and LeVeque's update, which does not cancel."""
        mean = rows.mean(axis=1)
        centred = rows - mean[:, None]
        step, total = mean - self.mean, self.n + n
        self.scatter += centred @ centred.T + np.outer(step, step) * (self.n * n / total)
        self.mean += step * (n / total)

    def _add_groups(self, rows: Floats, n: int) -> None:
        group = (np.arange(n) + self.n) % N_GROUPS
        for column in range(3):
            self.groups[:, column] += np.bincount(group, rows[column], N_GROUPS)
        self.groups[:, 3] += np.bincount(group, minlength=N_GROUPS)

    def _add_weights(self, series: Series) -> None:
        self.weight_sum += float(series.weight.sum())
        self.weight_squares += float((series.weight**2).sum())
        self.largest_weight = max(self.largest_weight, float(series.weight.max()))
        self.top_squares += float((series.top**2).sum())
        self.unsupported += int((series.weight == 0.0).sum())
        self.rewarded += int(((series.reward != 0.0) & (series.weight > 0.0)).sum())
        self.extremes = self.extremes.joined(series.extremes)
        self.least_propensity = min(self.least_propensity, series.least_propensity)

    def checked(self) -> "Sums":
        """Return the sums, or raise if nothing can be estimated."""
        if self.n == 0:
            raise InvalidInput("the log has no rows; an estimate needs at least one")
        if self.mean[BOTTOM] == 0.0:
            raise NeverShown(
                "the target policy would never have shown anything that the log shows: the log says nothing about it"
            )
        if not np.isfinite([*self.mean, *self.scatter.ravel(), self.weight_squares, self.top_squares]).all():
            _, reward, weight = self.extremes
            raise InvalidInput(
                f"the weights (up to {weight:.3g}) or rewards (up to {reward:.3g}) are too large to be summed; the "
                f"smallest propensity is {self.least_propensity:.3g}: is it a probability?"
            )
        return self

    @property
    def value(self) -> float:
        """The estimate, Σ top / Σ bottom."""
        return float(self.mean[TOP] / self.mean[BOTTOM])

    @property
    def current(self) -> float:
        """The mean reward of the log itself."""
        return float(self.mean[REWARD])

    @property
    def effective_n(self) -> float:
        """(Σ w)² / Σ w²: how many rows of equal weight would say as much."""
        return self.weight_sum**2 / self.weight_squares if self.weight_squares else 0.0

    @property
    def effective_rewards(self) -> float:
        """The effective number of rewarded rows: so many clicks carry the estimate."""
        total = float(self.mean[TOP]) * self.n
        return total**2 / self.top_squares if self.top_squares else 0.0

    @property
    def effective_losses(self) -> float:
        """The number of rows that pull the estimate down, by its skewness: 1/skew², as of so many rare losses.

        As many as there are rows where the estimate does not lean downwards; 0 where no row differs from another.
        """
        groups = self.filled_groups()
        away = groups[:, TOP] - self.value * groups[:, BOTTOM]
        squares, cubes = float((away**2).sum()), float((away**3).sum())
        if squares <= ROUNDING_TOLERANCE * float((groups[:, TOP] ** 2).sum()):
            return 0.0
        return min(float(self.n), squares**3 / cubes**2) if cubes < 0.0 else float(self.n)

    def standard_error(self, gain: bool = False) -> float:
        """Return the standard error of value or gain, by linearisation if the bottom varies; nan for one row."""
        if self.n < 2:
            return float("nan")
        slope = np.array([1.0, -self.value, 0.0]) / self.mean[BOTTOM]
        slope[REWARD] = -float(gain)
        variance = max(0.0, float(slope @ self.scatter @ slope)) / (self.n - 1)
        return float(np.sqrt(variance / self.n))

    def filled_groups(self) -> Floats:
        """Return the groups that have rows."""
        return self.groups[: min(self.n, N_GROUPS)]
