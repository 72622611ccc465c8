"""A fixed set of items: what its learners ask of the problem, and what those with a guarantee share."""

import functools
import math
from typing import Any, ClassVar

from rankloop.core.checks import check_horizon
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ranking_of
from rankloop.core.learner import expect, require_finite
from rankloop.core.protocols import Measure
from rankloop.core.types import Decision, Feedback, Ints, Problem, Query, Relevances
from rankloop.learners._shared.linear_measure import GainForm, gain_for, with_gains


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
        check_horizon(self.horizon)

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
