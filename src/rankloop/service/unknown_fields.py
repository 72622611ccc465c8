"""A field that nobody knows is refused together with those that there are."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import msgspec

_UNKNOWN = re.compile(r"(?P<said>Object contains unknown field `.*?`)(?P<rest> - at `\$(?P<place>[^`]*)`)?", re.DOTALL)
_NAME = re.compile(r"\.(\w+)")


def with_known_fields(message: str, body: Any) -> str:
    """What msgspec says of an unknown field, with the fields of that part of the body; any other message as it is."""
    found = _UNKNOWN.fullmatch(message)
    if found is None:
        return message
    struct = _struct_in(body)
    for name in _NAME.findall(found["place"] or ""):
        struct = _struct_in(get_type_hints(struct).get(name)) if struct else None
    if struct is None:
        return message
    return f"{found['said']}; there is {', '.join(sorted(struct.__struct_fields__))}{found['rest'] or ''}"


def _struct_in(annotation: Any) -> Any:
    """The struct of `X`, `X | None` or `list[X]`; None where there is none."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    return next(filter(None, map(_struct_in, get_args(annotation))), None)
