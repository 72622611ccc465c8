"""Online mirror descent over the permutahedron: the mean position of an item follows its summed gains."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_positive
from rankloop.core.kernels import kernel, ranking_of, seen_count
from rankloop.core.learner import shown_or_all
from rankloop.core.protocols import Measure
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Floats, Ints, Problem, Query
from rankloop.learners._shared.fixed_set import SummedGains, require_all_grades, size_of_fixed_set
from rankloop.learners._shared.linear_measure import largest_gain, worth_of_positions
from rankloop.learners._shared.permutahedron import drawn_order, exchanges, log_prob_of_order, nearest_mean
from rankloop.measures.dcg import DCG


@kernel
def _plan(totals: Floats, step: float, worth: Floats) -> tuple[Ints, Ints, Floats]:
    order = ranking_of(totals)
    pairs, probabilities = exchanges(nearest_mean(step * totals[order], worth), worth)
    return order, pairs, probabilities


@kernel
def _draw(totals: Floats, step: float, worth: Floats, uniforms: Floats) -> tuple[Ints, float]:
    order, pairs, probabilities = _plan(totals, step, worth)
    ranking = drawn_order(order, pairs, probabilities, uniforms)
    return ranking, log_prob_of_order(order, pairs, probabilities, ranking)


@kernel
def _log_prob(totals: Floats, step: float, worth: Floats, ranking: Ints) -> float:
    order, pairs, probabilities = _plan(totals, step, worth)
    return log_prob_of_order(order, pairs, probabilities, ranking)


class State(NamedTuple):
    """What each item gained so far."""

    totals: Floats
    rounds: int
    step: float  # η; without a horizon, η of the first round
    worth: Floats  # what a unit of gain is worth at each position
    shown: int


@register("mirror_descent")
class MirrorDescent(SummedGains):
    """Online mirror descent: shows random orders whose mean worth per item is nearest to η · summed gains.

    x_t = argmin over means x of random orders of ½‖x − η·Σ_{s<t} gain(grades_s)‖², then an order is drawn with exactly
    that mean worth for every item (m − 1 random exchanges); O(m log m) a round. Unless `learning_rate` is given,
    η = 2·‖w − mean w‖ / (g·√(m·horizon)), w the worth of positions under the `measure` and g its largest gain; without
    a horizon it falls as √(2)·‖w − mean w‖ / (g·√(m·t)). Use it as `ftpl`: it needs the grades of all items every
    round, its regret bound is smaller by √m, and its `log_prob` is exact when all positions are seen (else nan).
    Ailon (2014), "Improved bounds for online learning over the permutahedron and other ranking polytopes"; here with
    the Euclidean regulariser in its lazy form.
    """

    horizon: int | None = None
    measure: Measure = DCG()
    learning_rate: float | None = None

    tuned: ClassVar[str] = "learning_rate"
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"horizon": 50, "measure": "P@2"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)

    def init(self, problem: Problem) -> State:
        n_items = size_of_fixed_set(problem)
        require_all_grades(problem)
        worth = worth_of_positions(self.measure, n_items)
        radius = float(np.sqrt(np.sum((worth - worth.mean()) ** 2)))
        largest = largest_gain(self.measure, problem) * math.sqrt(n_items)
        root = math.sqrt(self.horizon or 1)
        theory = math.sqrt(2.0) * radius / largest if self._anytime else 2.0 * radius / largest / root
        return State(np.zeros(n_items), 0, self.learning_rate or theory, worth, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        uniforms = rng.random(len(state.totals))
        ranking, log_prob = _draw(state.totals, state.step / self._root(state), state.worth, uniforms)
        return Decision(ranking, log_prob if self._all_seen(state) else math.nan, ())

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        if not self._all_seen(state):
            return math.nan
        return _log_prob(state.totals, state.step / self._root(state), state.worth, ranking)

    def _all_seen(self, state: State) -> bool:
        return seen_count(state.shown, len(state.totals)) == len(state.totals)
