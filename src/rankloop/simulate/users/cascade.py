"""The cascade model: people read from the top until their first click."""

import numpy as np

from rankloop.core.registry import register
from rankloop.core.types import Floats
from rankloop.simulate.users.click_behaviours import Behaviour, TopDownReader

ALWAYS = np.ones(1)


@register("cascade")
class Cascade(TopDownReader):
    """Examines the items from the top, clicks the first that attracts, and stops: at most one click.

    P(click | examined, grade) is that of the `behaviour` on the scale 0 … `max_grade` (1, 2 or 4).
    Draws three doubles per position. Use it for searches that one item satisfies.
    Reference: Craswell, Zoeter, Taylor and Ramsey (2008), An Experimental Comparison of Click Position-Bias Models.
    """

    behaviour: Behaviour = "navigational"
    max_grade: int = 4
    shown: int = 10

    @property
    def _stop(self) -> Floats:
        return ALWAYS
