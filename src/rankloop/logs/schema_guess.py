"""A schema guessed from a log: item fields, context fields, their kinds, and the crosses."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.features.kinds import MAX_VECTOR
from rankloop.features.schema import MAX_NAME, Schema
from rankloop.features.words import words_of
from rankloop.logs.columns import LIST_GUESSES, USUAL_NAMES, number_of, plain_name
from rankloop.logs.context import ID_NAME, LOCAL_TIME, are_times
from rankloop.logs.list_log import ListLog
from rankloop.logs.outcome_columns import outcomes_of

ID_WORDS = re.compile(r"(^|_)(sku|asin|ean|gtin|isbn|product|doc|document|item|article|user|visitor|customer)$")
YES_NO = frozenset(["yes", "no", "true", "false", "0", "1"])
MIN_ID_VALUES = 20  # different values, before a text may be an id
MIN_WORDS = 1.5  # on average, in a text of words
MIN_DIFFERENT_SHARE = 0.3  # texts of words differ from item to item in so many cases at least
NEARLY_ALL = 0.95
MAX_CROSSES = 24


class Guess(NamedTuple):
    """A schema, and for each column of the log what gave it away."""

    schema: Schema
    reasons: dict[str, str]
    left_out: dict[str, str]
    outcomes: dict[str, str]  # columns that are known only when somebody has clicked
    roles: dict[str, str]  # list, position, click … by column

    def lines(self) -> list[tuple[str, str, str, str]]:
        """Return column, part, kind and reason, in the order of the schema."""
        fields = [
            (name, part, kind if isinstance(kind, str) else str(kind["kind"]), self.reasons[name])
            for part in ("features", "context")
            for name, kind in self.schema.to_plain()[part].items()
        ]
        others = {name: f"an outcome: {reason}" for name, reason in self.outcomes.items()} | self.left_out
        return fields + [(name, "left out", "", reason) for name, reason in others.items()]


class _Column:
    """The values of a column, and how they vary."""

    def __init__(self, table: ListLog, name: str, n_items: int) -> None:
        values, borders = table.values[name], list(pairwise(table.offsets.tolist()))
        self.name, self.roles, self.n_items, self.n_lists = name, table.columns, n_items, table.n_pages
        self.present = [value for value in values if value is not None]
        self.different = len(set(map(str, self.present)))
        texts, several = list(map(str, values)), any(end - start > 1 for start, end in borders)
        self.of_context = several and table.same_in_lists(name)
        self.unique_in_lists = several and all(len(set(texts[start:end])) == end - start for start, end in borders)
        self.is_named_id = bool(ID_NAME.search(name) or ID_WORDS.search(plain_name(name)))


def guessed_schema(table: ListLog, asked_for: Sequence[str] = ()) -> Guess:
    """Return the schema that a log suggests; outcomes are left out unless they are named.

    The item's own column becomes an id, that of the query a text of words or a category.

    Args:
      table: The log as a table.
      asked_for: Columns that were named by the user.
    """
    roles = table.columns
    for name in asked_for:
        if name not in table.values:
            raise InvalidInput(f"{table.name} has no column {name!r}")
    item = roles.item if roles.item != roles.list else ""
    candidates = list(dict.fromkeys(filter(None, (roles.query, item, *roles.others, *asked_for))))
    possible = {name: table.values[name] for name in candidates if name != roles.item and name not in asked_for}
    outcomes = outcomes_of(possible, table.clicked, (roles.purchase, roles.revenue))
    n_items = len(set(map(str, table.values[roles.item]))) if roles.item else 0
    features, context, reasons = dict[str, Any](), dict[str, Any](), dict[str, str]()
    other_names = [name for name in roles.left_out if name not in candidates]
    left_out = dict.fromkeys(other_names, "another name of a column that is used already")
    for name in candidates:
        if name in outcomes:
            continue
        if (name == roles.user or plain_name(name) in USUAL_NAMES["user"]) and name not in asked_for:
            left_out[name] = "names the user, who can be erased; declare it to learn from it"
            continue
        column = _Column(table, name, n_items)
        kind, reason = _kind(column)
        if kind is None:
            left_out[name] = reason
            continue
        (context if column.of_context else features)[name] = kind
        reasons[name] = f"{reason}; {'the same in each list' if column.of_context else 'of the item'}"
    crosses = _crosses(features, context, roles.query)
    crossed = {name for cross in crosses for name in cross.split("*")}
    for name in [name for name in context if name not in crossed]:
        del context[name], reasons[name]
        left_out[name] = "the same in each list, and in no cross"
    if not features:
        raise InvalidInput(f"{table.name} has no column with a field of the items; it has {', '.join(table.values)}")
    named_roles = {role: column for role in LIST_GUESSES if (column := getattr(roles, role))}
    return Guess(Schema(features, context, tuple(crosses)), reasons, left_out, outcomes, named_roles)


def _kind(column: _Column) -> tuple[Any, str]:
    """The kind of a column and why; None and why not."""
    name, present, roles = column.name, column.present, column.roles
    if len(name) > MAX_NAME or "*" in name or name != name.strip():
        return None, "its name is not allowed for a field"
    if not present:
        return None, "empty"
    if name == roles.item:
        return "id", "names the items"
    if column.different == 1 and len(present) > 1:
        return None, "always the same"
    if all(isinstance(value, list) for value in present):
        sizes, parts = {len(value) for value in present}, [part for value in present for part in value]
        if all(isinstance(part, int | float) and not isinstance(part, bool) for part in parts):
            if len(sizes) == 1 and 0 < max(sizes) <= MAX_VECTOR:
                return {"kind": "vector", "size": max(sizes)}, f"{max(sizes)} numbers each"
            return None, "lists of numbers of different lengths"
        if all(isinstance(part, str) for part in parts):
            return "category", "lists of texts"
        return None, "lists of neither texts nor numbers"
    if name in (roles.query, roles.user, roles.session):  # 1510 is the name of a query, not an amount
        return _kind_of_texts(column)
    if are_times(present) and not all(isinstance(value, str) and ":" in value[:3] for value in present):
        if column.of_context:
            return None, "a time of the user"
        is_ambiguous = any(isinstance(value, str) and LOCAL_TIME.fullmatch(value) for value in present)
        return (None, "dates: write them as 2026-11-15") if is_ambiguous else ("date", "dates")
    if all(isinstance(value, bool) for value in present) or {str(value).lower() for value in present} <= YES_NO:
        return "flag", "two values"
    if all(isinstance(value, int | float) for value in present):
        may_be_id = column.is_named_id or column.different == len(present) > 2 * MIN_ID_VALUES
        if column.of_context and column.different > MIN_ID_VALUES and all(a <= b for a, b in pairwise(present)):
            return None, "a time: it never falls from one list to the next"
        are_names = may_be_id and all(float(value).is_integer() for value in present)
        return _kind_of_names(column) if are_names else ("number", "numbers")
    if any(isinstance(value, dict | date) for value in present):
        return None, "neither texts nor numbers"
    n_numbers = sum(math.isfinite(number_of(value)) for value in present)
    if n_numbers >= NEARLY_ALL * len(present) and len(present) > MIN_ID_VALUES and not column.is_named_id:
        return "number", f"numbers but for {len(present) - n_numbers} cells"
    return _kind_of_texts(column)


def _kind_of_texts(column: _Column) -> tuple[Any, str]:
    texts = [str(value) for value in column.present]
    different = set(texts)
    # Parts of one name, as in r2-17, are no words; scripts without spaces are read character by character.
    with_words = [text for text in different if " " in text.strip() or not text.isascii()]
    n_words = (sum(len(words_of(text)) for text in with_words) + len(different) - len(with_words)) / len(different)
    cases = column.n_lists if column.of_context else (column.n_items or len(texts))
    often = len(different) >= min(MIN_DIFFERENT_SHARE * cases, 10 * MIN_ID_VALUES + 1)
    often = often or (column.unique_in_lists and not column.n_items)
    if n_words >= MIN_WORDS and (often or column.name == column.roles.query):
        return "words", "texts of several words"
    if len(different) <= MIN_ID_VALUES and not column.is_named_id:
        return "category", f"{len(different)} different texts"
    return _kind_of_names(column)


def _kind_of_names(column: _Column) -> tuple[Any, str]:
    """Of whole numbers and texts that name something: an id where they are many, else a category."""
    different, named_id = column.different, column.is_named_id
    if different == len(column.present) > 2 * MIN_ID_VALUES and different > column.n_items > 0:
        return None, "differs in every row"
    if column.of_context and different > NEARLY_ALL * column.n_lists and column.n_lists > MIN_ID_VALUES:
        return None, "differs in every list"
    single = not column.of_context and column.unique_in_lists and different >= NEARLY_ALL * column.n_items
    named = named_id and (column.of_context or 2 * different >= column.n_items)
    if different > MIN_ID_VALUES and (single or named):
        return "id", f"{different} different ones, {'named like an id' if named_id else 'nearly all different'}"
    return "category", f"{different} different values"


def _crosses(features: Mapping[str, Any], context: Mapping[str, Any], query: str) -> list[str]:
    """Context with what groups items, the query with words and ids: never all with all."""
    groups = [name for name, kind in features.items() if kind == "category"]
    words = [name for name, kind in features.items() if kind == "words"]
    ids = [name for name, kind in features.items() if kind == "id"]
    plain = [name for name, kind in features.items() if kind in ("number", "flag", "date")]
    crosses = []
    for name, kind in context.items():
        with_words = words if name == query or kind == "words" else []
        with_ids = ids[:1] if name == query else []
        partners = [*groups, *with_words, *with_ids] or [*words, *plain, *ids][:1]
        crosses.append([f"{name}*{partner}" for partner in partners])
    if sum(map(len, crosses)) > MAX_CROSSES:  # a few of each rather than all of the first
        crosses = [part[: max(1, MAX_CROSSES // len(crosses))] for part in crosses]
    return [cross for part in crosses for cross in part][:MAX_CROSSES]
