"""What can go wrong, each with a message that says what, where, and what would be right."""


class RankloopError(Exception):
    """The root of every error that rankloop raises on purpose."""


class InvalidInput(RankloopError, ValueError):
    """A value from outside is not what it has to be."""


class Rejected(InvalidInput):
    """A request that cannot be served, with the field that is wrong."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class UnstableUpdate(RankloopError, ArithmeticError):
    """A learning step would leave a non-finite number in the state; the old state stands."""


class IncompatibleFeedback(RankloopError, ValueError):
    """The feedback does not fit the learner or the ranking that was shown."""


class NotFound(RankloopError, LookupError):
    """A name that nobody registered, or a file that is not there."""


class Conflict(RankloopError):
    """Something else already stands under this name."""
