"""Columns that tell what came of a ranking rather than what was ranked: nobody has them when the next one is made."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from rankloop.logs.columns import plain_name

# Usual names of what people do after a click; a column that only looks back (sales_last_week) has another name.
SALES = ("purchased", "purchase", "bought", "is_purchase", "converted", "conversion", "is_conversion", "revenue", "gmv")
CARTS = ("add_to_cart", "added_to_cart", "addtocart", "add_to_basket", "added_to_basket", "order_value")
VISITS = ("dwell", "dwell_time", "time_on_page", "was_clicked", "has_click", "is_clicked", "click_time", "clicked_at")
BOOKING_NAMES = ("booking_bool", "booked", "is_booked", "gross_bookings_usd")
OUTCOMES = frozenset((*SALES, *CARTS, *VISITS, *BOOKING_NAMES))
NOTHING = frozenset([None, "", 0.0, "0", "no", "No", "n", "false", "False", "none", "None"])  # all of them one value
MAX_VALUES = 50  # of rows without a click: a column with more different ones is no outcome
MAX_CLICKED = 10_000  # different values of clicked rows that are kept apart
RARE = 1e-4  # a column that clicked rows alone have by chance so seldom is theirs
NEARLY = 0.9
BY_NAME = "named like an outcome"
SAME, ALMOST, ONLY = "the same as the click", "nearly the same as the click", "only clicked rows have it"


class Outcomes:
    """What clicked rows have and others have not, seen a piece of a log at a time."""

    def __init__(self) -> None:
        self.columns: dict[str, tuple[Counter[Any], Counter[Any]]] = {}
        self.rows = np.zeros(2, np.int64)  # without a click, with one

    def add(self, columns: Mapping[str, Sequence[Any]], clicked: Sequence[Any] | np.ndarray[Any, Any]) -> None:
        """More rows; `clicked` is above 0 where a row was."""
        hits = np.asarray(clicked, dtype=np.float64) > 0
        self.rows += [int((~hits).sum()), int(hits.sum())]
        for name, values in columns.items():
            missed, gained = self.columns.setdefault(name, (Counter(), Counter()))
            if len(missed) > MAX_VALUES:
                continue  # no outcome, whatever comes
            for counts, chosen in ((missed, ~hits), (gained, hits)):
                for value, count in _counted(values, chosen):
                    if len(counts) < MAX_CLICKED or value in counts:
                        counts[value] += count

    def found(self) -> dict[str, str]:
        """The columns that are outcomes, each with what gave it away."""
        reasons = {name: BY_NAME if is_outcome_name(name) else self._reason(name) for name in self.columns}
        return {name: reason for name, reason in reasons.items() if reason}

    def _reason(self, name: str) -> str:
        (missed, gained), (n_missed, n_gained) = self.columns[name], self.rows.tolist()
        if not n_missed or not n_gained or len(missed) > MAX_VALUES:
            return ""
        usual = missed.most_common(1)[0][0]
        others = n_gained - gained[usual]
        if (n_gained / (n_missed + n_gained)) ** others > RARE:
            return ""
        unusual = 1.0 - missed[usual] / n_missed  # of the rows without a click
        if unusual == 0.0:
            return SAME if others == n_gained and len(gained) == 1 else ONLY
        return ALMOST if others / n_gained - unusual >= NEARLY else ""


def outcomes_of(columns: Mapping[str, Sequence[Any]], clicked: Any) -> dict[str, str]:
    """Return the outcomes among the columns of a table, each with the reason.

    Args:
      columns: The columns by name.
      clicked: The clicks.
    """
    seen = Outcomes()
    seen.add(columns, clicked)
    return seen.found()


def is_outcome_name(name: str) -> bool:
    """Whether a column is called like something that happens after a click."""
    return plain_name(name) in OUTCOMES


def outcomes_said(outcomes: Mapping[str, str], names: Iterable[str] | None = None) -> str:
    """Return one line about columns that are not used as features.

    Args:
      outcomes: The outcomes with their reasons.
      names: The columns.
    """
    chosen = outcomes if names is None else {name: outcomes[name] for name in names}
    return ", ".join(f"{name} ({reason})" for name, reason in chosen.items())


def _counted(values: Any, chosen: Any) -> Iterable[tuple[Any, int]]:
    """How often each value stands in the chosen rows."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        different, counts = np.unique(values[chosen], return_counts=True)
        return zip(map(_plain, different.tolist()), counts.tolist())
    own = list(compress(values, chosen.tolist()))
    try:
        found = Counter(own)
    except TypeError:  # lists, which cannot be counted as they are
        found = Counter(map(str, own))
    return [(_plain(value), count) for value, count in found.items()]


def _plain(value: Any) -> Any:
    """A value to count by: what is missing, 0, no or false is one value."""
    if isinstance(value, bool | int | float):
        value = None if value != value else float(value)
    return None if value in NOTHING else value
