"""Users who follow a click model with published numbers by grade, which stand with their sources in a file beside."""

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from rankloop.click_models.base import ClickParameters, draw_clicks
from rankloop.core.checks import NotNegative, Probability, check_at_least
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints

Behaviour = Literal["perfect", "navigational", "informational"]

PUBLISHED_NUMBERS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CLICK_PROBABILITIES, STOP_PROBABILITIES = (
    {(name, int(scale)): np.array(row) for name, rows in PUBLISHED_NUMBERS[part].items() for scale, row in rows.items()}
    for part in ("click", "stop")
)
# Row p: the probability of examining position p with no click above, then with the last click 1, 2 … positions above.
_ROWS = PUBLISHED_NUMBERS["examination"]["rows"]
EXAMINATION_TABLE = np.array([row + [0.0] * (len(_ROWS) - len(row)) for row in _ROWS])
N_DRAWS = 3  # The doubles for each position, of users who may stop.


@kernel
def clicks_at(ranking: Ints, clicked: Ints) -> tuple[Ints, Floats]:
    """Return the items in the positions where `clicked` is not 0, in shown order, each with weight 1.

    Args:
      ranking: The ranking.
      clicked: A number for each position.
    """
    items, n_clicks = np.empty(len(clicked), np.int64), 0
    for position in range(len(clicked)):
        if clicked[position] != 0:
            items[n_clicks] = ranking[position]
            n_clicks += 1
    return items[:n_clicks].copy(), np.ones(n_clicks)


@kernel
def _clicks_by_grade(
    attraction: Floats,
    satisfaction: Floats,
    examination: Floats,
    stop: Floats,
    persistence: float,
    ranking: Ints,
    relevance: Floats,
    draws: Floats,
) -> tuple[Ints, Floats]:
    """Draw the clicks of users for whom items of a grade are alike; grades beyond the scale count as its ends."""
    # The numbers are passed one by one, because a tuple of them costs 2 µs per call.
    grades = np.empty(draws.shape[1], np.int64)
    for position in range(len(grades)):
        grade = int(relevance[ranking[position]])
        grades[position] = max(0, min(grade, len(attraction) - 1))
    parameters = ClickParameters(attraction, satisfaction, examination, stop, persistence)
    return clicks_at(ranking, draw_clicks(parameters, grades, draws))


@dataclass(frozen=True, kw_only=True)
class GradedClicks:
    """Users who click by the grade of the items that they examine.

    Args:
      behaviour: The published click probabilities by grade.
      max_grade: The largest grade of the scale: 1, 2 or 4.
      shown: The number of positions that are seen.
    """

    behaviour: Behaviour = "navigational"
    max_grade: int = 4
    shown: int = 10
    depth: ClassVar[int | None] = None
    stops: ClassVar[bool] = True  # they may stop after a click

    def __post_init__(self) -> None:
        scales = sorted({scale for _, scale in CLICK_PROBABILITIES})
        if self.max_grade not in scales:
            raise InvalidInput(f"max_grade = {self.max_grade}: published behaviours have grades up to {scales}")
        check_at_least(1, shown=self.shown)

    def _numbers(self) -> dict[str, Any]:
        """Return the numbers of the click model that are not neutral, its pairs being the grades."""
        raise NotImplementedError

    @cached_property
    def _parameters(self) -> ClickParameters:
        attraction = CLICK_PROBABILITIES[self.behaviour, self.max_grade]
        neutral = ClickParameters(attraction, np.zeros(len(attraction)), np.ones((1, 1)), np.zeros(1), 1.0)
        return neutral._replace(**self._numbers())

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        draws = rng.random((N_DRAWS if self.stops else 1, len(ranking[: self.shown])))
        attraction, satisfaction, examination, stop, persistence = self._parameters
        items, weights = _clicks_by_grade(
            attraction, satisfaction, examination, stop, persistence, ranking, relevance, draws
        )
        return Clicks(items, weights)


@register("position_based")
class PositionBased(GradedClicks):
    """Users of the position-based model: P(click at p) = (1 / (p + 1))^`severity` · P(click | examined, grade).

    Draws one double per position. Use it when `propensities` must be known, as for inverse propensity weighting.

    Args:
      severity: The strength of the position bias; 0 is none.

    References:
      Richardson, Dominowska and Ragno (2007), Predicting Clicks. Joachims, Swaminathan and Schnabel (2017), Unbiased
      Learning-to-Rank with Biased Feedback.
    """

    severity: NotNegative = 1.0

    stops: ClassVar[bool] = False

    def _numbers(self) -> dict[str, Any]:
        return {"examination": self.propensities(self.shown)[:, None]}

    def propensities(self, n_items: int) -> Floats:
        """Return the probability that each position is examined."""
        examined = np.power(1.0 / np.arange(1.0, n_items + 1.0), self.severity, dtype=np.float64)
        examined[self.shown :] = 0.0
        return examined


@register("ubm")
class Ubm(GradedClicks):
    """Users of the user browsing model: examination depends on the position and the distance to the last click above.

    P(click at p) = P(examined | p, distance) · P(click | examined, grade), the first factor as published. Draws one
    double per position. Use it for users who skip: a click makes the next positions likelier to be examined.

    References:
      Dupret and Piwowarski (2008), A User Browsing Model to Predict Search Engine Click Data from Past Observations.
    """

    stops: ClassVar[bool] = False

    def _numbers(self) -> dict[str, Any]:
        return {"examination": EXAMINATION_TABLE}


@register("cascade")
class Cascade(GradedClicks):
    """Users of the cascade model: they examine from the top, click the first item that attracts, and stop.

    P(click | examined, grade) is that of the `behaviour`. Draws three doubles per position. Use it for searches that
    one item satisfies.

    References:
      Craswell, Zoeter, Taylor and Ramsey (2008), An Experimental Comparison of Click Position-Bias Models.
    """

    def _numbers(self) -> dict[str, Any]:
        return {"stop": np.ones(1)}


@register("dcm")
class Dcm(GradedClicks):
    """Users of the dependent click model: they click what attracts from the top, and may stop after each click.

    P(click | examined, grade) and P(stop | clicked, grade) are those of the `behaviour`: "perfect" users click by grade
    and read on, "navigational" ones look for one very good item, "informational" ones click a lot. These are the
    standard users of online learning to rank. Draws three doubles per position.

    References:
      Guo, Liu and Wang (2009), Efficient Multiple-Click Models in Web Search, with stopping by grade as in Hofmann,
      Whiteson and de Rijke (2011), A Probabilistic Method for Inferring Preferences from Clicks.
    """

    def _numbers(self) -> dict[str, Any]:
        return {"satisfaction": STOP_PROBABILITIES[self.behaviour, self.max_grade]}


@register("sdbn")
class Sdbn(GradedClicks):
    """Users of the dynamic Bayesian network: they stop when satisfied, and otherwise go on with `persistence`.

    Attraction and satisfaction by grade are those of the `behaviour`. With `persistence` = 1 it is the simplified
    model, which then coincides with `dcm`; below 1 it is the full one. Draws three doubles per position.

    Args:
      persistence: The probability of going on to the next item.

    References:
      Chapelle and Zhang (2009), A Dynamic Bayesian Network Click Model for Web Search Ranking.
    """

    persistence: Probability = 1.0

    def _numbers(self) -> dict[str, Any]:
        return {"satisfaction": STOP_PROBABILITIES[self.behaviour, self.max_grade], "persistence": self.persistence}
