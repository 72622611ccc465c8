"""What is wrong with a body that could not be decoded: the path to it, and the reason."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from rankloop.core.errors import Rejected

Path = tuple[str | int, ...]


class InvalidBody(Rejected):
    """A body with a value that its type does not allow.

    Attributes:
      path: The keys and positions that lead to the value.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(dotted(path) or "body", reason)
        self.path = path


def dotted(path: Path) -> str:
    """Write a path as in `items[3].features.price`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key:.80}" for key in path).lstrip(".")


def invalid_body(error: msgspec.DecodeError, content: bytes, kind: Any, packed: bool = False) -> Exception:
    """Return the error to raise for a body that could not be decoded: `InvalidBody`, or `error` if it is not JSON."""
    if not isinstance(error, msgspec.ValidationError):
        return Rejected("body", f"is not MessagePack that can be read: {error}") if packed else error
    with suppress(ValueError, RecursionError):
        plain = msgspec.msgpack.decode(content) if packed else json.loads(content)
        return _located(plain, kind, ()) or InvalidBody((), str(error))
    return InvalidBody((), str(error))


def _located(value: Any, kind: Any, path: Path) -> InvalidBody | None:
    """Return the first innermost part that does not fit its type, None if all fit."""
    struct = _option(kind, lambda option: isinstance(option, type) and issubclass(option, msgspec.Struct))
    for key, part, part_kind in _parts(value, kind, struct):
        if (inner := _located(part, part_kind, (*path, key))) is not None:
            return inner
    if isinstance(value, float) and not math.isfinite(value):
        return InvalidBody(path, "the number is out of range")
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if struct is not None and isinstance(value, dict):
            fields = sorted(struct.__struct_encode_fields__)
            for name in value.keys() - set(fields):
                return InvalidBody(path, f"Object contains unknown field `{name}`; there is {', '.join(fields)}")
        return InvalidBody(path, str(error))
    return None


def _parts(value: Any, kind: Any, struct: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """Yield the parts of a value with their keys and types."""
    container = _option(kind, lambda option: get_origin(option) is type(value))
    if isinstance(value, dict) and struct is not None:
        types = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
        yield from ((key, part, types[key]) for key, part in value.items() if key in types)
    elif container is not None:
        keyed = value.items() if isinstance(value, dict) else enumerate(value)
        yield from ((key, part, get_args(container)[-1]) for key, part in keyed)


def _option(kind: Any, is_meant: Callable[[Any], bool]) -> Any:
    """Return the type itself, or the alternative of a union, that is meant; None where none is."""
    alternatives = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return next(filter(is_meant, alternatives), None)
