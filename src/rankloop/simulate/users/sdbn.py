"""The dynamic Bayesian network model, simplified unless people lose patience."""

from rankloop.core.checks import check_probability
from rankloop.core.registry import register
from rankloop.simulate.users.click_behaviours import Behaviour, TopDownReader


@register("sdbn")
class Sdbn(TopDownReader):
    """Clicks what attracts, stops when satisfied, and otherwise goes on to the next item with `persistence`.

    Attraction and satisfaction by grade are those of the `behaviour` on the scale 0 … `max_grade` (1, 2 or 4).
    With `persistence` = 1 it is the simplified model, which then coincides with `dcm`; below 1 it is the full one.
    Draws three doubles per position.
    Reference: Chapelle and Zhang (2009), A Dynamic Bayesian Network Click Model for Web Search Ranking.
    """

    behaviour: Behaviour = "navigational"
    persistence: float = 1.0
    max_grade: int = 4
    shown: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_probability("persistence", self.persistence)
