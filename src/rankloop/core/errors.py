"""The errors that rankloop raises on purpose."""

from collections.abc import Iterator
from contextlib import contextmanager


class RankloopError(Exception):
    """The base class of rankloop's errors."""


class InvalidInput(RankloopError, ValueError):
    """A value from outside is wrong."""


class Rejected(InvalidInput):
    """A request with a wrong field, which `field` names."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


@contextmanager
def rejected_as(field: str) -> Iterator[None]:
    """Raise `Rejected`, which names this field of the request or its `part`, for what the block finds to be invalid."""
    try:
        yield
    except InvalidInput as error:
        raise Rejected(".".join(filter(None, (field, getattr(error, "part", "")))), str(error)) from None


class UnstableUpdate(RankloopError, ArithmeticError):
    """An update would make the state non-finite; the state stays as it was."""


class IncompatibleFeedback(RankloopError, ValueError):
    """The feedback does not fit the learner or the ranking that was shown."""


class NotFound(RankloopError, LookupError):
    """A name that is not registered, or a file that does not exist."""


class Conflict(RankloopError):
    """Something else has this name already."""
