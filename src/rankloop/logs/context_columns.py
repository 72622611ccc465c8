"""Which columns of a log tell of the visitor, and how: learned from the whole log before anything else is."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats
from rankloop.logs.context import POSITION, Encoding
from rankloop.logs.outcomes import Outcomes
from rankloop.logs.table import LogPiece, are_times

MAX_VALUES = 50
MAX_COUNTED = 100_000  # whole numbers that all differ so far are an id
ID_NAME = re.compile(r"(^|[\W_])(?i:id|uid|uuid|guid)$|[a-z](Id|ID)$")


class Numbers:
    """What was seen of a column of numbers: its mean, and whether it looks like an id."""

    def __init__(self, name: str) -> None:
        self.named_id = ID_NAME.search(name) is not None
        self.sum, self.n, self.seen = 0.0, 0, set[float]()
        self.whole, self.repeats = True, False

    def add(self, column: Floats) -> None:
        known = column[np.isfinite(column)]
        self.sum, self.n = self.sum + float(known.sum()), self.n + len(known)
        if self.whole and (self.named_id or not self.repeats) and len(self.seen) <= MAX_COUNTED:
            self.seen.update(known.tolist())
            self.whole = bool((known == np.floor(known)).all())
            self.repeats = len(self.seen) < self.n

    @property
    def mean(self) -> float:
        return self.sum / max(self.n, 1)

    @property
    def is_id(self) -> bool:
        """Many whole numbers, in a column that is named like an id or in which no number comes twice."""
        return self.whole and len(self.seen) > MAX_VALUES and (self.named_id or not self.repeats)


class Texts:
    """What was seen of a column of texts: how often each, so that the most frequent become values."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, column: Any) -> None:
        self.counts.update(value for value in column if value is not None)

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(sorted(value for value, _ in self.counts.most_common(MAX_VALUES)))

    @property
    def is_id(self) -> bool:
        """Texts that differ in nearly every row."""
        return len(self.counts) > MAX_VALUES and 2 * len(self.counts) > self.counts.total()

    @property
    def is_time(self) -> bool:
        """Dates or times, which a visitor of tomorrow cannot have."""
        return are_times(self.counts)


def encoding_of(
    pieces: Iterable[LogPiece],
    context: Sequence[str] | None = None,
    without: Sequence[str] = (),
    asked_for: Sequence[str] = (),
) -> Encoding:
    """Learn ads, values and means from a whole log; texts keep their most frequent values.

    `context` names the columns to learn from, also those that look like ids, times or outcomes of the click; by default
    all are but these, and those of them that are in `asked_for`. `without` names columns not to learn from.
    """
    ads: Counter[str] = Counter()
    revealed = Outcomes()
    numbers: dict[str, Numbers] = {}
    texts: dict[str, Texts] = {}
    for piece in pieces:
        ads.update(label for label in piece.action if label is not None)
        chosen = _chosen(piece, context, without)
        revealed.add(chosen, piece.reward)
        for name, column in chosen.items():
            if column.dtype == object:
                texts.setdefault(name, Texts()).add(column)
            else:
                numbers.setdefault(name, Numbers(name)).add(column)
    if not ads:
        raise InvalidInput("the log has no rows")
    wanted = {*(context or ()), *asked_for}
    outcomes = {name: reason for name, reason in revealed.found().items() if name not in (*wanted, POSITION)}
    for name in outcomes:
        numbers.pop(name, None)
        texts.pop(name, None)
    seen: dict[str, Numbers | Texts] = {**numbers, **texts}
    times = [name for name, column in texts.items() if column.is_time and name not in wanted]
    ids = [name for name, column in seen.items() if column.is_id and name not in (*wanted, *times)]
    used = [name for name in numbers if name not in ids and name not in texts]
    named = [name for name in texts if name not in (*ids, *times) and texts[name].counts]
    values = (*(() for _ in used), *(texts[name].values for name in named))
    means = (*(numbers[name].mean for name in used), *(0.0 for _ in named))
    said = tuple(f"{name} ({reason})" for name, reason in outcomes.items())
    return Encoding(_in_order(ads), (*used, *named), values, means, tuple(ids), tuple(times), said)


def _chosen(piece: LogPiece, context: Sequence[str] | None, without: Sequence[str]) -> dict[str, Any]:
    """The columns to look at, and where the ad stood."""
    for name in (*(context or ()), *without):
        if name not in piece.context:
            raise InvalidInput(f"the log has no context column {name!r}{nearest(name, piece.context)}")
    names = piece.context if context is None else context
    columns = {name: piece.context[name] for name in names if name not in without}
    return columns if piece.position is None else columns | {POSITION: piece.position}


def _in_order(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        sorted(labels, key=lambda label: (not label.isdecimal(), int(label) if label.isdecimal() else 0, label))
    )
