"""How feedback travels: late, lost or twice."""

from typing import Protocol, runtime_checkable

from numpy.random import Generator

from rankloop.core.checks import check_probability
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import category, register


@runtime_checkable
class Delivery(Protocol):
    """Says in which rounds the feedback of round t arrives; takes the same number of doubles every time."""

    def route(self, t: int, rng: Generator) -> tuple[int, ...]: ...


category("delivery", Delivery)


@register("late")
class LateDelivery:
    """A share of the feedback arrives up to `rounds` rounds after it was given, so out of order too."""

    rounds: int = 10
    share: float = 1.0

    def __post_init__(self) -> None:
        check_probability("share", self.share)
        if self.rounds < 0:
            raise InvalidInput(f"rounds counts from 0, got {self.rounds}")

    def route(self, t: int, rng: Generator) -> tuple[int, ...]:
        is_late, how_late = rng.random(2)
        return (t + 1 + int(how_late * self.rounds),) if is_late < self.share and self.rounds else (t,)


@register("lost")
class LostDelivery:
    """A share of the feedback never arrives."""

    share: float = 0.2

    def __post_init__(self) -> None:
        check_probability("share", self.share)

    def route(self, t: int, rng: Generator) -> tuple[int, ...]:
        return () if rng.random() < self.share else (t,)


@register("repeated")
class RepeatedDelivery:
    """A share of the feedback arrives a second time, one round later."""

    share: float = 0.2

    def __post_init__(self) -> None:
        check_probability("share", self.share)

    def route(self, t: int, rng: Generator) -> tuple[int, ...]:
        return (t, t + 1) if rng.random() < self.share else (t,)
