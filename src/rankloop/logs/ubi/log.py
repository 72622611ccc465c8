"""A log of lists from queries and events of User Behavior Insights, of any version of the schemas (1.0 to 1.3)."""

import json
import math
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.files import atomic_write
from rankloop.features.kinds import moment_of
from rankloop.logs.columns import USUAL_NAMES, named_like
from rankloop.logs.table_reader import Given, TableReader, arrow_table, json_values

HIT_FIELDS = tuple(f"query_response_{hits}" for hits in ("hit_ids", "object_ids", "objects_ids", "hits_ids"))
OBJECT_FIELDS = ("event_attributes.object.object_id", "event_attributes.object.internal_id", "object_id")
ORDINAL_FIELDS = ("event_attributes.position.ordinal", "event_attributes.position.index", "position.ordinal")
BULK_ACTIONS = ("index", "create", "update", "delete")
MIN_MILLISECONDS = 1e11  # seconds since 1970 beyond this are milliseconds: the year 5138
MIN_SECONDS, MAX_SECONDS = -6.0e10, 2.0e11  # since 1970, of a time within the years that dates can have
DEFAULT_ACTION_WEIGHTS = {"click": 1.0, "add_to_cart": 1.0, "purchase": 1.0}  # what counts as a click, and how much
SHOWN_ACTION = "impression"  # the action that says that a hit was seen
LOG_COLUMNS = ("impression", "session", "query", "time", "item", "position", "click", "click_weight")
EARLY, LATE = 5.0, 86_400.0  # seconds from a query to its events that no clock explains

NOTE_TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_name("notes.toml").read_text(encoding="utf-8"))
PLURALS = {"query": "queries", "event": "events", "item": "items"}
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # of a cell that a spreadsheet runs


class UbiDocument(NamedTuple):
    """A document, where it stands, and the index that it belongs to; empty: the file does not say."""

    line: int
    index_name: str
    source: dict[str, Any]


class UbiQuery(NamedTuple):
    """A search and the ids that it returned, best first."""

    query_id: str  # empty: the document has none
    user_query: str
    hits: tuple[str, ...]
    client: str
    at: float  # seconds since 1970; nan where unknown
    attributes: dict[str, Any]


class UbiEvent(NamedTuple):
    """Something that somebody did with a hit."""

    query_id: str  # empty: the event says none
    action: str
    item: str  # empty: the event names none
    ordinal: int | None
    session: str
    at: float
    id: str  # of the event itself, where it has one


def documents_in(path: Path) -> Iterator[UbiDocument]:
    """Yield every document of a file: JSON Lines, a list, a search response, a bulk file or a dump of an index."""
    index, is_next = "", False  # of a document that a bulk action announces
    for line, value in json_values(path):
        if not is_next and isinstance(value, dict) and len(value) == 1:
            ((action, target),) = value.items()
            if action in BULK_ACTIONS and isinstance(target, dict):
                index, is_next = str(target.get("_index") or ""), action != "delete"
                continue
        yield from _documents(value, index if is_next else "", line, path.name)
        is_next = False


def _documents(value: Any, index: str, line: int, where: str) -> Iterator[UbiDocument]:
    """Yield what an object holds: itself, the document inside, or the hits of one search or of several."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}, line {line}: a document is an object, got {json.dumps(value)[:60]}")
    hits, response = value.get("hits"), value.get("response")  # of Elasticsearch and OpenSearch, of Solr
    inner = value.get("responses")
    if not isinstance(inner, list) and isinstance(hits, dict):
        inner = hits.get("hits")
    if not isinstance(inner, list) and isinstance(response, dict):
        inner = response.get("docs")
    if isinstance(inner, list):
        for part in inner:
            yield from _documents(part, index, line, where)
    elif isinstance(value.get("_source"), dict):
        yield UbiDocument(line, str(value.get("_index") or index), value["_source"])
    else:
        yield UbiDocument(line, index, value["doc"] if index and isinstance(value.get("doc"), dict) else value)


def read_queries(path: Path) -> Iterator[UbiQuery]:
    """Yield every query of a file, also those without a `query_id`, which nothing can be joined with."""
    for _, index, source in documents_in(path):
        if "ubi_events" in index or (not index and "action_name" in source):
            continue  # a file may hold both
        client = _text(source, "client_id") or _text(source, "user_id")
        query_attributes = _value(source, "query_attributes")
        attributes = query_attributes if isinstance(query_attributes, dict) else {}
        query_id, user_query = _text(source, "query_id"), _text(source, "user_query")
        yield UbiQuery(query_id, user_query, tuple(dict.fromkeys(_hits(source))), client, _moment(source), attributes)


def read_events(path: Path) -> Iterator[UbiEvent]:
    """Yield every event of a file."""
    for line, index, source in documents_in(path):
        if "ubi_queries" in index or (not index and "query_response_hit_ids" in source):
            continue
        action = _text(source, "action_name")
        if not action:
            raise InvalidInput(f"{path.name}, line {line}: an event has an action_name, such as click")
        item = next((text for name in OBJECT_FIELDS if (text := _text(source, name))), "")
        ordinal: Any = next((value for name in ORDINAL_FIELDS if (value := _value(source, name)) is not None), None)
        session = _text(source, "session_id") or _text(source, "client_id") or _text(source, "user_id")
        event_id = _text(source, "event_id") or _text(source, "event_attributes.event_id")
        try:
            ordinal = int(ordinal)
        except (TypeError, ValueError, OverflowError):
            ordinal = None
        yield UbiEvent(_text(source, "query_id"), action, item, ordinal, session, _moment(source), event_id)


def _hits(source: dict[str, Any]) -> list[str]:
    hits: Any = next((value for name in HIT_FIELDS if (value := _value(source, name)) is not None), [])
    if isinstance(hits, str):
        try:
            hits = json.loads(hits)
        except ValueError:
            hits = [part.strip() for part in hits.split(",")]
    return [str(hit) for hit in (hits if isinstance(hits, list) else [hits]) if hit is not None and str(hit)]


def _value(source: dict[str, Any], name: str) -> Any:
    """A value by its path, inside or flattened: {"a": {"b": 1}} and {"a.b": 1} say the same."""
    if name in source:
        return source[name]
    value: Any = source
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def _text(source: dict[str, Any], name: str) -> str:
    value = _value(source, name)
    text = "" if value is None or isinstance(value, dict | list) else str(value)
    return text.encode("utf-8", "replace").decode()  # JSON can hold half of a character, which no file can


def _moment(source: dict[str, Any]) -> float:
    value = _value(source, "timestamp")
    if isinstance(value, int | float) and not isinstance(value, bool):
        at = float(value) / (1000.0 if abs(value) > MIN_MILLISECONDS else 1.0)
        return at if MIN_SECONDS < at < MAX_SECONDS else math.nan
    try:
        return moment_of(value)
    except InvalidInput:
        return math.nan


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
        notes = []
        for name, text in NOTE_TEXTS.items():
            if count := self.counts.get(name):
                nouns = {plural: f"{count:,} {noun if count == 1 else plural}" for noun, plural in PLURALS.items()}
                notes.append(text.format(actions=ignored, seconds=EARLY, **nouns))
        return notes

    def __str__(self) -> str:
        pages = f"{self.n_queries:,} queries and {self.n_events:,} events: {self.n_pages:,} pages"
        hits = f"{len(self.columns['item']):,} hits shown, {sum(self.columns['click']):,} clicked"
        return f"{pages}, {hits}\ncolumns: {', '.join(self.columns)}"

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

    def save(self, path: Path) -> None:
        """Write a Parquet or CSV file, by its name."""
        if (kind := path.suffix.lower()) not in (".parquet", ".csv"):
            raise InvalidInput(f"{path}: the name must end with .parquet or .csv")
        sink = import_extra("pyarrow").BufferOutputStream()
        if kind == ".csv":
            cells = {name: [_cell(value) for value in values] for name, values in self.columns.items()}
            import_extra("pyarrow.csv").write_csv(arrow_table(cells), sink)
        else:
            import_extra("pyarrow.parquet").write_table(arrow_table(self.columns), sink)
        atomic_write(path, sink.getvalue().to_pybytes())


def _cell(value: Any) -> Any:
    """Return a value of a CSV file: a text that a spreadsheet would run as a formula gets a quote before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


class _Page:
    """A query with its hits and what was done with each of them."""

    def __init__(self, query: UbiQuery) -> None:
        self.query, self.session = query, ""
        self.hits: dict[str, int] = {}  # by id: the position, from 0
        self.done: dict[str, Counter[str]] = defaultdict(Counter)  # by id: actions


def read_ubi(queries: Path, events: Path, items: Given = None, weights: Mapping[str, float] | None = None) -> UbiLog:
    """Join queries with events, and with the columns of a table of items by their id.

    A hit counts as clicked when something was done with it that weighs more than 0: click, add_to_cart and purchase
    weigh 1 unless `weights` says otherwise; `click_weight` is the largest of them. Positions count from 1.

    Args:
      queries: The file of ubi_queries.
      events: The file of ubi_events.
      items: A table of items, or None.
      weights: Weights of actions.
    """
    for action, weight in (weights or {}).items():
        if not (math.isfinite(weight) and weight >= 0.0):
            raise InvalidInput(f"the weight of {action} is {weight}; it must be a number from 0")
    join = _Join(DEFAULT_ACTION_WEIGHTS | {action: float(weight) for action, weight in (weights or {}).items()})
    for query in read_queries(queries):
        join.add_query(query)
    event_list = list(read_events(events))
    join.add_events(event_list)
    columns = join.columns()
    if items is not None:
        columns |= _item_columns(TableReader(items), columns, join.counts)
    return UbiLog(columns, join.n_queries, len(event_list), dict(join.counts), dict(join.actions))


class _Join:
    """Queries with their hits, and what was done with them; everything odd is counted."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = weights  # by action
        self.n_queries = 0
        self.pages: dict[str, _Page] = {}
        self.counts, self.actions = Counter[str](), Counter[str]()

    def add_query(self, query: UbiQuery) -> None:
        self.n_queries += 1
        if not query.query_id:
            self.counts["no_query_id"] += 1
            return
        self.counts["repeated_queries"] += query.query_id in self.pages
        hits = self.pages.setdefault(query.query_id, _Page(query)).hits
        for hit in query.hits:
            hits.setdefault(hit, len(hits))

    def add_events(self, events: list[UbiEvent]) -> None:
        """Write down what was done with each hit."""
        self._show_seen(events)
        first, counts, counted_keys = self._first_ordinal(events), self.counts, set[Any]()
        for event in events:
            self.actions[event.action] += 1
            page = self.pages.get(event.query_id)
            if page is None:
                counts["orphans" if event.query_id else "without_query"] += 1
                continue
            page.session = page.session or event.session
            if self.weights.get(event.action, 0.0) <= 0.0:
                counts["ignored"] += event.action != SHOWN_ACTION
                continue
            position = -1 if event.ordinal is None else event.ordinal - first
            item = event.item or next((hit for hit, at in page.hits.items() if at == position), "")
            key = event.id or (event.query_id, event.action, item, event.at)
            if not item:
                counts["without_object"] += 1
            elif item not in page.hits:
                counts["not_shown"] += 1
            elif key in counted_keys:
                counts["repeated_events"] += 1
            else:
                counted_keys.add(key)
                page.done[item][event.action] += 1
                counts["by_position"] += not event.item
                counts["without_position"] += event.ordinal is None
                counts["other_position"] += event.ordinal is not None and position != page.hits[item]
                counts["early"] += event.at < page.query.at - EARLY
                counts["late"] += event.at > page.query.at + LATE

    def _show_seen(self, events: list[UbiEvent]) -> None:
        """Take the hits of queries without any from the events that say what was seen, by position."""
        without_hits = {query_id for query_id, page in self.pages.items() if not page.hits}
        shown = [
            (event.ordinal, event.item, event.query_id)
            for event in events
            if event.action == SHOWN_ACTION and event.item and event.ordinal is not None
        ]
        for _, item, query_id in sorted(shown):
            if query_id in without_hits:
                hits = self.pages[query_id].hits
                hits.setdefault(item, len(hits))

    def _first_ordinal(self, events: list[UbiEvent]) -> int:
        """Return 0 or 1, from which the events count positions: the number that most of them agree with."""
        votes = Counter[int]()
        for event in events:
            page = self.pages.get(event.query_id)
            if page is not None and event.ordinal is not None and event.item in page.hits:
                votes[event.ordinal - page.hits[event.item]] += 1
        return 0 if votes[0] > votes[1] else 1

    def columns(self) -> dict[str, list[Any]]:
        """Return a row for each hit of the queries that have any."""
        pages = [page for page in self.pages.values() if page.hits]
        self.counts["no_hits"] += len(self.pages) - len(pages)
        if not pages:
            raise InvalidInput("no query has hits (query_response_hit_ids), so nothing is known to have been shown")
        counted = [action for action in self.actions if self.weights.get(action, 0.0) > 0.0 and action != "click"]
        action_columns = {action: action if action not in LOG_COLUMNS else f"{action}_events" for action in counted}
        taken = (*LOG_COLUMNS, *action_columns.values())
        attributes = dict.fromkeys(
            name
            for page in pages
            for name, value in page.query.attributes.items()
            if isinstance(value, str | int | float) and name not in taken
        )
        rows = list[tuple[Any, ...]]()
        for page in pages:
            query, session = page.query, page.session or page.query.client or None
            time = None if math.isnan(query.at) else datetime.fromtimestamp(query.at, UTC).isoformat()
            more = [query.attributes.get(name) for name in attributes]
            for hit, position in page.hits.items():
                actions = page.done[hit]
                weight = max((self.weights.get(action, 0.0) for action in actions), default=0.0)
                cells = (query.query_id, session, query.user_query, time, hit, position + 1, int(weight > 0), weight)
                rows.append((*cells, *(int(actions[action] > 0) for action in action_columns), *more))
        return {name: list(cells) for name, cells in zip((*taken, *attributes), zip(*rows))}


def _item_columns(source: TableReader, columns: Mapping[str, list[Any]], counts: Counter[str]) -> dict[str, list[Any]]:
    """The columns of the items, in the order of the log; of two rows with one id the first counts."""
    id_column = named_like(source.names, USUAL_NAMES["any_item"])
    if not id_column:
        names = ", ".join(source.names)
        raise InvalidInput(f"{source.name} has no column for the id of an item (such as item, sku, id); it has {names}")
    table = source.read_table(texts=[id_column])
    ids = [None if value is None else str(value) for value in table[id_column].to_pylist()]
    rows = {value: row for row, value in reversed(list(enumerate(ids))) if value}
    picked = [rows.get(str(item)) for item in columns["item"]]
    counts["without_item"] += len({item for item, row in zip(columns["item"], picked) if row is None})
    item_columns = {}
    for name in filter(lambda name: name != id_column, table.column_names):
        values, free = table[name].to_pylist(), name if name not in columns else f"item_{name}"
        item_columns[free] = [None if row is None else values[row] for row in picked]
    return item_columns
