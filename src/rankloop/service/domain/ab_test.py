"""A/B tests: which user sees which variant, what the users of each variant bring, and what follows from it."""

from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any

import msgspec

from rankloop.core.statistics import ERROR_PROBABILITY, VariantSums, sign_p_value
from rankloop.service.records import Ranked

VARIANTS = ("a", "b")
CLICKS = "clicks"
MAX_USERS = 1_000_000  # of an experiment, beyond which new users are shown a variant but not counted
MIN_SAMPLE_RATIO_P_VALUE = 0.001  # below it, users are not assigned as they should be
PLANNED_EFFECT = 0.05  # relative, for the days that a test needs
DAY_SECONDS = 86_400.0


def variant_of(entity: str, seed: int, user: str) -> str:
    """Return the variant that a user always sees.

    Args:
      entity: The experiment; with the seed it is the salt, so that users are divided anew in every experiment.
      seed: Of the experiment.
      user: The user, or the impression if the user is unknown.
    """
    return VARIANTS[blake2b(f"{entity} {seed} {user}".encode(), digest_size=8).digest()[0] & 1]


class MetricSums(msgspec.Struct):
    """Sums over the users of the variants a and b, of what each user brought and of its square."""

    total: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0])
    squares: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0])


class SplitCounts(msgspec.Struct):
    """The counts of an A/B test."""

    users: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    not_counted: int = 0  # impressions of users beyond the limit
    metrics: dict[str, MetricSums] = {}
    began: float = 0.0  # the times of the first and the last impression
    latest: float = 0.0

    def sums(self, metric: str) -> tuple[VariantSums, VariantSums]:
        """Return the sums of both variants."""
        sums = self.metrics.get(metric, MetricSums())
        a, b = (VariantSums(self.users[variant], sums.total[variant], sums.squares[variant]) for variant in (0, 1))
        return a, b

    def result(self, metrics: Sequence[str], guardrails: Mapping[str, float]) -> dict[str, Any]:
        """Return the report of the test, of clicks and the declared outcomes: a is compared with b.

        `guardrails` say by metric how much of it a may lose, relative to b.
        """
        n_a, n_b = self.users
        ratio = sign_p_value(n_a, n_b)
        warnings = []
        if ratio < MIN_SAMPLE_RATIO_P_VALUE:
            reason = "users of one variant are missing, so do not trust the result"
            warnings.append(f"{n_a:,} and {n_b:,} users are not halves: {reason}")
        if self.not_counted:
            warnings.append(f"{self.not_counted:,} impressions of users after the first {MAX_USERS:,} are not counted")
        days = max(self.latest - self.began, 1.0) / DAY_SECONDS
        results = {metric: self._metric_result(metric, (n_a + n_b) / days) for metric in metrics}
        alarms = [
            f"{metric} fell by more than {limit:.0%}"
            for metric, limit in guardrails.items()
            if (high := results[metric]["relative_high"]) is not None and high < -limit
        ]
        return {
            "users": dict(zip(VARIANTS, self.users)),
            "sample_ratio": {"p_value": ratio, "is_wrong": ratio < MIN_SAMPLE_RATIO_P_VALUE},
            "metrics": results,
            "alarms": alarms,
            "warnings": warnings,
        }

    def _metric_result(self, metric: str, users_per_day: float) -> dict[str, Any]:
        """Return the means per user, their difference with its interval, and the days until an effect is found."""
        a, b = self.sums(metric)
        difference, needed = a.minus(b), a.users_needed(b, PLANNED_EFFECT)
        enough = min(a.users, b.users) > 0 and isfinite(needed)
        result = {
            "a": a.mean,
            "b": b.mean,
            "p_value": None if difference is None else difference.p_value,
            "is_decided": difference is not None and difference.p_value < ERROR_PROBABILITY,
            "users_needed": round(needed) if enough else None,
            "days_needed": max(0.0, needed - a.users - b.users) / users_per_day if enough and users_per_day else None,
        }
        for name, field in (("difference", "value"), ("low", "low"), ("high", "high")):
            amount = result[name] = None if difference is None else getattr(difference, field)
            relative = "relative" if field == "value" else f"relative_{field}"
            result[relative] = None if amount is None or not b.mean else amount / b.mean
        return result


class UserTotals:
    """The totals of every user of an A/B test so far, from which the variance between users follows."""

    def __init__(self, salt: str, metrics: Sequence[str]) -> None:
        self.salt = salt
        self.column = {metric: number for number, metric in enumerate(metrics)}
        self._rows: dict[int, int] = {}  # by the hash of a user
        self._totals = array("d")  # row by row, a number for each metric

    def show(self, counts: SplitCounts, ranked: Ranked, at: float) -> None:
        """Count an impression."""
        counts.began, counts.latest = counts.began or at, max(counts.latest, at)
        key = self._key(ranked)
        if key in self._rows:
            return
        if len(self._rows) >= MAX_USERS:
            counts.not_counted += 1
            return
        self._rows[key] = len(self._rows)
        self._totals.extend([0.0] * len(self.column))
        counts.users[VARIANTS.index(ranked.variant)] += 1

    def add(self, counts: SplitCounts, ranked: Ranked, values: Mapping[str, Mapping[int, float]]) -> None:
        """Count outcomes of an impression."""
        row, variant = self._rows.get(self._key(ranked)), VARIANTS.index(ranked.variant)
        for metric, by_item in values.items():
            added = sum(by_item.values())
            if row is None or not added or metric not in self.column:
                continue
            cell = row * len(self.column) + self.column[metric]
            earlier, later = self._totals[cell], self._totals[cell] + added
            self._totals[cell] = later
            sums = counts.metrics.setdefault(metric, MetricSums())
            sums.total[variant] += added
            sums.squares[variant] += later * later - earlier * earlier

    def saved(self) -> bytes:
        """Return the totals as snapshots keep them."""
        return msgspec.msgpack.encode((array("Q", self._rows).tobytes(), self._totals.tobytes()))

    def restore(self, content: bytes) -> None:
        """Continue from the bytes of `saved`."""
        keys, totals = msgspec.msgpack.decode(content, type=tuple[bytes, bytes])
        self._rows = {key: row for row, key in enumerate(array("Q", keys))}
        self._totals = array("d", totals)

    def _key(self, ranked: Ranked) -> int:
        user = ranked.user or ranked.impression
        return int.from_bytes(blake2b(f"{self.salt} {user}".encode(), digest_size=8).digest(), "big")
