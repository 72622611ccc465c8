"""What was shown and clicked, page by page, as arrays: all that a click model is fitted to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.logs.columns import SESSIONS, RawColumns, columns_said, named_like, plain_name, raw_columns_of
from rankloop.logs.impressions import exported_schemas, holds_impressions, read_impressions, read_shown_lists
from rankloop.logs.shown_lists import ShownList
from rankloop.logs.tables.pages import pages_of
from rankloop.logs.tables.source import Given, Source

MAX_POSITIONS = 10_000
NO_ITEM = (
    "{} has no column that tells which item is which (item, product_id, sku …): without it nothing is known to attract "
    "more than anything else; add --column item=NAME"
)


class ClickArrays(NamedTuple):
    """One row per shown item, sorted by position inside each page; page l owns the rows offsets[l] … offsets[l + 1]."""

    offsets: Ints
    pair: Ints  # the number of its (query, item) pair
    position: Ints  # from 0
    clicked: Floats  # 1 or 0
    session: Ints  # by page: the number of the visit
    query_ids: tuple[str, ...]  # by pair
    items: tuple[str, ...]  # by pair
    columns: str = ""  # which column was taken for what
    n_repeated: int = 0

    @property
    def n_pages(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_pairs(self) -> int:
        return len(self.items)

    @property
    def n_positions(self) -> int:
        return int(self.position.max()) + 1

    def pages(self, chosen: Ints) -> "ClickArrays":
        """Some of the pages; pairs keep their numbers."""
        rows = np.concatenate([np.arange(self.offsets[page], self.offsets[page + 1]) for page in chosen.tolist()])
        sizes = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        own = self.pair[rows], self.position[rows], self.clicked[rows], self.session[chosen]
        return ClickArrays(offsets, *own, self.query_ids, self.items, self.columns)

    def by_item(self) -> "ClickArrays":
        """With an item being the same pair whatever was asked: where queries seldom come again."""
        numbers: dict[str, int] = {}
        of_pair = np.array([numbers.setdefault(item, len(numbers)) for item in self.items], dtype=np.int64)
        return self._replace(pair=of_pair[self.pair], items=tuple(numbers), query_ids=("",) * len(numbers))

    def moved_share(self) -> float:
        """Which share of the rows shows a pair that stands elsewhere too: what tells positions from items."""
        low, high = np.full(self.n_pairs, np.iinfo(np.int64).max), np.full(self.n_pairs, -1)
        np.minimum.at(low, self.pair, self.position)
        np.maximum.at(high, self.pair, self.position)
        return float((low < high)[self.pair].mean())


def click_arrays(
    offsets: Ints,
    position: Ints,
    clicked: Floats,
    queries: Sequence[str],
    items: Sequence[str],
    sessions: Sequence[Any] | None = None,
    columns: str = "",
    n_repeated: int = 0,
) -> ClickArrays:
    """Number pairs and visits, and sort the rows of each page; `queries`, `items` are by row, `sessions` by page."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((position, owner))
    numbers: dict[tuple[str, str], int] = {}
    pair = np.array(
        [numbers.setdefault((queries[row], items[row]), len(numbers)) for row in order.tolist()], dtype=np.int64
    )
    visits: dict[Any, int] = {}
    pages = range(len(offsets) - 1)
    session = np.array([visits.setdefault(one, len(visits)) for one in (pages if sessions is None else sessions)])
    return ClickArrays(
        np.asarray(offsets, dtype=np.int64),
        pair,
        position[order].astype(np.int64),
        (clicked[order] > 0).astype(np.float64),
        session.astype(np.int64),
        tuple(query for query, _ in numbers),
        tuple(item for _, item in numbers),
        columns,
        n_repeated,
    )


def log_of_lists(lists: Sequence[ShownList], sessions: Sequence[Any] | None = None) -> ClickArrays:
    """From lists in values as people have them."""
    offsets = np.concatenate([[0], np.cumsum([len(one.ids) for one in lists])]).astype(np.int64)
    queries = [one.query_id for one in lists for _ in one.ids]
    items = [str(id) for one in lists for id in one.ids]
    position = np.concatenate([one.position for one in lists])
    return click_arrays(offsets, position, np.concatenate([one.clicked for one in lists]), queries, items, sessions)


def read_page_log(given: Given, columns: Mapping[str, str] | None = None) -> ClickArrays:
    """From a table of any format, or the export of a service; `columns` says which column is what."""
    source = Source(given)
    if source.path is not None and holds_impressions(source.path):
        return _of_export(source.path)
    names = source.names
    if len(names) < 2:
        raise InvalidInput(f"{source.name} has only the column {names[0]!r}; a log has a list, an item, a position …")
    roles = raw_columns_of(names, (), columns or {}, source.name)
    if not roles.item:
        raise InvalidInput(NO_ITEM.format(source.name))
    return _of_table(source, roles)


def _of_table(source: Source, roles: RawColumns) -> ClickArrays:
    visit = named_like(source.names, SESSIONS) or (roles.list if plain_name(roles.list) in SESSIONS else "")
    texts = list(dict.fromkeys(filter(None, (roles.list, roles.query, roles.item, visit))))
    wanted = list(dict.fromkeys([*texts, roles.position, roles.click]))
    table = source.whole(texts=texts).select(wanted)
    if table.num_rows == 0:
        raise InvalidInput(f"{source.name} has no rows")
    values = {name: [_text(value) for value in table[name].to_pylist()] for name in texts}
    for name in (roles.item, *([roles.list] if roles.list != roles.query else [])):
        _refuse_missing(values[name], name, source.name)
    stands = _numbers(table[roles.position].to_pylist(), roles.position, source.name)
    clicked = _numbers(table[roles.click].to_pylist(), roles.click, source.name)
    position = _positions(stands, roles.position, source.name)
    queries = values[roles.query] if roles.query else None
    pages = pages_of(values[roles.list], roles.list, stands, queries, values[roles.item], source.name)
    kept = np.flatnonzero(pages.kept)
    rows = kept.tolist()
    first = [rows[start] for start in pages.offsets[:-1].tolist()]
    return click_arrays(
        pages.offsets,
        position[kept],
        clicked[kept],
        ["" if queries is None else queries[row] or "" for row in rows],
        [str(values[roles.item][row]) for row in rows],
        [values[visit][row] or f"page {row}" for row in first] if visit else None,
        columns_said(roles),
        pages.n_repeated,
    )


def _of_export(path: Path) -> ClickArrays:
    if exported_schemas(path):
        lists = list(read_shown_lists(path))
        if not lists:
            raise InvalidInput(f"{path.name} has no impressions")
        return log_of_lists(lists)
    shown = list(read_impressions(path))
    if not shown:
        raise InvalidInput(f"{path.name} has no impressions")
    offsets = np.concatenate([[0], np.cumsum([len(one.ranking) for one in shown])]).astype(np.int64)
    return click_arrays(
        offsets,
        np.concatenate([np.arange(len(one.ranking)) for one in shown]),
        np.array([one.values.get(item, 0.0) for one in shown for item in one.ranking]),
        [one.query_id for one in shown for _ in one.ranking],
        [item for one in shown for item in one.ranking],
    )


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _refuse_missing(values: Sequence[Any], name: str, where: str) -> None:
    missing = next((row for row, value in enumerate(values) if value is None), None)
    if missing is not None:
        raise InvalidInput(f"{where}, row {missing + 1}: {name} is missing")


def _numbers(values: Sequence[Any], name: str, where: str) -> Floats:
    _refuse_missing([_text(value) for value in values], name, where)
    found = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            found[row] = float(value)
        except (TypeError, ValueError, OverflowError):
            found[row] = np.nan
        if not np.isfinite(found[row]):
            raise InvalidInput(f"{where}, row {row + 1}: {name} is {value!r:.60}; it must be a number")
    return found


def _positions(values: Floats, name: str, where: str) -> Ints:
    """From 0, the smallest number being the first position."""
    broken = np.flatnonzero(values != np.floor(values))
    if len(broken):
        row = int(broken[0])
        raise InvalidInput(f"{where}, row {row + 1}: {name} is {values[row]}; it must be a whole number")
    if values.max() - values.min() >= MAX_POSITIONS:
        row = int(np.abs(values).argmax())
        raise InvalidInput(
            f"{where}, row {row + 1}: {name} is {values[row]:g}; lists have at most {MAX_POSITIONS:,} places"
        )
    positions: Ints = (values - values.min()).astype(np.int64)
    return positions
