"""A log of any length in constant memory: what an estimate and its bounds need of it, added up piece by piece."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats

N_GROUPS = 4096
ROUNDING_TOLERANCE = 1e-24  # of their squares: what differs less is rounding
TOP, BOTTOM, REWARD = 0, 1, 2
RANGE_BOUNDS = ("bernstein", "hoeffding")  # these hold for any distribution, of a known range
MIN_REWARDS, MIN_ROWS = 20, 100
THIN_SHARE = 0.1
HEAVY_SHARE = 0.1


class NeverShown(InvalidInput):
    """Nothing that a log shows would have been shown by the policy that is to be evaluated."""


class Extremes(NamedTuple):
    """The least and the largest reward, the heaviest weight whatever its sign, and the least propensity."""

    least: float = 0.0
    largest: float = 0.0
    heaviest: float = 0.0
    least_propensity: float = 1.0

    @classmethod
    def of(cls, weight: Floats, rewards: Sequence[Floats], propensity: Floats | None = None) -> "Extremes":
        """Return the extremes of arrays of any shape; a reward model's values are rewards too."""
        least = min(float(values.min(initial=0.0)) for values in rewards)
        largest = max(float(values.max(initial=0.0)) for values in rewards)
        least_propensity = 1.0 if propensity is None else float(propensity.min(initial=1.0))
        return cls(least, largest, float(np.abs(weight).max(initial=0.0)), least_propensity)

    def joined(self, other: "Extremes") -> "Extremes":
        """Return the extremes of both parts."""
        return Extremes(
            least=min(self.least, other.least),
            largest=max(self.largest, other.largest),
            heaviest=max(self.heaviest, other.heaviest),
            least_propensity=min(self.least_propensity, other.least_propensity),
        )


class Series(NamedTuple):
    """The summands of an estimator for a piece of a log, one entry per decision; the estimate is Σ top / Σ bottom."""

    top: Floats
    bottom: Floats
    reward: Floats
    weight: Floats  # how much likelier the target policy is to show this than the logging one was
    extremes: Extremes  # of what the summands are made of

    @classmethod
    def of_weights(cls, reward: Floats, weight: Floats) -> "Series":
        """Return the summands weight · reward."""
        return cls(weight * reward, np.ones(len(weight)), reward, weight, Extremes.of(weight, [reward]))


class Overlap(NamedTuple):
    """Diagnostics of the weights w = target / propensity; on a log that covers the target they average 1."""

    mean_weight: float
    mean_weight_error: float
    largest_weight: float
    largest_share: float  # of the sum of all weights
    unsupported: float  # share of rows that the target would never show
    effective_n: float
    effective_rewards: float  # so many rewarded rows of equal weight carry the estimate
    effective_losses: float  # so many rows pull it down; the bound from below rests on them

    @property
    def is_off_balance(self) -> bool:
        """True where the weights average so far from 1 that the log cannot tell how good the target policy is."""
        return abs(self.mean_weight - 1.0) > 4.0 * self.mean_weight_error + 0.01

    def rests_on(self, bound: str) -> float:
        """Return how many rows carry the estimate and its lower bound; `MIN_REWARDS` are needed."""
        losses = math.inf if bound in RANGE_BOUNDS else self.effective_losses
        return min(self.effective_rewards, losses)

    def warnings(self, n: int, bound: str) -> tuple[str, ...]:
        """Return sentences about what makes the estimate from `n` rows unreliable; none if nothing does."""
        warnings = []
        if self.effective_rewards < MIN_REWARDS:
            basis = f"the estimate is based on about {self.effective_rewards:.0f} rewarded rows"
            needed = f"needs {MIN_REWARDS} or more for a bound worth having"
            warnings.append(f"the log is too small to tell: {basis}, and {needed}")
        elif self.rests_on(bound) < MIN_REWARDS:
            basis = f"only about {self.effective_losses:.0f} rows earned much less than the others"
            needed = f"the lower bound needs {MIN_REWARDS} or more to hold"
            warnings.append(f"the log is too small to tell: {basis}, and {needed}")
        if self.effective_n < min(MIN_ROWS, n) or self.effective_n < THIN_SHARE * n:
            basis = f"the log's {n:,} rows count as only {self.effective_n:,.0f}"
            warnings.append(f"{basis}: the target policy mostly shows what the log seldom shows")
        if self.largest_share > HEAVY_SHARE and n > 1:
            warnings.append(f"a single row carries {self.largest_share:.0%} of the weight")
        if self.is_off_balance:
            cause = "the propensities are wrong, or the target policy shows what the log never shows"
            warnings.append(f"the weights average {self.mean_weight:.3g} and should average 1: {cause}")
        return tuple(warnings)


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
        self.weight_sum = self.weight_squares = self.largest_weight = self.top_squares = 0.0
        self.unsupported = self.rewarded = 0
        self.extremes = Extremes()

    @classmethod
    def of(cls, pieces: Iterable[Series]) -> "Sums":
        """Return the sums over a log in pieces."""
        sums = cls()
        for piece in pieces:
            sums.add(piece)
        return sums

    @np.errstate(over="ignore", invalid="ignore")  # refused when the log has ended
    def add(self, series: Series) -> None:
        """Add the next piece."""
        n, weight = len(series.top), series.weight
        if n == 0:
            return
        rows = np.stack([series.top, series.bottom, series.reward])
        # Chan, Golub and LeVeque's update, which does not cancel.
        mean = rows.mean(axis=1)
        centred = rows - mean[:, None]
        step, total = mean - self.mean, self.n + n
        self.scatter += centred @ centred.T + np.outer(step, step) * (self.n * n / total)
        self.mean += step * (n / total)
        group = (np.arange(n) + self.n) % N_GROUPS
        for column in range(3):
            self.groups[:, column] += np.bincount(group, rows[column], N_GROUPS)
        self.groups[:, 3] += np.bincount(group, minlength=N_GROUPS)
        self.weight_sum += float(weight.sum())
        self.weight_squares += float((weight**2).sum())
        self.largest_weight = max(self.largest_weight, float(weight.max()))
        self.top_squares += float((series.top**2).sum())
        self.unsupported += int((weight == 0.0).sum())
        self.rewarded += int(((series.reward != 0.0) & (weight > 0.0)).sum())
        self.extremes = self.extremes.joined(series.extremes)
        self.n += n

    def check(self) -> None:
        """Raise if nothing can be estimated."""
        if self.n == 0:
            raise InvalidInput("the log has no rows; an estimate needs at least one, and an iterator can be read once")
        if self.mean[BOTTOM] == 0.0:
            raise NeverShown(
                "the target policy would never have shown anything that the log shows: the log says nothing about it"
            )
        if not np.isfinite([*self.mean, *self.scatter.ravel(), self.weight_squares, self.top_squares]).all():
            _, reward, weight, propensity = self.extremes
            fault = f"the weights (up to {weight:.3g}) or rewards (up to {reward:.3g}) are too large to be summed"
            raise InvalidInput(f"{fault}; the smallest propensity is {propensity:.3g}: is it a probability?")

    @property
    def value(self) -> float:
        """The estimate, Σ top / Σ bottom."""
        return float(self.mean[TOP] / self.mean[BOTTOM])

    @property
    def current(self) -> float:
        """The mean reward of the log itself."""
        return float(self.mean[REWARD])

    def _effective_losses(self) -> float:
        """Return the number of rows that pull the estimate down, by its skewness: 1/skew², as of so many losses."""
        # As many as there are rows where the estimate does not lean downwards; 0 where no row differs from another.
        groups = self.filled_groups()
        away = groups[:, TOP] - self.value * groups[:, BOTTOM]
        squares, cubes = float((away**2).sum()), float((away**3).sum())
        if squares <= ROUNDING_TOLERANCE * float((groups[:, TOP] ** 2).sum()):
            return 0.0
        return min(float(self.n), squares**3 / cubes**2) if cubes < 0.0 else float(self.n)

    def overlap(self) -> Overlap:
        """Return diagnostics of the weights."""
        mean, total_reward = self.weight_sum / self.n, float(self.mean[TOP]) * self.n
        return Overlap(
            mean_weight=mean,
            mean_weight_error=math.sqrt(max(0.0, self.weight_squares / self.n - mean**2) / self.n),
            largest_weight=self.largest_weight,
            largest_share=self.largest_weight / self.weight_sum if self.weight_sum else 1.0,
            unsupported=self.unsupported / self.n,
            effective_n=self.weight_sum**2 / self.weight_squares if self.weight_squares else 0.0,
            effective_rewards=total_reward**2 / self.top_squares if self.top_squares else 0.0,
            effective_losses=self._effective_losses(),
        )

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
