"""Errors that only a service raises; `http.problems` maps each to its HTTP status."""

from rankloop.core.errors import RankloopError


class LateFeedback(RankloopError):
    """The impression has closed; nothing is learned from the feedback."""


class TooLarge(RankloopError):
    """The request has more bytes or items than the limits allow."""


class WrongMedia(RankloopError):
    """The body has a media type that the endpoint does not accept."""


class TooMany(RankloopError):
    """The client sends more requests per second than the limits allow."""


class Unauthorised(RankloopError):
    """The request has no key, or an unknown one."""


class Forbidden(RankloopError):
    """The key does not allow this call."""


class Unavailable(RankloopError):
    """The log cannot be written now; nothing of the request was stored."""


class StorageFull(Unavailable):
    """The disk of the log is full; nothing of the request was stored."""


class Superseded(Unavailable):
    """Another process holds the lease now; nothing of what this one tried to write was stored."""
