"""ClickCounters: decayed clicks and impressions that a ranker keeps itself, for fields of kind `counter`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.features.kinds import DAY_SECONDS, Counter
from rankloop.features.schema import Schema

MAX_COUNTED = 1_000_000  # keys of a counter; of more, those that were counted longest ago are dropped
FIRST_CLICK_RATE = 0.1  # before there is a click
FIRST_IMPRESSIONS = 10.0  # that this rate counts for


class Count(NamedTuple):
    """Decayed clicks and impressions at a time in seconds since 1970."""

    clicks: float = 0.0
    impressions: float = 0.0
    at: float = 0.0

    def decayed(self, at: float, half_life_days: float) -> "Count":
        """Return the count at a later time; an earlier time changes nothing."""
        if at <= self.at:
            return self
        share = 0.5 ** ((at - self.at) / (DAY_SECONDS * half_life_days))
        return Count(share * self.clicks, share * self.impressions, at)

    def plus(self, clicks: float, at: float, half_life_days: float) -> "Count":
        """Return the count after one more impression."""
        count = self.decayed(at, half_life_days)
        return Count(count.clicks + clicks, count.impressions + 1.0, count.at)


class ClickCounters:
    """The counts of all fields of kind `counter`: values for rankings, updated by feedback.

    Values go into the impression, so that late feedback is learned with the counts of its ranking.
    """

    def __init__(self, schema: Schema | None, plain: Mapping[str, Any] | None = None) -> None:
        features, self.context = ({}, {}) if schema is None else (schema.features, schema.context)
        self.fields = {name: kind for name, kind in features.items() if isinstance(kind, Counter)}
        for name, kind in self.fields.items():
            if kind.by and (kind.by == name or (kind.by not in features and kind.by not in self.context)):
                raise InvalidInput(f"the counter {name!r} counts by {kind.by!r}, which is not another field")
        plain = plain or {"counts": {}, "totals": {}}  # what `to_plain` returned; fields that are new since begin at 0
        self.counts = {
            name: {key: Count(*values) for key, values in plain["counts"].get(name, {}).items()} for name in self.fields
        }
        self.totals = {name: Count(*plain["totals"].get(name, ())) for name in self.fields}

    def filled(self, ids: Sequence[Any], rows: Sequence[Any], context: Mapping[str, Any], at: float) -> list[Any]:
        """Return rows by name with the values of the counters at a time; values that the caller gives stay."""
        if not self.fields:
            return list(rows)
        return [
            {**{name: self._value(name, id, row, context, at) for name in self.fields}, **row}
            if isinstance(row, Mapping)
            else row
            for id, row in zip(ids, rows)
        ]

    def add(
        self,
        items: Iterable[tuple[Any, Mapping[str, Any]]],
        context: Mapping[str, Any],
        clicked: Mapping[Any, float],
        at: float,
    ) -> None:
        """Count a page: id and row of each item that the user saw, and the weight of the click by id."""
        for id, row in items:
            click = float(clicked.get(id, 0.0) > 0)
            for name, kind in self.fields.items():
                counts, key = self.counts[name], self._key(name, id, row, context)
                # Taken out and put in again, so that the first key is the one that was counted longest ago.
                counts[key] = counts.pop(key, Count()).plus(click, at, kind.half_life_days)
                self.totals[name] = self.totals[name].plus(click, at, kind.half_life_days)
                if len(counts) > MAX_COUNTED:
                    del counts[next(iter(counts))]

    def _key(self, name: str, id: Any, row: Mapping[str, Any], context: Mapping[str, Any]) -> str:
        by = self.fields[name].by
        if by in self.context:
            return f"{context.get(by)!r} {id!r}"
        return repr(row.get(by)) if by else repr(id)

    def _value(self, name: str, id: Any, row: Mapping[str, Any], context: Mapping[str, Any], at: float) -> float:
        kind = self.fields[name]
        count = self.counts[name].get(self._key(name, id, row, context), Count()).decayed(at, kind.half_life_days)
        if kind.counts != "rate":
            return math.log1p(count.clicks if kind.counts == "clicks" else count.impressions)
        total, weight = self.totals[name].decayed(at, kind.half_life_days), kind.impressions
        rate = (total.clicks + FIRST_CLICK_RATE * FIRST_IMPRESSIONS) / (total.impressions + FIRST_IMPRESSIONS)
        return math.log((count.clicks + weight * rate) / ((count.impressions + weight) * rate))

    def to_plain(self) -> dict[str, Any]:
        """Return all counts for a file."""
        counts = {name: {key: list(count) for key, count in by_key.items()} for name, by_key in self.counts.items()}
        return {"counts": counts, "totals": {name: list(total) for name, total in self.totals.items()}}
