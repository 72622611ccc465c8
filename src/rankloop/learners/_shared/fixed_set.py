"""A fixed set of items: checks of the problem, the measures that can be learned, and base classes.

Such a measure is linear in the gains of the items: measure(ranking, relevance) = ± Σ_p worth(p) · gain(grade at p), so
the best fixed ranking sorts by summed gains.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.checks import PositiveCount
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discounts, exponential_gain, kernel, ranking_of
from rankloop.core.learner import expect, require_finite
from rankloop.core.protocols import Measure
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.measures.kinds import DCG, Precision, SumLoss

GAIN_IS_GRADE, GAIN_IS_EXPONENTIAL, GAIN_IS_CAPPED = 0, 1, 2  # how a gain follows from a grade


class GainForm(NamedTuple):
    """The gain of a grade, for kernels.

    With above = max(grade − start, 0) it is above, 2^above − 1 or min(above, 1), by the form.
    """

    form: int
    start: float


@kernel
def gain_of(grade: float, form: int, start: float) -> float:
    """Return the gain of a grade.

    Args:
      grade: The grade.
      form: The form of a `GainForm`.
      start: The largest grade without a gain.
    """
    above = grade - start
    if above <= 0.0:
        return 0.0
    if form == GAIN_IS_GRADE or above == 1.0:
        return above
    return exponential_gain(above) if form == GAIN_IS_EXPONENTIAL else min(above, 1.0)


@kernel
def with_gains(totals: Floats, items: Ints, grades: Floats, form: int, start: float) -> Floats:
    """Return the summed gains after a round.

    Args:
      totals: The summed gain of each item.
      items: The graded items.
      grades: Their grades.
      form: The form of a `GainForm`.
      start: The largest grade without a gain.
    """
    new = totals.copy()
    for i in range(len(items)):
        new[items[i]] += gain_of(grades[i], form, start)
    return new


def gain_for(measure: Measure) -> GainForm:
    """Return the form in which a measure turns a grade into a gain."""
    # [grade ≥ relevant_from] of a precision becomes min(grade − relevant_from + 1, 1), which is equal for integral
    # grades, so that the mean of several grades has a grade with that gain.
    if isinstance(measure, DCG):
        return GainForm(GAIN_IS_EXPONENTIAL if measure.gain == "exponential" else GAIN_IS_GRADE, 0.0)
    if isinstance(measure, SumLoss):
        return GainForm(GAIN_IS_GRADE, 0.0)
    if isinstance(measure, Precision) and measure.cutoff is not None:
        return GainForm(GAIN_IS_CAPPED, math.ceil(measure.relevant_from) - 1.0)
    others = "DCG, SumLoss and P@n are, and PairwiseLoss has the same regret as SumLoss when grades are 0 and 1"
    raise InvalidInput(f"{measure} is not a sum over positions of a weight times the item's own gain; {others}")


def worth_of_positions(measure: Measure, n_items: int) -> Floats:
    """Return the worth of a unit of gain at each position, descending; losses are negative.

    Args:
      measure: A measure that is linear in gains.
      n_items: The number of positions.
    """
    if isinstance(measure, SumLoss):
        return -np.arange(1.0, n_items + 1.0)
    if isinstance(measure, DCG):
        return discounts(n_items, measure.cutoff)
    gain_for(measure)  # refuses any but a precision with a cutoff
    cutoff: int = measure.cutoff  # type: ignore[attr-defined]
    return np.where(np.arange(n_items) < cutoff, 1.0 / cutoff, 0.0)


def largest_gain(measure: Measure, problem: Problem) -> float:
    """Return the gain of the best grade; 1 if every grade is 0, so that it can be divided by.

    Args:
      measure: A measure that is linear in gains.
      problem: The problem, which has the largest grade.
    """
    gain = gain_for(measure)
    largest = float(gain_of(float(problem.max_grade), gain.form, gain.start))
    if not math.isfinite(largest):
        raise InvalidInput(f"max_grade = {problem.max_grade} is too large for the gain 2^grade − 1; use gain='linear'")
    return largest or 1.0


def size_of_fixed_set(problem: Problem) -> int:
    """Return the number of items, or raise `InvalidInput` if it differs from query to query."""
    if problem.n_items is None:
        raise InvalidInput("this learner ranks a fixed set of items: set n_items in the problem")
    return problem.n_items


def require_all_grades(problem: Problem) -> int:
    """Return the number of items, or raise `InvalidInput` if only the first of them are graded."""
    n_items = size_of_fixed_set(problem)
    if problem.depth is not None and problem.depth < n_items:
        needed = f"this learner needs the grades of all {n_items} items every round"
        raise InvalidInput(f"{needed}, the problem reveals the first {problem.depth}: put it inside rtopk")
    return n_items


def graded_depth(problem: Problem) -> int:
    """Return the number of first items that are graded, or raise `InvalidInput` if there is none."""
    n_items = size_of_fixed_set(problem)
    depth = n_items if problem.depth is None else min(problem.depth, n_items)
    if depth < 1:
        raise InvalidInput(f"depth = {depth}: nothing can be learned unless at least the first item is graded")
    return depth


class AnytimeLearner:
    """A learner with a parameter that the theory sets by the `horizon`; without one it follows √t in round t."""

    horizon: PositiveCount | None

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ()
    tuned: ClassVar[str]  # the name of that parameter, None unless given

    @functools.cached_property
    def _anytime(self) -> bool:
        return self.horizon is None and getattr(self, self.tuned) is None

    def _root(self, state: Any) -> float:
        """Return √t of the next round, or 1 if the parameter is constant."""
        return math.sqrt(state.rounds + 1) if self._anytime else 1.0

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        return math.nan


@dataclass(frozen=True, kw_only=True)
class SummedGains(AnytimeLearner):
    """A learner from the summed gains of a linear `measure`; its state begins with `totals` and `rounds`."""

    horizon: PositiveCount | None = None
    measure: Measure = DCG()  # noqa: RUF009  frozen

    def __post_init__(self) -> None:
        gain_for(self.measure)

    @functools.cached_property
    def _gain(self) -> GainForm:
        return gain_for(self.measure)

    def learn(self, state: Any, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> Any:
        items, grades = expect(feedback, Relevances)
        totals = with_gains(state.totals, items, grades, self._gain.form, self._gain.start)
        return state._replace(totals=require_finite(totals), rounds=state.rounds + 1)

    def predict(self, state: Any, query: Query) -> Ints:
        return ranking_of(state.totals)
