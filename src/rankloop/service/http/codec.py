"""Request bodies, read within limits and decoded by msgspec; answers, encoded by it; names, checked."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from json import loads
from math import isfinite
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rankloop.core.errors import Rejected
from rankloop.service.errors import TooLarge, WrongMedia
from rankloop.service.requests import NAME_PATTERN

_UNKNOWN = re.compile(r"(?P<said>Object contains unknown field `.*?`)(?P<rest> - at `\$(?P<field>[^`]*)`)?", re.DOTALL)
_NUMBER = re.compile(
    r"(?P<said>.*) - at `\$(?P<where>(\.requests\[\d+\])?\.items\[(?P<item>\d+)\]\.features)"
    r"\[(?P<column>\d+|\.\.\.)\]`",
    re.DOTALL,
)
_PART = re.compile(r"\.(\w+)")


def with_known_fields(message: str, body: Any) -> str:
    """What msgspec says of an unknown field, with the fields of that part of the body; any other message as it is."""
    found = _UNKNOWN.fullmatch(message)
    if found is None:
        return message
    struct = _struct_in(body)
    for name in _PART.findall(found["field"] or ""):
        struct = _struct_in(get_type_hints(struct).get(name)) if struct else None
    if struct is None:
        return message
    return f"{found['said']}; there is {', '.join(sorted(struct.__struct_fields__))}{found['rest'] or ''}"


def _struct_in(annotation: Any) -> Any:
    """The struct of `X`, `X | None` or `list[X]`; None where there is none."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    return next(filter(None, map(_struct_in, get_args(annotation))), None)


def with_feature_name(message: str, content: bytes, names: Sequence[str]) -> str:
    """What msgspec says of a wrong number, with the name of the feature; any other message as it is."""
    found = _NUMBER.fullmatch(message)
    if found is None:
        return message
    column, where = found["column"], f"{found['where']}[{found['column']}]"
    if column.isdigit():
        name = names[int(column)] if int(column) < len(names) else None
    else:
        name = _beyond(content, int(found["item"]))
        where = f"{found['where']}.{name}"
    return f"the feature {name!r:.80}: {found['said']} - at `${where}`" if name is not None else message


def _beyond(content: bytes, item: int) -> str | None:
    """The feature of an item, by name, whose number is too large."""
    with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        for name, value in loads(content)["items"][item]["features"].items():
            if isinstance(value, float) and not isfinite(value):
                return str(name)
    return None


JSON = "application/json"
MSGPACK = "application/msgpack"
FILE = "application/octet-stream"
T = TypeVar("T")
_NAME = re.compile(NAME_PATTERN)
_encode = msgspec.json.Encoder().encode


def decoder(body: type[T], packed: bool = False) -> Callable[[bytes], T]:
    """Reads a body, `packed` from MessagePack; a field that nobody knows is refused with those that there are."""
    decode: Callable[[bytes], T] = (msgspec.msgpack if packed else msgspec.json).Decoder(body).decode

    def read(content: bytes) -> T:
        try:
            return decode(content)
        except msgspec.ValidationError as error:
            raise msgspec.ValidationError(with_known_fields(str(error), body)) from None
        except msgspec.DecodeError as error:
            if packed:
                raise Rejected("body", f"is not MessagePack that can be read: {error}") from None
            raise

    return read


async def content(request: Request, max_bytes: int, wanted: str = JSON) -> bytes:
    """The whole body, or `TooLarge` as soon as it is; without a Content-Type it is read as what is wanted."""
    kind = request.headers.get("content-type", wanted)
    if not kind.lower().startswith(wanted):
        what = {JSON: "JSON", MSGPACK: "MessagePack"}.get(wanted, "the file")
        raise WrongMedia(f"the body is sent as {kind!r:.80}; send {what}, with the header Content-Type: {wanted}")
    parts, size, more = [], 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size > max_bytes:
            raise TooLarge(f"the body is larger than the limit of {max_bytes} bytes")
        parts.append(part)
    return b"".join(parts) if len(parts) != 1 else parts[0]


class JsonAnswer(Response):
    """An answer whose headers are known: what Starlette finds out of each."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self.body, self.status_code, self.background = body, status, None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON.encode())]


def json(value: Any, status: int = 200) -> Response:
    return JsonAnswer(_encode(value), status)


def checked_name(name: str) -> str:
    """Letters, digits, dot, dash and underscore: a name that is safe in an address and in a file name."""
    if not _NAME.fullmatch(name):
        raise Rejected("name", "must be 1 to 64 letters, digits, dots, dashes or underscores, and not begin with a dot")
    return name
