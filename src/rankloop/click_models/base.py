"""What a fitted click model is, and the belief about what nobody has clicked yet."""

from typing import Any, NamedTuple

import numpy as np

from rankloop.core.types import Floats
from rankloop.simulate.users.fitted_users import BROWSING, FittedUsers, ModelName

SMALLEST = 1e-6  # no probability is nearer to 0 or 1
LEVELS = 5  # grades 0 … 4 of the people that a log becomes
SURE = 3.0  # standard deviations by which pairs must differ more than chance lets them
ALIKE = 1e6  # rows of a belief that no log outweighs: all pairs are the same
MAX_ROUNDS, TOLERANCE = 500, 1e-8  # of expectation maximisation; gain per row


class Prior(NamedTuple):
    """A belief about every pair: as if `rows` rows had been seen of which a share `mean` was clicked."""

    mean: Floats  # by pair
    rows: float


class Fitted(NamedTuple):
    """The numbers of a click model; those that it does not have are neutral."""

    model: ModelName
    attraction: Floats  # by pair: P(click | examined)
    satisfaction: Floats  # by pair: P(stop | clicked)
    examination: Floats  # (positions, ways back to the last click), as `FittedUsers` has it
    stop: Floats  # by position, after a click
    persistence: float
    clicks: Floats  # by pair
    examined: Floats  # by pair: how often it was examined, as far as the clicks tell
    prior: Prior
    objectives: tuple[float, ...] = ()  # log-likelihood and prior, before each round; empty: closed form
    prior_satisfaction: Prior | None = None

    @property
    def browsing(self) -> bool:
        return self.model in BROWSING

    def stop_after(self, pair: Any, position: Any) -> Floats:
        """The probability of each row to be the end, where it is clicked."""
        by_pair = self.model in ("sdbn", "dbn")
        stop: Floats = self.satisfaction[pair] if by_pair else self.stop[np.minimum(position, len(self.stop) - 1)]
        return stop

    def spec(self, shown: int | None = None, by_grade: bool = True) -> dict[str, Any]:
        """The people of this log as data, for any experiment; five levels of attraction stand for grades."""
        attraction, satisfaction = self.levels()
        spec: dict[str, Any] = {"kind": "fitted_users", "model": self.model, "attraction": _short(attraction)}
        if self.browsing:
            spec["examination"] = [_short(row) for row in self.examination]
        if self.model == "dcm":
            spec["stop"] = _short(self.stop)
        if self.model in ("sdbn", "dbn"):
            spec["satisfaction"] = _short(satisfaction)
        if self.model == "dbn":
            spec["persistence"] = round(self.persistence, 6)
        if not by_grade:
            spec["by_grade"] = False
        return spec | {"shown": len(self.examination) if shown is None else shown}

    def users(self, shown: int | None = None, by_grade: bool = False) -> FittedUsers:
        """The people themselves; unless `by_grade` they take relevance for attraction."""
        spec = self.spec(shown, by_grade)
        del spec["kind"]
        return FittedUsers(**spec)

    def levels(self) -> tuple[Floats, Floats]:
        """Mean attraction and satisfaction of equal parts of what was examined, from the least attractive on."""
        order = np.argsort(self.attraction, kind="stable")
        weights = self.examined[order] + 1e-9
        part = np.minimum((np.cumsum(weights) / weights.sum() * LEVELS - 1e-9).astype(int), LEVELS - 1)
        attraction, satisfaction = np.zeros(LEVELS), np.zeros(LEVELS)
        for level in range(LEVELS):
            own = order[part == level] if (part == level).any() else order[[min(len(order) - 1, level)]]
            attraction[level] = np.average(self.attraction[own], weights=self.examined[own] + 1e-9)
            satisfaction[level] = np.average(self.satisfaction[own], weights=self.clicks[own] + 1e-9)
        return np.maximum.accumulate(attraction), satisfaction


def shares(hits: Floats, rows: Floats, prior: Prior) -> Floats:
    """What to believe of each pair after so many hits in so many rows."""
    total = rows + prior.rows
    found = np.where(total > 0.0, (hits + prior.rows * prior.mean) / np.where(total > 0.0, total, 1.0), prior.mean)
    clipped: Floats = np.clip(found, SMALLEST, 1.0 - SMALLEST)
    return clipped


def estimated_prior(hits: Floats, rows: Floats) -> Prior:
    """A belief as strong as the pairs are alike: by how much more their shares differ than chance lets them.

    With p = hits/rows, mean m and variance τ² between pairs, E Σ rows (p − m)² = Σ m(1 − m) + τ² Σ (rows − 1), from
    which τ² and the rows of a beta distribution, m(1 − m)/τ² − 1.
    """
    mean = float((hits.sum() + 0.5) / (rows.sum() + 1.0))
    n, h = rows[rows > 0.0], hits[rows > 0.0]
    noise = mean * (1.0 - mean)
    excess = float((n * (h / n - mean) ** 2).sum()) - noise * max(len(n) - 1, 0)
    informative = float(np.maximum(n - 1.0, 0.0).sum())
    spread = np.sqrt((2.0 * noise**2 + noise * max(1.0 - 6.0 * noise, 0.0) / n).sum()) if len(n) else 0.0
    if informative <= 0.0 or excess <= SURE * spread:
        return Prior(np.full(len(hits), mean), ALIKE)
    return Prior(np.full(len(hits), mean), float(np.clip(noise * informative / excess - 1.0, 0.5, ALIKE)))


def _short(values: Floats) -> list[float]:
    return [round(float(value), 6) for value in values]
