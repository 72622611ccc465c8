"""Filters as tokens of the index: one for each value of a field, and year, month and day of a document's date."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import xxhash

from rankloop.search.engine import QueryFilter, TextDocument

VALUE_SEPARATOR = "\x1f"  # between several values of one field
FIRST_YEAR, LAST_YEAR = 1900, 2200
MAX_FACET_VALUES = 20  # per field, the most frequent ones


def values_of(value: str) -> list[str]:
    """Return the values of a field that may have several."""
    return [part for part in value.split(VALUE_SEPARATOR) if part]


def _facet_token(field: str, value: str) -> str:
    """Return the token of a value of a field; capitals do not count."""
    return "f" + xxhash.xxh3_64_hexdigest(f"{field}={value.strip().casefold()}".encode(errors="replace"))


def document_tokens(document: TextDocument) -> list[str]:
    """Return the tokens by which a document is filtered."""
    tokens = [_facet_token(name, value) for name, text in document.fields.items() for value in values_of(text)]
    if document.at > 0.0:
        day = _day(document.at)
        tokens += [f"y{day:%Y}", f"m{day:%Y%m}", f"d{day:%Y%m%d}"]
    return tokens


def filter_tokens(condition: QueryFilter) -> tuple[str, ...]:
    """Return the tokens of which a document needs one to satisfy a filter."""
    if condition.field != "at":
        return (_facet_token(condition.field, condition.value),)
    first = _day(condition.start) if condition.start else datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
    end = _day(condition.end) if condition.end else datetime(LAST_YEAR, 1, 1, tzinfo=UTC)
    tokens, day = list[str](), first
    while day < end:  # by the largest part that begins here and is over in time: a year, a month or a day
        month_end = datetime(day.year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC)
        year_end, is_first = datetime(day.year + 1, 1, 1, tzinfo=UTC), day.day == 1
        if is_first and day.month == 1 and year_end <= end:
            form, next_day = "y%Y", year_end
        elif is_first and month_end <= end:
            form, next_day = "m%Y%m", month_end
        else:
            form, next_day = "d%Y%m%d", day + timedelta(days=1)
        tokens.append(f"{day:{form}}")
        day = next_day
    return tuple(tokens) or ("none",)


def satisfies(fields: Mapping[str, str], at: float, filters: Iterable[QueryFilter]) -> bool:
    """Return True where a document satisfies all filters.

    Args:
      fields: Its further values.
      at: Its date in seconds since 1970; 0: unknown.
      filters: The conditions.
    """
    for condition in filters:
        if condition.field == "at":
            if at <= 0.0 or at < condition.start or (condition.end and at >= condition.end):
                return False
        elif condition.value.strip().casefold() not in values_of(fields.get(condition.field, "").casefold()):
            return False
    return True


def count_facets(rows: Sequence[Mapping[str, str]]) -> dict[str, dict[str, int]]:
    """Return the most frequent values of each field with the number of documents that have them."""
    counters = dict[str, Counter[str]]()
    for fields in rows:
        for name, text in fields.items():
            counters.setdefault(name, Counter()).update(set(values_of(text)))
    return {name: dict(counter.most_common(MAX_FACET_VALUES)) for name, counter in sorted(counters.items())}


def _day(at: float) -> datetime:
    limit = datetime(LAST_YEAR, 1, 1, tzinfo=UTC).timestamp()
    moment = datetime.fromtimestamp(min(max(at, 0.0), limit), tz=UTC)
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
