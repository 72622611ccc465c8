"""A log of shown lists: one row per shown item, and the views of it that training, click models and evaluation take."""

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rankloop.adapter import Id
from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Arrival, Clicks, Decision, Feedback, Floats, Ints, Query, Relevances, Reward
from rankloop.features.encoder import Encoder
from rankloop.features.kinds import Counter, moment_of
from rankloop.features.schema import Schema
from rankloop.logs.columns import FLAG, ListColumns, numbers_in, plain_name

# Names of columns that are outcomes beside purchases and money.
FURTHER_OUTCOMES = ("add_to_cart", "added_to_cart", "addtocart", "add_to_basket", "added_to_basket", "dwell_time")
PURCHASES, MONEY, WEIGHTED_CLICKS = "purchases", "money", "weighted clicks"
DECLARED_AS = {"purchase": PURCHASES, "revenue": MONEY}  # usual names of outcomes that a ranker declares
MAX_POSITIONS = 10_000
NO_CONTEXT, NOTHING_SHOWN = np.empty(0), np.empty(0, np.int64)
LOGGED_SCORE = "logged_score"  # a field with this name has minus the position, from 1, as its value in a log


class ShownList(NamedTuple):
    """One page: items in the order shown, each with its values by name, and what came of them."""

    query_id: str
    ids: Sequence[Id]
    rows: Sequence[Mapping[str, Any]]
    context: Mapping[str, Any]
    at: float  # when, in seconds since 1970: dates become ages
    position: Ints = NOTHING_SHOWN  # where each item stood, from 0
    clicked: Floats = NO_CONTEXT  # what its click weighs; 0: none came
    log_propensity: float = math.nan  # of the whole list; nan where unknown
    feedback: str = "clicks"  # its kind
    propensity: Floats | None = None  # by item: the probability of its position, or of the list
    visitor: str | None = None  # the user, or the session where users are unknown

    def query(self, encoder: Encoder) -> Query:
        """Encode the query by the schema of the encoder; fields that it does not have are left aside."""
        schema = encoder.schema
        rows = [{name: value for name, value in row.items() if name in schema.features} for row in self.rows]
        context = {name: value for name, value in self.context.items() if name in schema.context}
        return Query(self.query_id, encoder.rows(self.ids, rows, context, self.at), NO_CONTEXT)

    def with_value(self, name: str, values: Floats) -> "ShownList":
        """Return the page with a further value of each item."""
        return self._replace(rows=[{**row, name: value} for row, value in zip(self.rows, values.tolist())])

    def with_logged_score(self) -> "ShownList":
        """Return the page with minus the position of each item as a further value."""
        return self.with_value(LOGGED_SCORE, -1.0 - self.position.astype(np.float64))

    def arrival(self, encoder: Encoder) -> Arrival:
        """Return the page as a decision and its feedback, items being numbered in the order shown."""
        decision = Decision(np.arange(len(self.ids)), self.log_propensity, ())
        return Arrival(self.query(encoder), decision, feedback_of(self.feedback, self.clicked))


def propensity_of(lists: Sequence[ShownList]) -> Floats | None:
    """Return by row the probabilities that shown lists tell, nan where one tells none; None where none does."""
    if all(page.propensity is None for page in lists):
        return None
    rows = [np.full(len(page.ids), math.nan) if page.propensity is None else page.propensity for page in lists]
    return np.concatenate(rows)


def with_logged_score(schema: Schema) -> Schema:
    """Return a schema with a further field for the score of today's order, which may be its base."""
    return schema.with_feature(LOGGED_SCORE, {"kind": "number", "scale": "log"})


def feedback_of(kind: str, weight: Floats) -> Feedback:
    """Return the feedback of one page, of which `weight` holds the click weight, grade or reward of each item.

    Args:
      kind: The kind of feedback.
      weight: By position.
    """
    if kind == "reward":
        return Reward(float(weight.sum()))
    if kind == "relevances":
        return Relevances(np.arange(len(weight)), weight)
    items = np.flatnonzero(weight)
    return Clicks(items, weight[items])


class ClickArrays(NamedTuple):
    """Clicks in the form that click models are fitted to: rows are sorted by position inside each page.

    Page p owns the rows from offsets[p] to offsets[p + 1]. A pair is an item shown for a query.
    """

    offsets: Ints
    pair: Ints  # by row: the number of its (query, item) pair
    position: Ints  # by row, from 0
    clicked: Floats  # by row: 1 or 0
    session: Ints  # by page: the number of its user, or of its session where users are unknown
    query_ids: tuple[str, ...]  # by pair
    items: tuple[str, ...]  # by pair
    n_repeated: int = 0  # rows that repeated another one and were left out
    propensity: Floats | None = None  # by row: of its position, or of its list; nan where unknown

    @classmethod
    def of(
        cls,
        offsets: Ints,
        position: Ints,
        clicked: Floats,
        queries: Sequence[str],
        items: Sequence[str],
        sessions: Sequence[Any] | None = None,
    ) -> "ClickArrays":
        """Sort the rows of each page by position, and number pairs and sessions; None: every page is a session."""
        order = np.lexsort((position, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))
        pairs = [(queries[row], items[row]) for row in order.tolist()]
        return cls(
            offsets=np.asarray(offsets, dtype=np.int64),
            pair=numbers_of(pairs),
            position=position[order].astype(np.int64),
            clicked=(clicked[order] > 0).astype(np.float64),
            session=numbers_of(range(len(offsets) - 1) if sessions is None else sessions),
            query_ids=tuple(query for query, _ in dict.fromkeys(pairs)),
            items=tuple(item for _, item in dict.fromkeys(pairs)),
        )

    @property
    def n_pages(self) -> int:
        """The number of pages."""
        return len(self.offsets) - 1

    @property
    def page(self) -> Ints:
        """By row: the number of its page."""
        return np.repeat(np.arange(self.n_pages), np.diff(self.offsets))

    @property
    def n_pairs(self) -> int:
        """The number of pairs."""
        return len(self.items)

    @property
    def n_positions(self) -> int:
        """The number of positions."""
        return int(self.position.max()) + 1

    def mean_of_pairs(self, values: Floats | Ints) -> Floats:
        """Return by pair the mean of what its rows have."""
        counts = np.bincount(self.pair, minlength=self.n_pairs)
        means: Floats = np.bincount(self.pair, values, self.n_pairs) / np.maximum(counts, 1)
        return means

    def pages(self, chosen: Ints) -> "ClickArrays":
        """Return some of the pages; pairs keep their numbers."""
        rows = np.concatenate([np.arange(self.offsets[page], self.offsets[page + 1]) for page in chosen.tolist()])
        return self._replace(
            offsets=np.concatenate([[0], np.cumsum(np.diff(self.offsets)[chosen])]).astype(np.int64),
            pair=self.pair[rows],
            position=self.position[rows],
            clicked=self.clicked[rows],
            session=self.session[chosen],
            n_repeated=0,
            propensity=None if self.propensity is None else self.propensity[rows],
        )

    def by_item(self) -> "ClickArrays":
        """Return the same pages with an item being one pair whatever the query: where queries seldom repeat."""
        items = tuple(dict.fromkeys(self.items))
        return self._replace(pair=numbers_of(self.items)[self.pair], items=items, query_ids=("",) * len(items))


def session_names(visitors: Sequence[str | None]) -> list[Hashable]:
    """Return by page the name of its session: that of its visitor, or of the page alone where nobody is named."""
    return [page if name is None else name for page, name in enumerate(visitors)]


def numbers_of(names: Sequence[Any]) -> Ints:
    """Number different names from 0 in the order in which they first come."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def weighted_outcomes(weight: Floats) -> dict[str, Floats]:
    """Return what clicks of other weights than 1 tell: those above it are purchases."""
    return {PURCHASES: (weight > 1).astype(np.float64), WEIGHTED_CLICKS: weight}


class Exported(NamedTuple):
    """Facts that only the export of a service tells."""

    log_propensity: Floats  # by page, nan where unknown
    at: Floats  # by page, in seconds since 1970
    feedback: Sequence[str]  # by page: its kind; empty: none came
    contexts: Sequence[Floats]  # by page: the numbers of the context
    schemas: tuple[Schema, ...]  # all versions, the newest last; none where features are plain numbers
    features: Floats | None  # (n_rows, n_features), plain numbers; None with a schema
    feature_names: tuple[str, ...]  # of plain numbers, where the export tells them
    outcomes: Mapping[str, Floats] = {}  # by name and row


@dataclass(frozen=True, kw_only=True)
class ListLog:
    """A log of shown lists, one row per shown item in the order of the log.

    Page p owns the rows from offsets[p] to offsets[p + 1].
    """

    name: str  # of the file, for messages
    columns: ListColumns  # which column of a table is what; empty names for an export
    offsets: Ints
    position: Ints  # by row, from 0
    clicked: Floats  # by row, 1 or 0
    weight: Floats  # by row, what its click weighs (in an export also its grade or reward), 0 where none came
    query: Sequence[str]  # by row, empty where unknown
    item: Sequence[Id] | None  # by row; None where the log does not say which item is which
    session: Sequence[str | None]  # by page, None where unknown
    user: Sequence[str | None]  # by page, None where unknown
    values: Mapping[str, Sequence[Any]]  # raw values by column and row, None where missing
    table: Any = None  # the Arrow table that the values come from; None for an export
    export: Exported | None = None
    rankings: Callable[[], Iterator[Any]] | None = None  # replays a service's log as rankings with their states
    n_repeated: int = 0  # rows that were left out because they repeated another one
    notes: tuple[str, ...] = ()  # what was guessed or left out, a sentence each
    reread: "Callable[..., ListLog] | None" = None  # by a `schema`; None where cells have types already

    @property
    def n_pages(self) -> int:
        """The number of pages."""
        return len(self.offsets) - 1

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.offsets[-1])

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """The schemas that the log itself tells, the newest last."""
        return () if self.export is None else self.export.schemas

    @property
    def has_engine_order(self) -> bool:
        """True where positions are those of another system; a list that chance has drawn is nobody's order."""
        return self.export is None and not self.columns.propensity

    def typed_by(self, schema: Schema | None) -> "ListLog":
        """Return the log with its columns read as the kinds of a schema: in a CSV file 007 is a category or 7."""
        return self if self.reread is None else self.reread(schema=schema)

    @cached_property
    def order(self) -> Ints:
        """The rows, sorted by position inside each page."""
        return np.lexsort((self.position, np.repeat(np.arange(self.n_pages), np.diff(self.offsets))))

    @cached_property
    def log_propensity(self) -> Floats:
        """By page: the logarithm of the probability with which the whole list was shown; nan where unknown."""
        if self.export is not None:
            return self.export.log_propensity
        if self.propensity is None:
            return np.full(self.n_pages, math.nan)
        for page in range(self.n_pages):
            self._of_list(self.columns.propensity, page, "a propensity is that of the whole list")
        return np.array([math.log(value) for value in self.propensity[self.offsets[:-1]].tolist()])

    @cached_property
    def propensity(self) -> Floats | None:
        """By row: the probability of its position or of its list, nan where unknown; None without such a column."""
        if self.export is not None:
            return np.repeat(np.exp(self.export.log_propensity), np.diff(self.offsets))
        if not (name := self.columns.propensity):
            return None
        values = self.values[name]
        for row, value in enumerate(values):
            if value is not None and not (isinstance(value, int | float) and 0 < value <= 1):
                raise InvalidInput(f"{self.name}, row {row + 1}: {name} is {value!r:.60}; it must be a probability")
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)

    @property
    def visitors(self) -> list[str | None]:
        """By page, the user, or the session where users are unknown."""
        return [user or session for user, session in zip(self.user, self.session)]

    def clicks(self) -> ClickArrays:
        """Return the arrays that click models are fitted to; refused if the log does not say which item is which."""
        if self.item is None:
            fault = f"{self.name} has no column that names the items (such as item, product_id or sku)"
            advice = f"it has {', '.join(self.values)}: add --column item=NAME"
            raise InvalidInput(f"{fault}, so that clicks cannot be counted by item; {advice}")
        items, sessions = list(map(str, self.item)), session_names(self.visitors)
        pages = ClickArrays.of(self.offsets, self.position, self.clicked, self.query, items, sessions)
        propensity = None if self.propensity is None else self.propensity[self.order]
        return pages._replace(n_repeated=self.n_repeated, propensity=propensity)

    def lists(self, schema: Schema) -> list[ShownList]:
        """Return every page in the fields of a schema, its items in the order shown.

        An id that is no column is that of the item. A context field that differs inside a list is refused.
        """
        self._check_fields(schema)
        features = {name: self.values[name] for name in schema.features if name in self.values}
        context = [name for name in schema.context if name in self.values]
        name, log_propensity = self.columns.propensity, np.full(self.n_pages, math.nan)
        if not name or self.same_in_lists(name):  # else they are probabilities of positions, not of lists
            log_propensity = self.log_propensity
        ids = [f"row {row + 1}" for row in range(self.n_rows)] if self.item is None else self.item
        visitors = self.visitors
        kinds = [""] * self.n_pages if self.export is None else self.export.feedback
        needs_score = LOGGED_SCORE in schema.features and LOGGED_SCORE not in self.values
        lists = []
        for page, (start, end, at) in enumerate(zip(self.offsets, self.offsets[1:], self._times(schema))):
            rows = self.order[start:end]
            why = "a context field is the same for all items of a list"
            of_list = {name: self._of_list(name, page, why) for name in context}
            shown = ShownList(
                query_id=self.query[start],
                ids=[ids[row] for row in rows.tolist()],
                rows=[
                    {name: values[row] for name, values in features.items() if values[row] is not None}
                    for row in rows.tolist()
                ],
                context={name: value for name, value in of_list.items() if value is not None},
                at=at,
                position=self.position[rows],
                clicked=self.weight[rows],
                log_propensity=float(log_propensity[page]),
                propensity=None if self.propensity is None else self.propensity[rows],
                feedback=kinds[page] or "clicks",
                visitor=visitors[page],
            )
            lists.append(shown.with_logged_score() if needs_score else shown)
        return lists

    def queries(self, feature_names: Sequence[str], schema: Schema | None = None) -> Iterator[Query]:
        """Yield the query of each page in the fields, or by the names of plain numbers, that a ranker knows."""
        if schema is not None:
            encoder = Encoder(schema)
            yield from (shown.query(encoder) for shown in self.lists(schema))
            return
        if self.export is not None and self.export.features is not None:
            features = self.export.features
        elif not feature_names:
            raise InvalidInput("the ranker has no names of its features, so no column fits: train it with names")
        else:
            missing = next((name for name in feature_names if name not in self.values), None)
            if missing is not None:
                similar = nearest(missing, self.values)
                raise InvalidInput(f"{self.name} lacks the column {missing!r}, from which the ranker learned{similar}")
            features = np.column_stack([self.numbers(name) for name in feature_names])
        contexts = self.export.contexts if self.export is not None else [NO_CONTEXT] * self.n_pages
        for start, end, context in zip(self.offsets, self.offsets[1:], contexts):
            yield Query(self.query[start], features[self.order[start:end]], context)

    def pair_numbers(self) -> Ints:
        """Return by row the number of its (query, item) pair; where items are unknown every row is its own."""
        return np.arange(self.n_rows) if self.item is None else numbers_of(list(zip(self.query, map(str, self.item))))

    def query_numbers(self) -> tuple[Ints, tuple[str, ...]]:
        """Return by row the number of its query, or of its list where there is none, and the names by number."""
        if self.export is not None:
            pages = np.repeat(np.arange(self.n_pages), np.diff(self.offsets)).tolist()
            names = [query or f"impression {page + 1}" for query, page in zip(self.query, pages)]
            return numbers_of(names), tuple(dict.fromkeys(names))
        names = list(self.query) if self.columns.query else list(map(str, self.values[self.columns.list]))
        different, numbers = np.unique(np.array(names), return_inverse=True)
        return numbers, tuple(different.tolist())

    def same_in_lists(self, name: str) -> bool:
        """Return true for a context column: all rows of a list have one value."""
        return all(self._other_row(name, page) is None for page in range(self.n_pages))

    def _other_row(self, name: str, page: int) -> int | None:
        """Return the first row of a page with another value than its first row, None where there is none."""
        values, start = self.values[name], int(self.offsets[page])
        rows = range(start + 1, int(self.offsets[page + 1]))
        return next((row for row in rows if values[row] != values[start]), None)

    def _of_list(self, name: str, page: int, why: str) -> Any:
        """Return the value that all rows of a list have; `why` it is one is said where it is not."""
        values, other = self.values[name], self._other_row(name, page)
        value = values[self.offsets[page]]
        if other is not None:
            fault = f"{name} is {values[other]!r:.60}, and {value!r:.60} before in the same list"
            raise InvalidInput(f"{self.name}, row {other + 1}: {fault}: {why}")
        return value

    def outcomes(self) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Return by outcome beside clicks what each row brought, and what a sale of each row is worth.

        Every column that is named like an outcome counts. In an export without outcomes, clicks that weigh more than 1
        are purchases.
        """
        if self.export is not None:
            weighted = {} if (self.weight == self.clicked).all() else weighted_outcomes(self.weight)
            return dict(self.export.outcomes) or weighted, {}
        sold, paid, price = self.columns.purchase, self.columns.revenue, self.columns.price
        totals, worth = dict[str, Floats](), dict[str, Floats]()
        if sold:
            totals[PURCHASES] = self._amounts(sold, FLAG)
        if price and (paid or sold):
            worth[MONEY] = self._amounts(price)
        if paid:
            totals[MONEY] = self._amounts(paid)
        elif price and sold:
            totals[MONEY] = worth[MONEY] * totals[PURCHASES]
        taken = {sold, paid, *totals}
        for name in self.values:
            if plain_name(name) in FURTHER_OUTCOMES and name not in taken:
                totals[name] = self._amounts(name)
        return totals, worth

    def outcomes_by_page(self, names: Collection[str]) -> list[dict[str, dict[Id, float]]]:
        """Return by page what its items brought, by outcome that a ranker declares and by item.

        "purchase" and "revenue" are the columns that are recognised as such, others those of the same name.
        """
        totals, item = self.outcomes()[0], self.item
        columns = {name: totals.get(DECLARED_AS.get(name, name), totals.get(name)) for name in names}
        pages: list[dict[str, dict[Id, float]]] = [{} for _ in range(self.n_pages)]
        for name, values in columns.items():
            if values is not None and item is not None:
                for row in np.flatnonzero(values > 0).tolist():
                    page = int(np.searchsorted(self.offsets, row, side="right")) - 1
                    pages[page].setdefault(name, {})[item[row]] = float(values[row])
        return pages

    def numbers(self, name: str) -> Floats:
        """Return a column of numbers; an empty cell and one that is no number are refused, with the row."""
        return numbers_in(self.values[name], name, self.name)

    def _amounts(self, name: str, right: str = "a number") -> Floats:
        # An empty cell is 0.
        return numbers_in([0.0 if value is None else value for value in self.values[name]], name, self.name, right)

    def _check_fields(self, schema: Schema) -> None:
        """Refuse a field that is no column, but an id that may be the item's own."""
        for name, kind in [*schema.features.items(), *schema.context.items()]:
            if name == LOGGED_SCORE and name not in self.values and not self.has_engine_order:
                rule = f"{LOGGED_SCORE} is minus the position in today's order"
                fault = "but the lists of this log were drawn at random or by a service"
                advice = f"add a column {LOGGED_SCORE}, or train without a base"
                raise InvalidInput(f"{self.name}: {rule}, {fault}: {advice}")
            of_item = name == LOGGED_SCORE or isinstance(kind, Counter) or (kind.memory and self.item is not None)
            of_item = of_item and name in schema.features
            if name not in self.values and not of_item:
                similar = nearest(name, self.values)
                raise InvalidInput(f"{self.name} has no column {name!r}, which is a field of the schema{similar}")

    def _times(self, schema: Schema) -> list[float]:
        """Return by page when it was shown; 0 where nothing depends on it."""
        if self.export is not None:
            return [float(at) for at in self.export.at]
        name = self.columns.time
        dates = [field for field, kind in [*schema.features.items(), *schema.context.items()] if kind.stamped]
        counters = any(isinstance(kind, Counter) for kind in schema.features.values())
        if not dates and not (counters and name):
            return [0.0] * self.n_pages
        if not name or (dates and name in dates):
            advice = 'name the column that tells it, --column time=NAME (in Python columns={"time": "NAME"})'
            fault = f"the age of the date {dates[0]!r} depends on when a list was shown"
            raise InvalidInput(f"{self.name}: {fault}: {advice}")
        moments = []
        for row, value in enumerate(self.values[name]):
            try:
                moments.append(moment_of(value))
            except InvalidInput as error:
                raise InvalidInput(f"{self.name}, row {row + 1}: {name} {error}") from None
        return [moments[start] for start in self.offsets[:-1].tolist()]
