"""Values by field name, and their encoding in the log."""

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from rankloop.adapter import RawValues
from rankloop.core.errors import InvalidInput
from rankloop.service.records import Ranked, Values

COMPRESSED_FROM_BYTES = 8_192
BIG_INTEGER_CODE = 1  # of an integer of more than 64 bits, as a MessagePack extension
ZLIB_FIRST_BYTE = b"\x78"  # no MessagePack list begins with it


def packed_values(values: RawValues) -> bytes:
    """Encode the values of a request by field name; the names are written once."""
    numbers: dict[str, int] = {}
    listed = [{numbers.setdefault(name, len(numbers)): value for name, value in row.items()} for row in values.rows]
    content = [list(numbers), listed if numbers else [], dict(values.context)]
    try:
        encoded = msgspec.msgpack.encode(content)
    except OverflowError:
        encoded = msgspec.msgpack.encode(_with_big_integers(content))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"items: a value cannot be written to the log: {error}") from None
    return encoded if len(encoded) < COMPRESSED_FROM_BYTES else zlib.compress(encoded, 1)


def logged_values(ranked: Ranked) -> RawValues:
    """Return the values that an impression was ranked by; rows that are all empty are not in the log."""
    content = ranked.values
    if content[:1] == ZLIB_FIRST_BYTE:
        content = zlib.decompress(content)
    names, listed, context = msgspec.msgpack.decode(content, ext_hook=lambda code, data: int(bytes(data), 16))
    rows: list[Values] = [{names[number]: value for number, value in row.items()} for row in listed]
    return RawValues(rows or [{} for _ in ranked.ids], context, ranked.at, ranked.schema)


def _with_big_integers(value: Any) -> Any:
    """Return the value with integers of more than 64 bits as extensions, since MessagePack has no type for them."""
    if isinstance(value, Mapping):
        return {name: _with_big_integers(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_with_big_integers(part) for part in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return msgspec.msgpack.Ext(BIG_INTEGER_CODE, hex(value).encode())
    return value
