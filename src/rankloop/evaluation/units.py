"""In which unit people read what a policy earns: one for a whole table."""

from __future__ import annotations

import re
from typing import NamedTuple

from rankloop.evaluation.sums import Sums


class Unit(NamedTuple):
    """A mean reward times `scale`, written with so many `decimals`, is so many of `name`; `each` is what is counted."""

    name: str
    scale: float = 1.0
    decimals: int = 3
    each: str = "row"

    def of(self, value: float) -> str:
        """The number alone."""
        return f"{self.scale * value:.{self.decimals}f}"

    def told(self, text: str) -> str:
        """A sentence about rows in the words of this unit."""
        return re.sub(r"\brow(s?)\b", rf"{self.each}\1", text)


PER_PAGE = Unit("per page", each="page")
PER_ROW = Unit("per row")
CLICKS = Unit("clicks per 100 rows", 100.0, 2)


def unit_of(current: Sums) -> Unit:
    """Clicks per 100 rows where every reward is 0 or 1, with a decimal more where they are rare; else rewards."""
    clicks = abs(current.current * current.n - current.rewarded) < 0.5 and current.extremes.largest <= 1.0
    if not clicks:
        return PER_ROW
    return CLICKS if current.current >= 0.01 else CLICKS._replace(decimals=3)
