"""In which unit people read what a policy earns: one for a whole table."""

from __future__ import annotations

from typing import NamedTuple

from rankloop.evaluation.sums import Sums


class Unit(NamedTuple):
    """A mean reward times `scale`, written with so many `decimals`, is so many of `name`."""

    name: str
    scale: float = 1.0
    decimals: int = 3

    def of(self, value: float) -> str:
        """The number alone."""
        return f"{self.scale * value:.{self.decimals}f}"


PER_PAGE = Unit("per page")
PER_ROW = Unit("per row")
CLICKS = Unit("clicks per 100 rows", 100.0, 2)


def unit_of(current: Sums) -> Unit:
    """Clicks per 100 rows where every reward is 0 or 1, with a decimal more where they are rare; else rewards."""
    clicks = abs(current.current * current.n - current.rewarded) < 0.5 and current.largest_reward <= 1.0
    if not clicks:
        return PER_ROW
    return CLICKS if current.current >= 0.01 else CLICKS._replace(decimals=3)
