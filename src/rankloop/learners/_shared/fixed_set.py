"""A fixed set of items: what its learners ask of the problem, the measures that they can learn, and their common part.

Such a measure is linear in the gains of the items: measure(ranking, relevance) = ± Σ_p worth(p) · gain(grade at p), so
the best fixed ranking sorts by summed gains.
"""

import functools
import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.checks import check_at_least, check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discounts, exponential_gain, kernel, ranking_of
from rankloop.core.learner import expect, require_finite
from rankloop.core.protocols import Measure
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.measures.auc_and_losses import SumLoss
from rankloop.measures.dcg import DCG
from rankloop.measures.precision import Precision

GRADE, EXPONENTIAL, CAPPED = 0, 1, 2  # how a gain follows from a grade


class GainForm(NamedTuple):
    """gain(grade), for kernels: above = max(grade − start, 0), then itself, 2^above − 1, or at most 1."""

    form: int
    start: float


@kernel
def gain_of(grade: float, form: int, start: float) -> float:
    above = grade - start
    if above <= 0.0:
        return 0.0
    if form == GRADE or above == 1.0:
        return above
    return exponential_gain(above) if form == EXPONENTIAL else min(above, 1.0)


@kernel
def with_gains(totals: Floats, items: Ints, grades: Floats, form: int, start: float) -> Floats:
    """The totals after these items were graded."""
    new = totals.copy()
    for i in range(len(items)):
        new[items[i]] += gain_of(grades[i], form, start)
    return new


@kernel
def grades_with(gains: Floats, form: int, start: float) -> Floats:
    """The grades whose gains these are: the mean of 2^r − 1 is not 2^mean − 1."""
    above = np.log2(1.0 + gains) if form == EXPONENTIAL else gains
    return above + start


def gain_for(measure: Measure) -> GainForm:
    """How this measure turns a grade into a gain; `InvalidInput` where it is not linear in gains.

    Precision's [grade ≥ relevant_from] becomes min(grade − relevant_from + 1, 1), the same for whole grades, so that
    the mean of several grades still has a grade with that gain.
    """
    if isinstance(measure, DCG):
        return GainForm(EXPONENTIAL if measure.gain == "exponential" else GRADE, 0.0)
    if isinstance(measure, SumLoss):
        return GainForm(GRADE, 0.0)
    if isinstance(measure, Precision) and measure.cutoff is not None:
        return GainForm(CAPPED, math.ceil(measure.relevant_from) - 1.0)
    raise InvalidInput(
        f"{measure} is not a sum over positions of a weight times the item's own gain; DCG, SumLoss and P@n are, and "
        "PairwiseLoss has the same regret as SumLoss when grades are 0 and 1"
    )


def worth_of_positions(measure: Measure, n_items: int) -> Floats:
    """What one unit of gain is worth at each position, descending; losses count with a minus sign."""
    gain_for(measure)
    if isinstance(measure, SumLoss):
        return -np.arange(1.0, n_items + 1.0)
    if isinstance(measure, DCG):
        return discounts(n_items, measure.cutoff)
    cutoff: int = measure.cutoff  # type: ignore[attr-defined]  # gain_for has refused a precision without one
    return np.where(np.arange(n_items) < cutoff, 1.0 / cutoff, 0.0)


def largest_gain(measure: Measure, problem: Problem) -> float:
    """The gain of the best grade of this problem; 1 where every grade is 0, to divide by."""
    gain = gain_for(measure)
    largest = float(gain_of(float(problem.max_grade), gain.form, gain.start))
    if not math.isfinite(largest):
        raise InvalidInput(f"max_grade = {problem.max_grade} is too large for the gain 2^grade − 1; use gain='linear'")
    return largest or 1.0


def size_of_fixed_set(problem: Problem) -> int:
    """The number of items; `InvalidInput` where it changes from query to query."""
    if problem.n_items is None:
        raise InvalidInput("this learner ranks a fixed set of items: the problem must say n_items")
    return problem.n_items


def require_all_grades(problem: Problem) -> None:
    """Refuse a problem in which only the first items are graded."""
    if problem.depth is not None and problem.depth < size_of_fixed_set(problem):
        raise InvalidInput(
            f"this learner needs the grades of all {problem.n_items} items every round, the problem reveals the first "
            f"{problem.depth}: put it inside rtopk"
        )


def graded_depth(problem: Problem) -> int:
    """How many of the first items are graded; `InvalidInput` where none is."""
    n_items = size_of_fixed_set(problem)
    depth = n_items if problem.depth is None else min(problem.depth, n_items)
    if depth < 1:
        raise InvalidInput(f"depth = {depth}: nothing can be learned unless at least the first item is graded")
    return depth


class AnytimeLearner:
    """Its theory tunes one parameter by the `horizon`; without one the parameter follows √t, t being the round."""

    horizon: int | None

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ()
    tuned: ClassVar[str]  # the name of that parameter, None unless given

    def __post_init__(self) -> None:
        check_at_least(1, horizon=self.horizon)
        if getattr(self, self.tuned) is not None:
            check_positive(self.tuned, getattr(self, self.tuned))

    @functools.cached_property
    def _anytime(self) -> bool:
        return self.horizon is None and getattr(self, self.tuned) is None

    def _root(self, state: Any) -> float:
        """√t of the next round; 1 where the parameter stays as it is."""
        return math.sqrt(state.rounds + 1) if self._anytime else 1.0


class SummedGains(AnytimeLearner):
    """Follows what the items gained so far under a linear `measure`; the state begins with `totals` and `rounds`."""

    measure: Measure

    def __post_init__(self) -> None:
        gain_for(self.measure)
        super().__post_init__()

    @functools.cached_property
    def _gain(self) -> GainForm:
        return gain_for(self.measure)

    def learn(self, state: Any, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> Any:
        items, grades = expect(feedback, Relevances)
        totals = with_gains(state.totals, items, grades, self._gain.form, self._gain.start)
        return state._replace(totals=require_finite(totals), rounds=state.rounds + 1)

    def predict(self, state: Any, query: Query) -> Ints:
        return ranking_of(state.totals)
