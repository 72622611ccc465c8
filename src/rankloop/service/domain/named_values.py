"""Values by name: requests checked by the schema and filled up from a catalogue, and how the log keeps them."""

import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rankloop.adapter import INVALID_ID, MAX_ID_LENGTH, Id, QueryRequest, RawValues, is_valid_id
from rankloop.core.errors import InvalidInput, Rejected
from rankloop.features.encoder import Encoder
from rankloop.service.domain.base_score import BASE_SCORE
from rankloop.service.domain.catalogue import ItemCatalogue, RowChanges, merged_rows
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.records import Ranked, Values
from rankloop.service.requests import RankBody

MAX_FIELDS = 1_000  # of a row in a catalogue
MAX_NAME_LENGTH = 128  # characters of a field
COMPRESSED_FROM_BYTES = 8_192
ZLIB = b"\x78"  # how zlib begins, and msgpack does not
BIG = 1  # the code of a whole number of more than 64 bits


class GivenValues(NamedTuple):
    """The values of a request by name: of its items, and of whoever asks."""

    rows: list[Values]
    context: Values


def packed(rows: Sequence[Values], context: Values) -> bytes:
    """In a few bytes: a row is a table whose keys count in the list of names; rows that say nothing are left out."""
    numbers: dict[str, int] = {}
    listed = [{numbers.setdefault(name, len(numbers)): value for name, value in row.items()} for row in rows]
    content = [list(numbers), listed if numbers else [], dict(context)]
    try:
        return _squeezed(msgspec.msgpack.encode(content))
    except OverflowError:
        return _squeezed(msgspec.msgpack.encode(_small(content)))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"items: this cannot be written to the log: {error}") from None


def unpacked(content: bytes, n_items: int) -> GivenValues:
    """What `packed` wrote of so many items."""
    if content[:1] == ZLIB:
        content = zlib.decompress(content)
    names, listed, context = msgspec.msgpack.decode(content, ext_hook=_big)
    rows: list[Values] = [{names[number]: value for number, value in row.items()} for row in listed]
    return GivenValues(rows or [{} for _ in range(n_items)], context)


def _squeezed(content: bytes) -> bytes:
    """Large ones are pressed: they are long lists of numbers that are much alike."""
    return content if len(content) < COMPRESSED_FROM_BYTES else zlib.compress(content, 1)


def _small(value: Any) -> Any:
    """The same without numbers that are too large to be written as such."""
    if isinstance(value, Mapping):
        return {name: _small(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_small(part) for part in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return msgspec.msgpack.Ext(BIG, hex(value).encode())
    return value


def _big(code: int, data: memoryview) -> int:
    return int(bytes(data), 16)


def add_values(ranked: Ranked, request: QueryRequest) -> None:
    """Add to an event what a request gave by name."""
    values = request.values
    if values is not None:
        ranked.values = packed(values.rows, values.context)
        ranked.at, ranked.schema, ranked.catalogue = values.at, values.schema, request.catalogue


def logged_values(ranked: Ranked, config: RankerConfig, catalogue: ItemCatalogue | None = None) -> RawValues:
    """What was asked in values by name, those that came from a catalogue among them."""
    if ranked.schema not in config.encoders:
        raise InvalidInput(f"this was ranked by version {ranked.schema} of a schema, which the ranker never had")
    given = unpacked(ranked.values, len(ranked.ids))
    rows = given.rows
    if ranked.catalogue and catalogue is not None:
        names = config.encoders[ranked.schema].schema.features.keys()
        rows = merged_rows(catalogue.rows(ranked.ids, ranked.catalogue), rows, names)
    return RawValues(rows, given.context, ranked.at, ranked.schema)


def named_request(body: RankBody, config: RankerConfig, catalogue: ItemCatalogue | None) -> QueryRequest:
    """What a request asks of a ranker with a schema; its `values` are those that it gave, to be logged as such."""
    ids = [*(item.id for item in body.items), *body.ids]
    if not all(map(is_valid_id, ids)):
        raise Rejected("items", INVALID_ID)
    given = [_given(item.id, item.features) for item in body.items] + [{}] * len(body.ids)
    if body.ids and catalogue is None:
        raise Rejected("ids", "items by id alone need a catalogue in the ranker's problem; give items with features")
    if not ids and catalogue is not None:
        ids, given = list(config.adapter.items), [{}] * len(config.adapter.items)
    if config.booster is not None and any(BASE_SCORE in row for row in given):
        raise Rejected("items", f"{BASE_SCORE!r} is computed by the ranker's booster: leave it out")
    rows: Sequence[Values] = given
    if catalogue is not None:
        version = catalogue.version
        found = catalogue.rows(ids, version)
        _check_known(ids, found, given)
        rows = merged_rows(found, given, frozenset(config.adapter.feature_names))
    if config.booster is not None:
        given = config.with_booster_values(given, body.query_id, rows)
        rows = [{**row, BASE_SCORE: own[BASE_SCORE]} for row, own in zip(rows, given)]
    request = config.adapter.query(ids, rows, body.context, body.query_id, body.pinned, body.excluded, time.time())
    if catalogue is None or request.values is None:
        return request
    own = dict(zip(map(str, ids), given))  # a fixed set comes in its own order
    values = request.values._replace(rows=[own[str(id)] for id in request.ids])
    return request._replace(values=values, catalogue=version)


def same_values(before: Ranked, values: RawValues) -> bool:
    """Whether a request gave what one before it gave; when it came, and by which version, makes no difference."""
    if before.values == packed(values.rows, values.context):
        return True
    known = unpacked(before.values, len(before.ids)) if before.values else None
    return known is not None and known.rows == values.rows and known.context == values.context


def catalogue_changes(rows: RowChanges, catalogue: ItemCatalogue, rankers: Iterable[RankerConfig]) -> dict[str, Any]:
    """What a request changes in a catalogue; refused as a whole where a ranker that uses it could not read a row."""
    for id, row in rows.items():
        if not id or len(id) > MAX_ID_LENGTH:
            raise Rejected("rows", f"{id!r:.60} is no id: 1 to {MAX_ID_LENGTH} characters")
        if row is not None:
            _check_row(id, row)
    changes = catalogue.changed(rows)
    changed = {id: row for id, row in changes.items() if row is not None}
    try:
        packed(list(changed.values()), {})
        for config in rankers:
            _check_readable(changed, config)
    except InvalidInput as error:
        raise Rejected("rows", str(error)) from None
    return changes


def _given(id: Id, features: Any) -> Values:
    """An empty list is what an item without features has."""
    if isinstance(features, Mapping):
        return features
    if features:
        raise Rejected("items", f"item {id!r:.80} has a list of numbers; with a schema give values by name")
    return {}


def _check_known(ids: Sequence[Id], found: Sequence[Values | None], given: Sequence[Values]) -> None:
    for id, known, own in zip(ids, found, given):
        if known is None and not own:
            raise Rejected("items", f"{id!r:.80} is not in the catalogue; put it there, or give its features")


def _check_row(id: str, row: Values) -> None:
    if len(row) > MAX_FIELDS:
        raise Rejected("rows", f"item {id!r:.60} has {len(row)} fields; at most {MAX_FIELDS} are taken")
    for name, value in row.items():
        if not name or len(name) > MAX_NAME_LENGTH:
            raise Rejected(
                "rows", f"item {id!r:.60}: {name!r:.60} is no name of a field: 1 to {MAX_NAME_LENGTH} characters"
            )
        parts = value if isinstance(value, list) else [value]
        if any(isinstance(part, dict | list) for part in parts):
            raise Rejected("rows", f"item {id!r:.60}: {name} must be a text, a number, true, false, null or a list")


def _check_readable(rows: Mapping[str, Values], config: RankerConfig) -> None:
    """With an encoder of its own: that of the ranker is not held up by thousands of rows."""
    encoder = Encoder(config.encoders[max(config.encoders)].schema)
    known = merged_rows(list(rows.values()), [{}] * len(rows), encoder.schema.features.keys())
    encoder.rows(list(rows), known, {}, time.time())
