"""Request bodies, read within limits and decoded by msgspec; answers, encoded by it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rankloop.service.bodies import NAME_PATTERN
from rankloop.service.errors import Rejected, TooLarge, WrongMedia
from rankloop.service.unknown_fields import with_known_fields

JSON = "application/json"
FILE = "application/octet-stream"
T = TypeVar("T")
_NAME = re.compile(NAME_PATTERN)
_encode = msgspec.json.Encoder().encode


def decoder(body: type[T]) -> Callable[[bytes], T]:
    """Reads a body; a field that nobody knows is refused with those that there are."""
    decode = msgspec.json.Decoder(body).decode

    def read(content: bytes) -> T:
        try:
            return decode(content)
        except msgspec.ValidationError as error:
            raise msgspec.ValidationError(with_known_fields(str(error), body)) from None

    return read


async def content(request: Request, most: int, wanted: str = JSON) -> bytes:
    """The whole body, or `TooLarge` as soon as it is; without a Content-Type it is read as what is wanted."""
    kind = request.headers.get("content-type", wanted)
    if not kind.lower().startswith(wanted):
        what = "JSON" if wanted == JSON else "the file"
        raise WrongMedia(f"the body is sent as {kind!r:.80}; send {what}, with the header Content-Type: {wanted}")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise TooLarge(f"the body is larger than the limit of {most} bytes")
        parts.append(part)
    return b"".join(parts) if len(parts) != 1 else parts[0]


def json(value: Any, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type=JSON)


def checked_name(name: str) -> str:
    """Letters, digits, dot, dash and underscore: a name that is safe in an address and in a file name."""
    if not _NAME.fullmatch(name):
        raise Rejected("name", "must be 1 to 64 letters, digits, dots, dashes or underscores, and not begin with a dot")
    return name
