"""Follow the perturbed leader: sort by what the items gained so far, plus noise."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel, require_finite
from rankloop.core.learner_parts import check_horizon, check_positive, expect
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
)
from rankloop.measures.dcg import DCG


@kernel
def _perturbed(totals: Floats, noise: float, uniforms: Floats) -> Ints:
    return ranking_of(totals + noise * uniforms)


@kernel
def _many_rankings(totals: Floats, noise: float, uniforms: Floats) -> Ints:
    rankings = np.empty(uniforms.shape, np.int64)
    for t in range(len(uniforms)):
        rankings[t] = _perturbed(totals, noise, uniforms[t])
    return rankings


@kernel
def _whole_run(
    totals: Floats, noises: Floats, relevance: Floats, uniforms: Floats, form: int, start: float
) -> tuple[Floats, Ints]:
    totals = totals.copy()
    rankings = np.empty(uniforms.shape, np.int64)
    for t in range(len(uniforms)):
        rankings[t] = _perturbed(totals, noises[t], uniforms[t])
        for item in range(len(totals)):
            totals[item] += gain_of(relevance[t, item], form, start)
    return totals, rankings


class State(NamedTuple):
    """What each item gained so far."""

    totals: Floats
    rounds: int
    noise: float  # 1/ε; without a horizon, 1/ε of the first round


@register("ftpl")
@dataclass(frozen=True, kw_only=True)
class FTPL:
    """Follow the perturbed leader: sorts by summed gains plus fresh uniform noise, from the grades of all items.

    ranking_t = sort descending of Σ_{s<t} gain(grades_s) + noise, noise uniform in [0, 1/ε]^m. Unless `epsilon` is
    given, 1/ε = g·√(m·horizon) with g the largest gain of the `measure` (DCG, SumLoss, P@n); without a horizon it grows
    as g·√(m·t). Regret against the best fixed ranking is O(√T) for any sequence of grades. Use it when every item is
    graded in every round; when only the first ones are, put it inside `rtopk`. `log_prob` is nan: the probability of
    an order is a volume without a practical closed form. Kalai and Vempala (2005), "Efficient algorithms for online
    decision problems".
    """

    horizon: int | None = None
    measure: Measure = DCG()  # noqa: RUF009  frozen
    epsilon: float | None = None

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"horizon": 50, "measure": "SumLoss"})

    def __post_init__(self) -> None:
        gain_for(self.measure)
        check_horizon(self.horizon)
        if self.epsilon is not None:
            check_positive("epsilon", self.epsilon)
            check_positive("1 / epsilon", 1.0 / self.epsilon)

    @functools.cached_property
    def _gain(self) -> Gain:
        return gain_for(self.measure)

    @property
    def _grows(self) -> bool:
        return self.horizon is None and self.epsilon is None

    def init(self, problem: Problem) -> State:
        n_items = size_of_fixed_set(problem)
        require_all_grades(problem)
        theory = largest_gain(self.measure, problem) * math.sqrt(n_items * (self.horizon or 1))
        return State(np.zeros(n_items), 0, theory if self.epsilon is None else 1.0 / self.epsilon)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        ranking = _perturbed(state.totals, self._noise(state), rng.random(len(state.totals)))
        return Decision(ranking, math.nan, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        totals = with_gains(state.totals, *expect(feedback, Relevances), *self._gain)
        return State(require_finite(totals), state.rounds + 1, state.noise)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(state.totals)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return math.nan

    def doubles(self, n_items: int) -> int:
        """How many doubles `rank` takes."""
        return n_items

    def many_rankings(self, state: State, draws: Floats) -> Ints:
        """What `rank` shows for each row of draws, while the state stands still."""
        return _many_rankings(state.totals, self._noise(state), draws)

    def many_rounds(self, state: State, relevance: Floats, draws: Floats) -> tuple[State, Ints]:
        """`rank` and `learn` in turn, one round for each row of relevance and draws: the last state, all rankings."""
        rounds = np.arange(state.rounds + 1.0, state.rounds + len(draws) + 1.0)
        noises = state.noise * np.sqrt(rounds) if self._grows else np.full(len(draws), state.noise)
        totals, rankings = _whole_run(state.totals, noises, relevance, draws, *self._gain)
        return State(require_finite(totals), state.rounds + len(draws), state.noise), rankings

    def _noise(self, state: State) -> float:
        return state.noise * math.sqrt(state.rounds + 1) if self._grows else state.noise
