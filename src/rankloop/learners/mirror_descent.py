"""Online mirror descent over the permutahedron: the mean position of an item follows its summed gains."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel, require_finite
from rankloop.core.learner_parts import check_horizon, check_positive, expect, seen_count, shown_or_all
from rankloop.core.protocols import Measure
from rankloop.core.rankings import ranking_of
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners._shared.fixed_set import require_all_grades, size_of_fixed_set
from rankloop.learners._shared.linear_measure import (
    Gain,
    gain_for,
    gain_of,
    largest_gain,
    with_gains,
    worth_of_positions,
)
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


@kernel
def _many_rankings(totals: Floats, step: float, worth: Floats, uniforms: Floats) -> Ints:
    rankings = np.empty(uniforms.shape, np.int64)
    order, pairs, probabilities = _plan(totals, step, worth)
    for t in range(len(uniforms)):
        rankings[t] = drawn_order(order, pairs, probabilities, uniforms[t])
    return rankings


@kernel
def _whole_run(
    totals: Floats, steps: Floats, worth: Floats, relevance: Floats, uniforms: Floats, form: int, start: float
) -> tuple[Floats, Ints]:
    totals = totals.copy()
    rankings = np.empty(uniforms.shape, np.int64)
    for t in range(len(uniforms)):
        order, pairs, probabilities = _plan(totals, steps[t], worth)
        rankings[t] = drawn_order(order, pairs, probabilities, uniforms[t])
        for item in range(len(totals)):
            totals[item] += gain_of(relevance[t, item], form, start)
    return totals, rankings


class State(NamedTuple):
    """What each item gained so far."""

    totals: Floats
    rounds: int
    step: float  # η; without a horizon, η of the first round
    worth: Floats  # what a unit of gain is worth at each place
    shown: int


@register("mirror_descent")
@dataclass(frozen=True, kw_only=True)
class MirrorDescent:
    """Online mirror descent: shows random orders whose mean worth per item is nearest to η · summed gains.

    x_t = argmin over means x of random orders of ½‖x − η·Σ_{s<t} gain(grades_s)‖², then an order is drawn with exactly
    that mean worth for every item (m − 1 random exchanges); O(m log m) a round. Unless `learning_rate` is given,
    η = 2·‖w − mean w‖ / (g·√(m·horizon)), w the worth of the places under the `measure` and g its largest gain; without
    a horizon it falls as √(2)·‖w − mean w‖ / (g·√(m·t)). Use it as `ftpl`: it needs the grades of all items every
    round, its regret bound is smaller by √m, and its `log_prob` is exact when all places are seen (else nan).
    Ailon (2014), "Improved bounds for online learning over the permutahedron and other ranking polytopes"; here with
    the Euclidean regulariser in its lazy form.
    """

    horizon: int | None = None
    measure: Measure = DCG()  # noqa: RUF009  frozen
    learning_rate: float | None = None

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"horizon": 50, "measure": "P@2"})

    def __post_init__(self) -> None:
        gain_for(self.measure)
        check_horizon(self.horizon)
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)

    @functools.cached_property
    def _gain(self) -> Gain:
        return gain_for(self.measure)

    @property
    def _shrinks(self) -> bool:
        return self.horizon is None and self.learning_rate is None

    def init(self, problem: Problem) -> State:
        n_items = size_of_fixed_set(problem)
        require_all_grades(problem)
        worth = worth_of_positions(self.measure, n_items)
        radius = float(np.sqrt(np.sum((worth - worth.mean()) ** 2)))
        largest = largest_gain(self.measure, problem) * math.sqrt(n_items)
        theory = math.sqrt(2.0) * radius / largest if self._shrinks else 2.0 * radius / largest / self._root()
        return State(np.zeros(n_items), 0, self.learning_rate or theory, worth, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        uniforms = rng.random(len(state.totals))
        ranking, log_prob = _draw(state.totals, self._step(state), state.worth, uniforms)
        return Decision(ranking, log_prob if self._all_seen(state) else math.nan, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        totals = with_gains(state.totals, *expect(feedback, Relevances), *self._gain)
        return state._replace(totals=require_finite(totals), rounds=state.rounds + 1)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(state.totals)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        if not self._all_seen(state):
            return math.nan
        return _log_prob(state.totals, self._step(state), state.worth, ranking)

    def doubles(self, n_items: int) -> int:
        """How many doubles `rank` takes."""
        return n_items

    def many_rankings(self, state: State, draws: Floats) -> Ints:
        """What `rank` shows for each row of draws, while the state stands still."""
        return _many_rankings(state.totals, self._step(state), state.worth, draws)

    def many_rounds(self, state: State, relevance: Floats, draws: Floats) -> tuple[State, Ints]:
        """`rank` and `learn` in turn, one round for each row of relevance and draws: the last state, all rankings."""
        rounds = np.arange(state.rounds + 1.0, state.rounds + len(draws) + 1.0)
        steps = state.step / np.sqrt(rounds) if self._shrinks else np.full(len(draws), state.step)
        totals, rankings = _whole_run(state.totals, steps, state.worth, relevance, draws, *self._gain)
        return state._replace(totals=require_finite(totals), rounds=state.rounds + len(draws)), rankings

    def _step(self, state: State) -> float:
        return state.step / math.sqrt(state.rounds + 1) if self._shrinks else state.step

    def _root(self) -> float:
        return math.sqrt(self.horizon or 1)

    def _all_seen(self, state: State) -> bool:
        return seen_count(state.shown, len(state.totals)) == len(state.totals)
