"""Users who follow a click model with published numbers by grade."""

from functools import cached_property

import numpy as np

from rankloop.click_models.base import ClickModel
from rankloop.click_models.cascade import CascadeModel, DependentClickModel
from rankloop.click_models.dbn import DbnModel
from rankloop.click_models.pbm import PositionBasedModel
from rankloop.click_models.ubm import UserBrowsingModel
from rankloop.core.checks import check_not_negative, check_probability
from rankloop.core.registry import register
from rankloop.core.types import Floats
from rankloop.simulate.users.click_behaviours import CLICK, STOP, Behaviour, GradedClicks, seen_positions

# Row p: the probability of examining position p with no click above, then with the last click 1, 2 … positions above.
# As published for the first ten positions.
_EXAMINED = (
    (1.0,),
    (1.0, 0.98),
    (0.95, 1.0, 0.62),
    (0.82, 1.0, 0.77, 0.42),
    (0.69, 1.0, 0.92, 0.55, 0.31),
    (0.54, 1.0, 0.96, 0.63, 0.4, 0.22),
    (0.47, 1.0, 0.99, 0.73, 0.46, 0.29, 0.17),
    (0.43, 1.0, 1.0, 0.89, 0.52, 0.35, 0.24, 0.14),
    (0.41, 1.0, 1.0, 0.95, 0.68, 0.4, 0.29, 0.19, 0.12),
    (0.43, 1.0, 1.0, 1.0, 0.96, 0.52, 0.36, 0.27, 0.18, 0.12),
)
EXAMINED = np.array([[*row, *[0.0] * (len(_EXAMINED) - len(row))] for row in _EXAMINED])


@register("position_based")
class PositionBased(GradedClicks):
    """P(click at position p) = (1 / (p + 1))^`severity` · P(click | examined, grade), each position for itself.

    The second factor is that of the `behaviour` on the scale 0 … `max_grade` (1, 2 or 4). `severity` = 0 is no
    position bias. Draws one double per position. Use it where `propensities` must be known, as for inverse weighting.
    References: Richardson, Dominowska and Ragno (2007), Predicting Clicks; Joachims, Swaminathan and Schnabel (2017),
    Unbiased Learning-to-Rank with Biased Feedback.
    """

    behaviour: Behaviour = "navigational"
    severity: float = 1.0
    max_grade: int = 4
    shown: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("severity", self.severity)

    @cached_property
    def model(self) -> ClickModel:
        """Examination by position; attraction by grade."""
        examined = self.propensities(self.shown)[:, None]
        return PositionBasedModel(attraction=CLICK[self.behaviour, self.max_grade], examination=examined)

    def propensities(self, n_items: int) -> Floats:
        """The probability that each position is examined."""
        examined = np.power(1.0 / np.arange(1.0, n_items + 1.0), self.severity, dtype=np.float64)
        examined[seen_positions(self.shown, n_items) :] = 0.0
        return examined


@register("ubm")
class Ubm(GradedClicks):
    """P(click at position p) = P(examined | p, distance to the last click above) · P(click | examined, grade).

    The first factor is the published table, the second that of the `behaviour` on the scale 0 … `max_grade` (1, 2 or
    4). Draws one double per position. Use it for people who skip: a click makes the next positions likelier to be seen.
    Reference: Dupret and Piwowarski (2008), A User Browsing Model to Predict Search Engine Click Data from Past
    Observations.
    """

    behaviour: Behaviour = "navigational"
    max_grade: int = 4
    shown: int = 10

    @cached_property
    def model(self) -> ClickModel:
        """Examination as published; attraction by grade."""
        return UserBrowsingModel(attraction=CLICK[self.behaviour, self.max_grade], examination=EXAMINED)


@register("cascade")
class Cascade(GradedClicks):
    """Examines the items from the top, clicks the first that attracts, and stops: at most one click.

    P(click | examined, grade) is that of the `behaviour` on the scale 0 … `max_grade` (1, 2 or 4).
    Draws three doubles per position. Use it for searches that one item satisfies.
    Reference: Craswell, Zoeter, Taylor and Ramsey (2008), An Experimental Comparison of Click Position-Bias Models.
    """

    behaviour: Behaviour = "navigational"
    max_grade: int = 4
    shown: int = 10

    @cached_property
    def model(self) -> ClickModel:
        """Attraction by grade."""
        return CascadeModel(attraction=CLICK[self.behaviour, self.max_grade])


@register("dcm")
class Dcm(GradedClicks):
    """Examines the items from the top and clicks what attracts; after each click stops with a probability.

    P(click | examined, grade) and P(stop | clicked, grade) are those of the `behaviour` on the scale 0 …
    `max_grade` (1, 2 or 4): "perfect" reads on and clicks by grade, "navigational" looks for one very good item,
    "informational" clicks a lot. The standard people of online learning to rank. Draws three doubles per position.
    References: Guo, Liu and Wang (2009), Efficient Multiple-Click Models in Web Search, with stopping by grade as in
    Hofmann, Whiteson and de Rijke (2011), A Probabilistic Method for Inferring Preferences from Clicks.
    """

    behaviour: Behaviour = "navigational"
    max_grade: int = 4
    shown: int = 10

    @cached_property
    def model(self) -> ClickModel:
        """Attraction and stopping by grade."""
        key = self.behaviour, self.max_grade
        return DependentClickModel(attraction=CLICK[key], satisfaction=STOP[key])


@register("sdbn")
class Sdbn(GradedClicks):
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

    @cached_property
    def model(self) -> ClickModel:
        """Attraction and satisfaction by grade."""
        key = self.behaviour, self.max_grade
        return DbnModel(attraction=CLICK[key], satisfaction=STOP[key], persistence=self.persistence)
