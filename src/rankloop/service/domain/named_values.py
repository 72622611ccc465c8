"""Values by field name: requests to rankers with a schema, the values of a catalogue, and their encoding in the log."""

import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rankloop.adapter import INVALID_ID, MAX_ID_LENGTH, QueryRequest, is_valid_id
from rankloop.core.errors import InvalidInput, Rejected
from rankloop.features.encoder import Encoder
from rankloop.service.domain.base_score import BASE_SCORE
from rankloop.service.domain.catalogue import ItemCatalogue, RowChanges, merged_rows
from rankloop.service.records import Ranked, Values
from rankloop.service.requests import RankBody

if TYPE_CHECKING:
    from rankloop.service.domain.configuration import RankerConfig

MAX_FIELDS = 1_000  # of a row in a catalogue
MAX_NAME_LENGTH = 128  # characters of a field name
COMPRESSED_FROM_BYTES = 8_192
ZLIB_FIRST_BYTE = b"\x78"  # no MessagePack list begins with it
BIG_INTEGER_CODE = 1  # of an integer of more than 64 bits, as a MessagePack extension


class RequestValues(NamedTuple):
    """The values of a request by field name: one row per item, and the context."""

    rows: list[Values]
    context: Values


def packed(rows: Sequence[Values], context: Values) -> bytes:
    """Encode the values of a request; field names are written once.

    Args:
      rows: One row per item.
      context: The values of the context.
    """
    numbers: dict[str, int] = {}
    listed = [{numbers.setdefault(name, len(numbers)): value for name, value in row.items()} for row in rows]
    content = [list(numbers), listed if numbers else [], dict(context)]
    try:
        encoded = msgspec.msgpack.encode(content)
    except OverflowError:
        encoded = msgspec.msgpack.encode(_with_big_integers(content))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"items: a value cannot be written to the log: {error}") from None
    return encoded if len(encoded) < COMPRESSED_FROM_BYTES else zlib.compress(encoded, 1)


def unpacked(content: bytes, n_items: int) -> RequestValues:
    """Decode the bytes of `packed`.

    Args:
      content: The bytes.
      n_items: The number of items of the request; rows that are all empty are not encoded.
    """
    if content[:1] == ZLIB_FIRST_BYTE:
        content = zlib.decompress(content)
    names, listed, context = msgspec.msgpack.decode(content, ext_hook=lambda code, data: int(bytes(data), 16))
    rows: list[Values] = [{names[number]: value for number, value in row.items()} for row in listed]
    return RequestValues(rows or [{} for _ in range(n_items)], context)


def _with_big_integers(value: Any) -> Any:
    """Return the value with integers of more than 64 bits as extensions, since MessagePack has no type for them."""
    if isinstance(value, Mapping):
        return {name: _with_big_integers(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_with_big_integers(part) for part in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return msgspec.msgpack.Ext(BIG_INTEGER_CODE, hex(value).encode())
    return value


def add_values(ranked: Ranked, request: QueryRequest) -> None:
    """Add the values of a request to its event; plain numbers are not values.

    Args:
      ranked: The event.
      request: The request.
    """
    if (values := request.values) is not None:
        ranked.values = packed(values.rows, values.context)
        ranked.at, ranked.schema = values.at, values.schema


def named_request(body: RankBody, config: "RankerConfig", catalogue: ItemCatalogue | None) -> QueryRequest:
    """Make the query of a request to a ranker with a schema.

    Args:
      body: The request.
      config: The ranker's configuration.
      catalogue: The ranker's catalogue, if it has one.
    """
    ids = [*(item.id for item in body.items), *body.ids]
    if not all(map(is_valid_id, ids)):
        raise Rejected("items", INVALID_ID)
    rows: list[Values] = []
    for item in body.items:  # one without features has an empty list
        if item.features and not isinstance(item.features, Mapping):
            raise Rejected("items", f"item {item.id!r:.80} has a list of numbers; with a schema give values by name")
        rows.append(item.features or {})  # type: ignore[arg-type]
    rows += [{}] * len(body.ids)
    if body.ids and catalogue is None:
        raise Rejected("ids", "items by id alone need a catalogue in the ranker's problem; give items with features")
    if not ids and catalogue is not None:
        ids, rows = list(config.adapter.items), [{}] * len(config.adapter.items)
    if config.computed_score == BASE_SCORE and any(BASE_SCORE in row for row in rows):
        raise Rejected("items", f"{BASE_SCORE!r} is computed by the ranker's base: leave it out")
    if catalogue is not None:
        catalogue_rows = catalogue.rows(ids)
        for id, catalogue_row, request_row in zip(ids, catalogue_rows, rows):
            if catalogue_row is None and not request_row:
                raise Rejected("items", f"{id!r:.80} is not in the catalogue; put it there, or give its features")
        rows = merged_rows(catalogue_rows, rows, frozenset(config.adapter.feature_names))
    rows = config.with_base_values(rows, body.query_id)
    request = config.ruled_query(ids, rows, body, time.time())
    return request._replace(has_catalogue=catalogue is not None)


def same_values(ranked: Ranked, request: QueryRequest) -> bool:
    """Return True if a request has the values of an earlier one; time and schema version are not compared.

    Args:
      ranked: The event of the earlier request.
      request: The new request; rows are not compared with a catalogue, which may have changed since.
    """
    if request.values is None or not ranked.values:
        return request.values is None
    rows, context = unpacked(ranked.values, len(ranked.ids))
    return context == request.values.context and (request.has_catalogue or rows == request.values.rows)


def catalogue_changes(rows: RowChanges, catalogue: ItemCatalogue, rankers: "Iterable[RankerConfig]") -> dict[str, Any]:
    """Return the rows of a request that change a catalogue.

    Args:
      rows: The rows of the request by id.
      catalogue: The catalogue.
      rankers: The configurations of the rankers that use it.
    """
    for id, row in rows.items():
        if not id or len(id) > MAX_ID_LENGTH:
            raise Rejected("rows", f"{id!r:.60} is not an id: ids have 1 to {MAX_ID_LENGTH} characters")
        row = row or {}
        if len(row) > MAX_FIELDS:
            raise Rejected("rows", f"item {id!r:.60} has {len(row)} fields; at most {MAX_FIELDS} are allowed")
        for name, value in row.items():
            if not name or len(name) > MAX_NAME_LENGTH:
                limits = f"field names have 1 to {MAX_NAME_LENGTH} characters"
                raise Rejected("rows", f"item {id!r:.60}: {name!r:.60} is not a field name: {limits}")
            if any(isinstance(part, dict | list) for part in (value if isinstance(value, list) else [value])):
                raise Rejected("rows", f"item {id!r:.60}: {name} must be a text, a number, true, false, null or a list")
    changes = catalogue.changed(rows)
    changed = {id: row for id, row in changes.items() if row is not None}
    try:
        packed(list(changed.values()), {})
        for config in rankers:
            # A new encoder, because the event loop uses that of the ranker.
            encoder = Encoder(config.encoders[max(config.encoders)].schema)
            readable = merged_rows(list(changed.values()), [{}] * len(changed), encoder.schema.features.keys())
            encoder.rows(list(changed), readable, {}, time.time())
    except InvalidInput as error:
        raise Rejected("rows", str(error)) from None
    return changes
