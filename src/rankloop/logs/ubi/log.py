"""A log of lists from queries and events: a row for each hit that was shown, with what was done with it."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.files import atomic_write
from rankloop.logs.columns import ITEM_NAMES, MORE_ITEM_NAMES, named_like
from rankloop.logs.list_log import ListLog
from rankloop.logs.list_table import read_list_table
from rankloop.logs.table_reader import Given, TableReader
from rankloop.logs.ubi.records import UbiEvent, UbiQuery, read_events, read_queries

DEFAULT_ACTION_WEIGHTS = {"click": 1.0, "add_to_cart": 1.0, "purchase": 1.0}  # what counts as a click, and how much
SHOWN_ACTION = "impression"  # the action that says that a hit was seen
LOG_COLUMNS = ("impression", "session", "query", "time", "item", "position", "click", "click_weight")
EARLY, LATE = 5.0, 86_400.0  # seconds from a query to its events that no clock explains

NOTE_TEXTS = {
    "no_query_id": "{} without a query_id: left out",
    "no_hits": "{} without hits, of which nothing is known to have been shown: left out",
    "repeated_queries": "{} that repeat a query_id: their new hits stand below",
    "orphans": "{} of a query that is not in the file: left out",
    "without_query": "{} that name no query: left out",
    "without_object": "{} that name no object and no position: left out",
    "by_position": "{} that name no object: taken from the position",
    "not_shown": "{} on an object that was not among the hits: left out",
    "repeated_events": "{} that repeat another: counted once",
    "without_position": "{} without a position: taken from the hits",
    "other_position": "{} with another position than the hit has: the position of the hit counts",
    "early": f"{{}} more than {EARLY:.0f} seconds before their query: clocks disagree; joined all the same",
    "late": "{} more than a day after their query; joined all the same",
    "ignored": "{} of actions that weigh nothing ({actions}); --weight ACTION=NUMBER counts them",
    "without_item": "{} without a row among the items",
}
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # of a cell that a spreadsheet runs
NOTE_NOUNS = dict.fromkeys(("no_query_id", "no_hits", "repeated_queries"), ("query", "queries"))
NOTE_NOUNS["without_item"] = ("item", "items")


class UbiLog(NamedTuple):
    """Columns of a table, and what was counted on the way."""

    columns: dict[str, list[Any]]
    n_queries: int
    n_events: int
    counts: dict[str, int]
    actions: dict[str, int]  # by name, all of them

    @property
    def n_pages(self) -> int:
        """The number of pages."""
        return len(set(self.columns["impression"]))

    @property
    def notes(self) -> list[str]:
        """One line for each thing that is not as it should be."""
        ignored = ", ".join(name for name in self.actions if name not in self.columns and name != SHOWN_ACTION)
        return [
            NOTE_TEXTS[name].format(_count_text(self.counts[name], name), actions=ignored)
            for name in NOTE_TEXTS
            if self.counts.get(name)
        ]

    def __str__(self) -> str:
        return (
            f"{self.n_queries:,} queries and {self.n_events:,} events: {self.n_pages:,} pages, "
            f"{len(self.columns['item']):,} hits shown, {sum(self.columns['click']):,} clicked\n"
            f"columns: {', '.join(self.columns)}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the counts for programs."""
        return {
            "queries": self.n_queries,
            "events": self.n_events,
            "pages": self.n_pages,
            "rows": len(self.columns["item"]),
            "clicked": sum(self.columns["click"]),
            "actions": self.actions,
            "columns": list(self.columns),
            "counts": {name: count for name, count in self.counts.items() if count},
            "notes": self.notes,
        }

    def lists(self) -> ListLog:
        """Return the rows as a log of lists."""
        return read_list_table(self._table())

    def _table(self, as_cell: bool = False) -> Any:
        pa = import_extra("pyarrow")
        columns = self.columns
        if as_cell:
            columns = {name: [_cell(value) for value in values] for name, values in columns.items()}
        return pa.table({name: _array(values) for name, values in columns.items()})

    def save(self, path: Path) -> None:
        """Write a Parquet or CSV file, by its name."""
        pa = import_extra("pyarrow")
        arrow_csv = import_extra("pyarrow.csv")
        parquet = import_extra("pyarrow.parquet")

        if path.suffix.lower() not in (".parquet", ".csv"):
            raise InvalidInput(f"{path}: the name must end with .parquet or .csv")
        sink = pa.BufferOutputStream()
        if path.suffix.lower() == ".csv":
            arrow_csv.write_csv(self._table(as_cell=True), sink)
        else:
            parquet.write_table(self._table(), sink)
        atomic_write(path, sink.getvalue().to_pybytes())


def _cell(value: Any) -> Any:
    """Return a value of a CSV file: a text that a spreadsheet would run as a formula gets a quote before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


class _Page(NamedTuple):
    """A query with its hits and what was done with each of them."""

    query: UbiQuery
    hits: dict[str, int]  # by id: the position, from 0
    done: dict[str, Counter[str]]  # by id: actions


def read_ubi(
    queries: Path, events: Path, items: Given | None = None, weights: Mapping[str, float] | None = None
) -> UbiLog:
    """Read the files of ubi_queries and ubi_events, and join them; see `ubi_log`.

    Args:
      queries: The file of ubi_queries.
      events: The file of ubi_events.
      items: A table of items, or None.
      weights: Weights of actions.
    """
    return ubi_log(read_queries(queries), read_events(events), items, weights)


def ubi_log(
    queries: Iterable[UbiQuery | None],
    events: Iterable[UbiEvent],
    items: Given | None = None,
    weights: Mapping[str, float] | None = None,
) -> UbiLog:
    """Join queries with events, and with the columns of a table of items by their id.

    A hit counts as clicked when something was done with it that weighs more than 0: click, add_to_cart and purchase
    weigh 1 unless `weights` says otherwise; `click_weight` is the largest of them. Positions count from 1.

    Args:
      queries: The queries.
      events: The events.
      items: A table of items, or None.
      weights: Weights of actions.
    """
    action_weights = DEFAULT_ACTION_WEIGHTS | {
        action: _weight(action, weight) for action, weight in (weights or {}).items()
    }
    counts, actions = Counter[str](), Counter[str]()
    pages, n_queries = _pages(queries, counts)
    event_list = list(events)
    sessions = _take_events(event_list, pages, action_weights, counts, actions)
    shown = [page for page in pages.values() if page.hits]
    counts["no_hits"] += len(pages) - len(shown)
    if not shown:
        raise InvalidInput("no query has hits (query_response_hit_ids), so nothing is known to have been shown")
    columns = _columns(shown, sessions, action_weights, actions)
    if items is not None:
        columns |= _item_columns(TableReader(items), columns, counts)
    return UbiLog(columns, n_queries, len(event_list), dict(counts), dict(actions))


def _pages(queries: Iterable[UbiQuery | None], counts: Counter[str]) -> tuple[dict[str, _Page], int]:
    pages, n_queries = dict[str, _Page](), 0
    for query in queries:
        n_queries += 1
        if query is None:
            counts["no_query_id"] += 1
            continue
        page = pages.get(query.query_id)
        if page is None:
            page = pages[query.query_id] = _Page(query, {}, {})
        else:
            counts["repeated_queries"] += 1
        for hit in query.hits:
            page.hits.setdefault(hit, len(page.hits))
    return pages, n_queries


def _take_events(
    events: list[UbiEvent],
    pages: dict[str, _Page],
    weights: Mapping[str, float],
    counts: Counter[str],
    actions: Counter[str],
) -> dict[str, str]:
    """Write down what was done with each hit; the sessions by query."""
    sessions, counted_keys = dict[str, str](), set[Any]()
    _show_seen(events, pages)
    first = _first_ordinal(events, pages)
    for event in events:
        actions[event.action] += 1
        page = pages.get(event.query_id)
        if page is None:
            counts["orphans" if event.query_id else "without_query"] += 1
            continue
        if event.session:
            sessions.setdefault(event.query_id, event.session)
        if weights.get(event.action, 0.0) <= 0.0:
            counts["ignored"] += event.action != SHOWN_ACTION
            continue
        item = event.item or _item_at(page, event.ordinal, first)
        key = event.id or (event.query_id, event.action, item, event.at)
        if not item:
            counts["without_object"] += 1
        elif item not in page.hits:
            counts["not_shown"] += 1
        elif key in counted_keys:
            counts["repeated_events"] += 1
        else:
            counted_keys.add(key)
            _note_faults(event, page, item, first, counts)
            page.done.setdefault(item, Counter())[event.action] += 1
    return sessions


def _show_seen(events: list[UbiEvent], pages: dict[str, _Page]) -> None:
    """Take the hits of queries without any from the events that say what was seen, by position."""
    shown_hits = dict[str, list[tuple[int, str]]]()
    for event in events:
        page = pages.get(event.query_id)
        if (
            event.action == SHOWN_ACTION
            and page is not None
            and not page.hits
            and event.item
            and event.ordinal is not None
        ):
            shown_hits.setdefault(event.query_id, []).append((event.ordinal, event.item))
    for query_id, hits in shown_hits.items():
        for _, item in sorted(hits):
            pages[query_id].hits.setdefault(item, len(pages[query_id].hits))


def _first_ordinal(events: list[UbiEvent], pages: dict[str, _Page]) -> int:
    """Return 0 or 1, from which the events count positions: the number that most of them agree with."""
    votes = Counter[int]()
    for event in events:
        page = pages.get(event.query_id)
        if page is not None and event.ordinal is not None and event.item in page.hits:
            votes[event.ordinal - page.hits[event.item]] += 1
    return 0 if votes[0] > votes[1] else 1


def _item_at(page: _Page, ordinal: int | None, first: int) -> str:
    position = -1 if ordinal is None else ordinal - first
    return next((hit for hit, stands in page.hits.items() if stands == position), "")


def _note_faults(event: UbiEvent, page: _Page, item: str, first: int, counts: Counter[str]) -> None:
    counts["by_position"] += not event.item
    counts["without_position"] += event.ordinal is None
    counts["other_position"] += event.ordinal is not None and event.ordinal - first != page.hits[item]
    counts["early"] += event.at < page.query.at - EARLY
    counts["late"] += event.at > page.query.at + LATE


def _columns(
    pages: list[_Page], sessions: Mapping[str, str], weights: Mapping[str, float], actions: Counter[str]
) -> dict[str, list[Any]]:
    counted = [action for action in actions if weights.get(action, 0.0) > 0.0 and action != "click"]
    action_columns = {action: action if action not in LOG_COLUMNS else f"{action}_events" for action in counted}
    attribute_names = list(
        dict.fromkeys(
            name
            for page in pages
            for name, value in page.query.attributes.items()
            if isinstance(value, str | int | float) and name not in (*LOG_COLUMNS, *action_columns.values())
        )
    )
    columns: dict[str, list[Any]] = {name: [] for name in (*LOG_COLUMNS, *action_columns.values(), *attribute_names)}
    for page in pages:
        query = page.query
        for hit, position in page.hits.items():
            done = page.done.get(hit, Counter())
            weight = max((weights.get(action, 0.0) for action in done), default=0.0)
            session = sessions.get(query.query_id) or query.client or None
            cells = (query.query_id, session, query.user_query, _time(query.at), hit, position + 1)
            for name, value in zip(LOG_COLUMNS, (*cells, int(weight > 0), weight)):
                columns[name].append(value)
            for action, name in action_columns.items():
                columns[name].append(int(done[action] > 0))
            for name in attribute_names:
                columns[name].append(query.attributes.get(name))
    return columns


def _item_columns(source: TableReader, columns: Mapping[str, list[Any]], counts: Counter[str]) -> dict[str, list[Any]]:
    """The columns of the items, in the order of the log; of two rows with one id the first counts."""
    id_column = named_like(source.names, (*ITEM_NAMES, *MORE_ITEM_NAMES))
    if not id_column:
        column_names = ", ".join(source.names)
        raise InvalidInput(
            f"{source.name} has no column for the id of an item (such as item, sku, id); it has {column_names}"
        )
    table = source.read_table(texts=[id_column])
    ids = [None if value is None else str(value) for value in table[id_column].to_pylist()]
    rows = {value: row for row, value in reversed(list(enumerate(ids))) if value}
    picked = [rows.get(str(item)) for item in columns["item"]]
    counts["without_item"] += len({item for item, row in zip(columns["item"], picked) if row is None})
    item_columns = {}
    for name in table.column_names:
        if name != id_column:
            values = table[name].to_pylist()
            free = name if name not in columns else f"item_{name}"
            item_columns[free] = [None if row is None else values[row] for row in picked]
    return item_columns


def _weight(action: str, weight: float) -> float:
    if not (math.isfinite(weight) and weight >= 0.0):
        raise InvalidInput(f"the weight of {action} is {weight}; it must be a number from 0")
    return float(weight)


def _time(at: float) -> str | None:
    return None if math.isnan(at) else datetime.fromtimestamp(at, UTC).isoformat()


def _array(values: list[Any]) -> Any:
    """A column; of values of several types, their texts."""
    pa = import_extra("pyarrow")

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


def _count_text(count: int, name: str) -> str:
    return f"{count:,} {NOTE_NOUNS.get(name, ('event', 'events'))[count != 1]}"
