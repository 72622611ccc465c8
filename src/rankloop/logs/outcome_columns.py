"""Columns that tell what came of a ranking rather than what was ranked: nobody has them when the next one is made."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from rankloop.logs.columns import USUAL_NAMES, plain_name

EMPTY_VALUES = frozenset([None, "", 0.0, "0", "no", "No", "n", "false", "False", "none", "None"])  # count as one value
MAX_VALUES = 50  # of rows without a click: a column with more different ones is no outcome
MAX_CLICKED = 10_000  # different values of clicked rows that are kept apart
MAX_CHANCE = 1e-4  # a column that clicked rows alone have by chance so seldom is theirs
MIN_SHARE_DIFFERENCE = 0.9
BY_NAME, BY_ROLE = "named like an outcome", "named as one"
SAME, ALMOST, ONLY = "the same as the click", "nearly the same as the click", "only clicked rows have it"


class Outcomes:
    """Columns that only clicked rows fill, counted a piece of a log at a time."""

    def __init__(self) -> None:
        self.columns: dict[str, tuple[Counter[Any], Counter[Any]]] = {}
        self.rows = np.zeros(2, np.int64)  # without a click, with one

    def add(self, columns: Mapping[str, Sequence[Any]], clicked: Sequence[Any] | np.ndarray[Any, Any]) -> None:
        """Count more rows; `clicked` is above 0 where a row was."""
        hits = np.asarray(clicked, dtype=np.float64) > 0
        self.rows += [int((~hits).sum()), int(hits.sum())]
        for name, values in columns.items():
            missed, gained = self.columns.setdefault(name, (Counter(), Counter()))
            if len(missed) > MAX_VALUES:
                continue  # no outcome, whatever comes
            for counts, is_counted in ((missed, ~hits), (gained, hits)):
                for value, count in _count_values(values, is_counted):
                    if len(counts) < MAX_CLICKED or value in counts:
                        counts[value] += count

    def reasons(self) -> dict[str, str]:
        """Return the columns that are outcomes, each with the reason."""
        reasons = {
            name: BY_NAME if plain_name(name) in USUAL_NAMES["outcome"] else self._reason(name) for name in self.columns
        }
        return {name: reason for name, reason in reasons.items() if reason}

    def _reason(self, name: str) -> str:
        (missed, gained), (n_missed, n_gained) = self.columns[name], self.rows.tolist()
        if not n_missed or not n_gained or len(missed) > MAX_VALUES:
            return ""
        usual = missed.most_common(1)[0][0]
        others = n_gained - gained[usual]
        if (n_gained / (n_missed + n_gained)) ** others > MAX_CHANCE:
            return ""
        unusual = 1.0 - missed[usual] / n_missed  # of the rows without a click
        if unusual == 0.0:
            return SAME if others == n_gained and len(gained) == 1 else ONLY
        return ALMOST if others / n_gained - unusual >= MIN_SHARE_DIFFERENCE else ""


def outcomes_of(columns: Mapping[str, Sequence[Any]], clicked: Any, roles: Sequence[str] = ()) -> dict[str, str]:
    """Return the outcomes among the columns of a table, each with the reason.

    Args:
      columns: The columns by name.
      clicked: The clicks.
      roles: Names of columns that are outcomes by their role.
    """
    outcomes = Outcomes()
    outcomes.add(columns, clicked)
    return {name: BY_ROLE for name in roles if name in columns} | outcomes.reasons()


def outcomes_said(outcomes: Mapping[str, str]) -> str:
    """Return one line about columns that are not used as features, with the reasons."""
    return ", ".join(f"{name} ({reason})" for name, reason in outcomes.items())


def _count_values(values: Any, chosen: Any) -> Iterable[tuple[Any, int]]:
    """Return the count of each value in the chosen rows."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        different, counts = np.unique(values[chosen], return_counts=True)
        return zip(map(_plain, different.tolist()), counts.tolist())
    chosen_values = list(compress(values, chosen.tolist()))
    try:
        value_counts = Counter(chosen_values)
    except TypeError:  # lists, which cannot be counted as they are
        value_counts = Counter(map(str, chosen_values))
    return [(_plain(value), count) for value, count in value_counts.items()]


def _plain(value: Any) -> Any:
    """A value to count by: what is missing, 0, no or false is one value."""
    if isinstance(value, bool | int | float):
        value = None if value != value else float(value)
    return None if value in EMPTY_VALUES else value
