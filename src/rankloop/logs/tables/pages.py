"""Which rows of a log were one page: by the id of a list, or by the visit, the query and positions that come again."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.logs.columns import QUERIES, SESSIONS, plain_name

Kept = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class Pages(NamedTuple):
    """Where lists begin among the rows that are kept; rows that say the same again are not."""

    offsets: Ints
    kept: Kept

    @property
    def n_repeated(self) -> int:
        return int((~self.kept).sum())


def pages_of(
    lists: Sequence[Any],
    column: str,
    position: Floats,
    queries: Sequence[Any] | None = None,
    items: Sequence[Any] | None = None,
    where: str = "",
) -> Pages:
    """The pages of a table in the order of its rows.

    A `column` named like a visit or a query does not tell pages apart when it comes again: a page ends where the visit
    or the query changes, or where a position comes a second time. The rows of a page stand together; a row that repeats
    the item and the position of its list is left out, where the column names single lists.
    """
    session, of_query = plain_name(column) in SESSIONS, plain_name(column) in QUERIES
    keys = list(zip(lists, queries)) if session and queries is not None else list(lists)
    if not session and not of_query:
        return _by_id(keys, column, position, items, where)
    starts, seen, last = list[int](), set[float](), object()
    for row, (key, stands) in enumerate(zip(keys, position.tolist())):
        if row == 0 or key != last or stands in seen:
            starts.append(row)
            seen, last = set(), key
        seen.add(stands)
    _refuse_scattered([keys[row] for row in starts], keys, position, column, where)
    return Pages(np.array([*starts, len(keys)], dtype=np.int64), np.ones(len(keys), dtype=np.bool_))


def _by_id(keys: Sequence[Any], column: str, position: Floats, items: Sequence[Any] | None, where: str) -> Pages:
    starts = [row for row in range(len(keys)) if row == 0 or keys[row] != keys[row - 1]]
    if len({keys[row] for row in starts}) != len(starts):
        raise InvalidInput(f"{where}: the rows of a list do not stand together; sort by {column!r}")
    kept = np.ones(len(keys), dtype=np.bool_)
    if items is not None:
        seen = set[Any]()
        for row, cell in enumerate(zip(keys, items, position.tolist())):
            kept[row] = cell not in seen
            seen.add(cell)
    numbers = np.concatenate([[0], np.cumsum(kept)])
    return Pages(numbers[[*starts, len(keys)]].astype(np.int64), kept)


def _refuse_scattered(heads: Sequence[Any], keys: Sequence[Any], position: Floats, column: str, where: str) -> None:
    """Refuse lists whose rows stand apart: they come again, though no position of theirs does."""
    counts = dict[Any, int]()
    for key in heads:
        counts[key] = counts.get(key, 0) + 1
    again = {key for key, count in counts.items() if count > 1}
    if not again:
        return
    stands, rows = dict[Any, set[float]](), dict[Any, int]()
    for key, at in zip(keys, position.tolist()):
        if key in again:
            stands.setdefault(key, set()).add(at)
            rows[key] = rows.get(key, 0) + 1
    if any(len(stands[key]) == rows[key] for key in again):
        raise InvalidInput(f"{where}: the rows of a list do not stand together; sort by {column!r}")
