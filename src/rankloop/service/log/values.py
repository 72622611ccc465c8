"""What a request said in people's own values, as the log keeps it: each name once, a sparse row as a short one."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rankloop.core.errors import InvalidInput

Row = Mapping[str, Any]
LARGE = 8_192  # bytes
ZLIB = b"\x78"  # how zlib begins, and msgpack does not
BIG = 1  # the code of a whole number of more than 64 bits


class GivenValues(NamedTuple):
    """The values of a request by name: of its items, and of whoever asks."""

    rows: list[Row]
    context: Row


def packed(rows: Sequence[Row], context: Row) -> bytes:
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
    rows: list[Row] = [{names[number]: value for number, value in row.items()} for row in listed]
    return GivenValues(rows or [{} for _ in range(n_items)], context)


def _squeezed(content: bytes) -> bytes:
    """Large ones are pressed: they are long lists of numbers that are much alike."""
    return content if len(content) < LARGE else zlib.compress(content, 1)


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
