"""Pages from wherever lists are logged: a service, its export, or a table of one's own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats, Query
from rankloop.evaluation.off_policy.lists.pages import ShownPage
from rankloop.evaluation.off_policy.ranking_log import LoggedRanking
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.impressions import Impression
from rankloop.logs.shown_lists import RawTable, ShownList, lists_of

PURCHASES, MONEY, WEIGHTS = "purchases", "money", "weighted clicks"
SOLD = ("purchased", "purchase", "purchases", "bought", "is_purchase", "converted", "conversion", "is_conversion")
PAID = ("revenue", "gmv", "order_value", "amount", "sales_value")
PRICES = ("price", "unit_price", "item_price", "product_price")
SESSIONS = ("session", "session_id", "visit", "visit_id", "user", "user_id", "client_id", "visitor")
NO, YES = ("", "0", "no", "n", "false", "f"), ("1", "yes", "y", "true", "t")


def ranking_pages(log: Iterable[LoggedRanking], encoder: Encoder | None = None) -> Iterator[ShownPage]:
    """Those of a service, each with the state that drew it; what weighs more than a click is a purchase."""
    for one in log:
        pairs = [(one.query.id, item) for item in one.ids] if one.ids else None
        yield ShownPage(
            one.query_by(encoder),
            one.ranking,
            (one.rewards > 0).astype(np.float64),
            outcomes=weighted_outcomes(one.rewards),
            session=one.session or None,
            pairs=pairs,
            drawn_by=one.drawn_by,
            drawn_for=one.query,
        )


def impression_pages(log: Iterable[Impression]) -> Iterator[ShownPage]:
    """Those of an export whose features are plain numbers."""
    for one in log:
        rewards = np.array([one.values.get(item, 0.0) for item in one.ranking])
        yield ShownPage(
            Query(one.query_id, one.features, one.context),
            np.arange(len(one.ranking)),
            (rewards > 0).astype(np.float64),
            outcomes=weighted_outcomes(rewards),
            pairs=[(one.query_id, item) for item in one.ranking],
        )


def list_pages(log: Iterable[ShownList], encoder: Encoder) -> Iterator[ShownPage]:
    """Lists in values as people have them."""
    for one in log:
        yield ShownPage(
            one.query(encoder),
            np.arange(len(one.ids)),
            (one.clicked > 0).astype(np.float64),
            one.position,
            outcomes=weighted_outcomes(one.clicked),
            pairs=[(one.query_id, item) for item in one.ids],
        )


def table_pages(table: RawTable, features: Sequence[str], schema: Schema | None = None) -> Iterator[ShownPage]:
    """Those of a table, with what was bought and paid, where its columns tell; by named features or by a schema."""
    table = _by_query(table)
    page_session = _first(table, SESSIONS)
    money, worth = _money(table)
    sold = _first(table, SOLD)
    bought = _flags(table, sold) if sold else None
    numbers = None if schema is not None else feature_rows(table, features)
    lists: list[ShownList] = [] if schema is None else lists_of(table, schema)
    encoder = None if schema is None else Encoder(schema)
    position = _numbers_of(table, table.roles.position)
    position = position - position.min()
    clicked = table.clicked
    for number, (start, end) in enumerate(pairwise(table.offsets.tolist())):
        order = start + np.argsort(position[start:end], kind="stable")
        stood = position[order].astype(np.int64)
        if len(np.unique(stood)) != len(stood):
            raise InvalidInput(
                f"{table.name}, row {start + 1}: two items of one list stand at the same position; name the column "
                "that tells which rows are one page, --column list=NAME"
            )
        if numbers is not None:
            query = Query(_text(table, table.roles.query, start), numbers[order], np.empty(0))
        else:
            query = lists[number].query(encoder)  # type: ignore[arg-type]
        outcomes: dict[str, Floats] = {}
        if bought is not None:
            outcomes[PURCHASES] = bought[order]
        if money is not None:
            outcomes[MONEY] = money[order]
        yield ShownPage(
            query,
            np.arange(len(order)),
            clicked[order],
            stood,
            outcomes,
            {} if worth is None else {MONEY: worth[order]},
            _text(table, page_session, start) or None if page_session else None,
            _pairs(table, order.tolist(), start),
        )


def feature_rows(table: RawTable, features: Sequence[str]) -> Floats:
    """The columns from which a ranker of plain numbers learned, in its order."""
    missing = next((name for name in features if name not in table.values), None)
    if missing is not None or not features:
        said = f"the column {missing!r}, from which the ranker learned{nearest(missing or '', table.values)}"
        raise InvalidInput(f"{table.name} lacks {said}" if features else "the ranker does not tell its features' names")
    return np.column_stack([_numbers_of(table, name) for name in features])


def weighted_outcomes(weights: Floats) -> dict[str, Floats]:
    """What clicks of other weights than 1 tell: those above it are purchases."""
    return {PURCHASES: (weights > 1).astype(np.float64), WEIGHTS: weights}


def plain_outcomes(pages: Iterable[ShownPage]) -> Iterator[ShownPage]:
    """The same pages; where every click weighs 1 there are no other outcomes, which the first pages cannot tell."""
    kept = list(pages)
    if all((page.outcomes.get(WEIGHTS, page.clicked) == page.clicked).all() for page in kept):
        dropped = (PURCHASES, WEIGHTS)
        kept = [
            page._replace(outcomes={name: values for name, values in page.outcomes.items() if name not in dropped})
            if WEIGHTS in page.outcomes
            else page
            for page in kept
        ]
    return iter(kept)


def _money(table: RawTable) -> tuple[Floats | None, Floats | None]:
    """What each row brought, and what one sale of it is worth; None where no column tells."""
    paid, price, sold = (_first(table, names) for names in (PAID, PRICES, SOLD))
    if paid:
        return _numbers_of(table, paid, 0.0), _numbers_of(table, price, 0.0) if price else None
    if price and sold:
        prices = _numbers_of(table, price, 0.0)
        return prices * _flags(table, sold), prices
    return None, None


def _first(table: RawTable, usual: Sequence[str]) -> str:
    plain = {name.strip().lower().replace(" ", "_").replace("-", "_"): name for name in table.values}
    return next((plain[name] for name in usual if name in plain), "")


def _by_query(table: RawTable) -> RawTable:
    """A list ends where its query does: a session may have asked several."""
    query = table.values[table.roles.query] if table.roles.query else None
    if query is None:
        return table
    inner = [row for row in range(1, len(query)) if query[row] != query[row - 1]]
    return table._replace(offsets=np.array(sorted({*table.offsets.tolist(), *inner}), dtype=np.int64))


def _flags(table: RawTable, name: str) -> Floats:
    return np.array([_flag(value, table, name, row) for row, value in enumerate(table.values[name])])


def _flag(value: Any, table: RawTable, name: str, row: int) -> float:
    text = "" if value is None else str(value).strip().lower()
    if text in NO:
        return 0.0
    if text in YES:
        return 1.0
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{table.name}, row {row + 1}: {name} is {value!r}; it must be 0 or 1") from None


def _numbers_of(table: RawTable, name: str, empty: float | None = None) -> Floats:
    found = []
    for row, value in enumerate(table.values[name]):
        if value is None and empty is None:
            raise InvalidInput(f"{table.name}, row {row + 1}: {name} is missing")
        try:
            found.append(empty if value is None else float(value))
        except (TypeError, ValueError):
            raise InvalidInput(f"{table.name}, row {row + 1}: {name} is {value!r}; it must be a number") from None
    return np.array(found, dtype=np.float64)


def _text(table: RawTable, name: str, row: int) -> str:
    value = table.values[name][row] if name else None
    return "" if value is None else str(value)


def _pairs(table: RawTable, rows: Sequence[int], start: int) -> list[Any] | None:
    item = table.roles.item
    query = _text(table, table.roles.query, start)
    return [(query, table.values[item][row]) for row in rows] if item else None


def outcome_columns(table: RawTable) -> Mapping[str, str]:
    """Which columns tell what came of a click: for one line about them."""
    found = {PURCHASES: _first(table, SOLD), MONEY: _first(table, PAID) or _first(table, PRICES)}
    return {role: name for role, name in found.items() if name}
