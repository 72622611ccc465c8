"""Errors as problem documents (RFC 9457): what was wrong, in which field, and what would be right."""

from collections.abc import Mapping
from typing import Any

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
from rankloop.service.errors import (
    DamagedArchive,
    Forbidden,
    LateFeedback,
    StorageFull,
    TooLarge,
    TooMany,
    Unauthorised,
    Unavailable,
    WrongMedia,
)

MEDIA = "application/problem+json"
STATUS: tuple[tuple[type[RankloopError], int, str], ...] = (
    (LateFeedback, 410, "late"),
    (TooLarge, 413, "too-large"),
    (WrongMedia, 415, "unsupported-media-type"),
    (TooMany, 429, "too-many-requests"),
    (Unauthorised, 401, "unauthorised"),
    (Forbidden, 403, "forbidden"),
    (StorageFull, 507, "storage-full"),
    (DamagedArchive, 500, "archive-damaged"),
    (Unavailable, 503, "unavailable"),
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
