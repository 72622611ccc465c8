"""Errors as problem documents (RFC 9457): what was wrong, in which field, and what would be right."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from starlette.responses import Response

from rankloop.core.errors import (
    Conflict,
    IncompatibleFeedback,
    InvalidInput,
    NotFound,
    RankloopError,
    Rejected,
    UnstableUpdate,
)
from rankloop.core.registry import UnknownKind
from rankloop.service import errors

Path = tuple[str | int, ...]
MEDIA = "application/problem+json"
STATUS: tuple[tuple[type[RankloopError], int, str], ...] = (
    (errors.LateFeedback, 410, "late"),
    (errors.TooLarge, 413, "too-large"),
    (errors.WrongMedia, 415, "unsupported-media-type"),
    (errors.TooMany, 429, "too-many-requests"),
    (errors.Unauthorised, 401, "unauthorised"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.StorageFull, 507, "storage-full"),
    (errors.DamagedArchive, 500, "archive-damaged"),
    (errors.Unavailable, 503, "unavailable"),
    (UnknownKind, 422, "invalid-input"),
    (Conflict, 409, "conflict"),
    (NotFound, 404, "not-found"),
    (IncompatibleFeedback, 422, "incompatible-feedback"),
    (UnstableUpdate, 422, "unstable-update"),
    (InvalidInput, 422, "invalid-input"),
)
KINDS = {413: "too-large", 499: "gone", 400: "malformed-json", 405: "method-not-allowed", 500: "internal-error"} | {
    status: kind for _, status, kind in STATUS
}  # of refused calls, by status
FORESEEN = (RankloopError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def problem(status: int, kind: str, detail: str, field: str = "") -> dict[str, Any]:
    """A problem document as plain data."""
    document: dict[str, Any] = {
        "type": f"urn:rankloop:problem:{kind}",
        "title": kind.replace("-", " "),
        "status": status,
        "detail": detail,
    }
    if field:
        document["errors"] = [{"field": field, "reason": detail}]
    return document


def problem_of(error: Exception) -> dict[str, Any]:
    """The document for an error; what nobody foresaw is 500, without a word about the inside."""
    if isinstance(error, msgspec.DecodeError | RecursionError | UnicodeDecodeError):
        return problem(400, "malformed-json", f"the body is not JSON that can be read: {error}", "body")
    for kind, status, name in STATUS:
        if isinstance(error, kind):
            if isinstance(error, Rejected):
                return problem(status, name, error.reason, error.field)
            return problem(status, name, str(error))
    return problem(500, "internal-error", "this is a defect of rankloop; the log of the service says more")


def response_of(document: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    if document["status"] in (429, 503, 507):
        headers = {"Retry-After": "1"}
    if document["status"] == 401:
        headers = {"WWW-Authenticate": "Bearer"}
    return Response(msgspec.json.encode(document), document["status"], headers, MEDIA)


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
