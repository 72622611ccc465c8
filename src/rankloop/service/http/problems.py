"""Errors as problem documents (RFC 9457), with the field that is wrong."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from starlette.responses import Response

from rankloop.core import errors as core_errors
from rankloop.core.errors import RankloopError, Rejected
from rankloop.core.extras import MissingExtra
from rankloop.core.registry import UnknownKind
from rankloop.service import errors

Path = tuple[str | int, ...]
PROBLEM_MEDIA = "application/problem+json"
STATUS_BY_ERROR: tuple[tuple[type[RankloopError], int, str], ...] = (
    (errors.LateFeedback, 410, "late"),
    (errors.TooLarge, 413, "too-large"),
    (errors.WrongMedia, 415, "unsupported-media-type"),
    (errors.TooMany, 429, "too-many-requests"),
    (errors.Unauthorised, 401, "unauthorised"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.StorageFull, 507, "storage-full"),
    (errors.Unavailable, 503, "unavailable"),
    (UnknownKind, 422, "invalid-input"),
    (core_errors.Conflict, 409, "conflict"),
    (core_errors.NotFound, 404, "not-found"),
    (core_errors.IncompatibleFeedback, 422, "incompatible-feedback"),
    (core_errors.UnstableUpdate, 422, "unstable-update"),
    (core_errors.InvalidInput, 422, "invalid-input"),
    (MissingExtra, 501, "not-installed"),
)
PROBLEM_KINDS = {
    413: "too-large",
    499: "disconnected",
    400: "malformed-json",
    405: "method-not-allowed",
    500: "internal-error",
} | {status: kind for _, status, kind in STATUS_BY_ERROR}  # of failed calls, by status
EXPECTED_ERRORS = (RankloopError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


class WrongField(msgspec.Struct):
    """A field of a request that is wrong, and why."""

    field: str
    reason: str


class ProblemDocument(msgspec.Struct, omit_defaults=True):
    """The problem document of a refused request."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[WrongField] = []

    @classmethod
    def of(cls, status: int, kind: str, detail: str, field: str = "") -> "ProblemDocument":
        """Return the document of a kind, the last part of its type; `field` is the one that is wrong, if any."""
        errors = [WrongField(field, detail)] if field else []
        return cls(f"urn:rankloop:problem:{kind}", kind.replace("-", " "), status, detail, errors)


def problem_of(error: Exception) -> ProblemDocument:
    """Return the problem document of an error; an unexpected error is 500, without internal details."""
    if isinstance(error, msgspec.DecodeError | RecursionError | UnicodeDecodeError):
        return ProblemDocument.of(400, "malformed-json", f"the body is not valid JSON: {error}", "body")
    for kind, status, name in STATUS_BY_ERROR:
        if isinstance(error, kind):
            if isinstance(error, Rejected):
                return ProblemDocument.of(status, name, error.reason, error.field)
            return ProblemDocument.of(status, name, str(error))
    detail = "an unexpected error, which is a defect of rankloop; the log of the service has the details"
    return ProblemDocument.of(500, "internal-error", detail)


def response_of(document: ProblemDocument, **more: Any) -> Response:
    """Return the response of a problem document, perhaps with more fields."""
    headers = {"Retry-After": "1"} if document.status in (429, 503, 507) else {}
    headers |= {"WWW-Authenticate": "Bearer"} if document.status == 401 else {}
    return Response(msgspec.json.encode(msgspec.to_builtins(document) | more), document.status, headers, PROBLEM_MEDIA)


class InvalidBody(Rejected):
    """A body with a value that its type does not allow, as at `items[3].features.price`."""

    def __init__(self, path: Path, reason: str) -> None:
        dotted = "".join(f"[{key}]" if isinstance(key, int) else f".{key:.80}" for key in path).lstrip(".")
        super().__init__(dotted or "body", reason)
        self.path = path  # the keys and positions that lead to the value

    @classmethod
    def of(cls, error: msgspec.DecodeError, content: bytes, kind: Any) -> Exception:
        """Return the error with the path to the wrong value of a body; `error` itself if the body is not JSON."""
        if not isinstance(error, msgspec.ValidationError):
            return error
        with suppress(ValueError, RecursionError):
            return _located(json.loads(content), kind, ()) or cls((), str(error))
        return cls((), str(error))


def _located(value: Any, kind: Any, path: Path) -> InvalidBody | None:
    """Return the error of the first innermost part that does not fit its type; None if all fit."""
    struct = _option(kind, lambda option: isinstance(option, type) and issubclass(option, msgspec.Struct))
    for key, part, part_kind in _parts(value, kind, struct):
        if (inner := _located(part, part_kind, (*path, key))) is not None:
            return inner
    if isinstance(value, float) and not math.isfinite(value):
        return InvalidBody(path, "the number is too large")
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if struct is not None and isinstance(value, dict):
            fields = sorted(struct.__struct_encode_fields__)
            for name in value.keys() - set(fields):
                return InvalidBody(path, f"unknown field `{name}`; the fields are {', '.join(fields)}")
        return InvalidBody(path, str(error).replace(" - at `key` in `$`", " as a name"))
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


def _option(kind: Any, condition: Callable[[Any], bool]) -> Any:
    """Return the type, or the alternative of a union, that satisfies a condition; None if there is none."""
    alternatives = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    unlimited = (get_args(each)[0] if get_origin(each) is Annotated else each for each in alternatives)
    return next(filter(condition, unlimited), None)
