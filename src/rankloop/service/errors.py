"""What can go wrong only in a service; each has its HTTP status in `problems`."""

from rankloop.core.errors import RankloopError


class LateFeedback(RankloopError):
    """The window of the impression has closed; nothing is learned from what comes now."""


class TooLarge(RankloopError):
    """More bytes or items than the limits allow."""


class WrongMedia(RankloopError):
    """A body that is said to be something other than JSON."""


class TooMany(RankloopError):
    """More requests per second than the limits allow."""


class Unauthorised(RankloopError):
    """No key, or one that nobody gave out."""


class Forbidden(RankloopError):
    """A key whose role does not cover this call."""


class DamagedArchive(RankloopError):
    """A file of the archive is missing or is not what was written."""


class Unavailable(RankloopError):
    """The log cannot be written now; nothing of the request was kept."""


class StorageFull(Unavailable):
    """The disk of the log is full; nothing of the request was kept."""


class Superseded(Unavailable):
    """Another process learns by now; nothing of what this one wanted to write was kept."""
