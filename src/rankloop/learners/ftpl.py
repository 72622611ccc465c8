"""Follow the perturbed leader: sort by what the items gained so far, plus noise."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_positive
from rankloop.core.kernels import kernel, ranking_of
from rankloop.core.learner import require_finite
from rankloop.core.protocols import Measure
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Floats, Ints, Problem, Query
from rankloop.learners._shared.compiled_rounds import FixedSetRounds
from rankloop.learners._shared.fixed_set import SummedGains, require_all_grades, size_of_fixed_set
from rankloop.learners._shared.linear_measure import gain_of, largest_gain
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
def _many_rounds(totals: Floats, noises: Floats, rounds: FixedSetRounds, form: int, start: float) -> Floats:
    totals, (relevance, draws, rankings) = totals.copy(), rounds
    for t in range(len(draws)):
        rankings[t] = _perturbed(totals, noises[t], draws[t])
        for item in range(len(totals)):
            totals[item] += gain_of(relevance[t, item], form, start)
    return totals


class State(NamedTuple):
    """What each item gained so far."""

    totals: Floats
    rounds: int
    noise: float  # 1/ε; without a horizon, 1/ε of the first round


@register("ftpl")
class FTPL(SummedGains):
    """Follow the perturbed leader: sorts by summed gains plus fresh uniform noise, from the grades of all items.

    ranking_t = sort descending of Σ_{s<t} gain(grades_s) + noise, noise uniform in [0, 1/ε]^m. Unless `epsilon` is
    given, 1/ε = g·√(m·horizon) with g the largest gain of the `measure` (DCG, SumLoss, P@n); without a horizon it grows
    as g·√(m·t). Regret against the best fixed ranking is O(√T) for any sequence of grades. Use it when every item is
    graded in every round; when only the first ones are, put it inside `rtopk`. `log_prob` is nan: the probability of
    an order is a volume without a practical closed form. Kalai and Vempala (2005), "Efficient algorithms for online
    decision problems".
    """

    horizon: int | None = None
    measure: Measure = DCG()
    epsilon: float | None = None

    tuned: ClassVar[str] = "epsilon"
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"horizon": 50, "measure": "SumLoss"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None:
            check_positive("epsilon", self.epsilon)
            check_positive("1 / epsilon", 1.0 / self.epsilon)

    def init(self, problem: Problem) -> State:
        n_items = size_of_fixed_set(problem)
        require_all_grades(problem)
        theory = largest_gain(self.measure, problem) * math.sqrt(n_items * (self.horizon or 1))
        return State(np.zeros(n_items), 0, theory if self.epsilon is None else 1.0 / self.epsilon)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        ranking = _perturbed(state.totals, state.noise * self._root(state), rng.random(len(state.totals)))
        return Decision(ranking, math.nan, ())

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return math.nan

    def many_rankings(self, state: State, draws: Floats) -> Ints:
        """What `rank` shows for each row of draws, while the state stands still."""
        return _many_rankings(state.totals, state.noise * self._root(state), draws)

    def many_rounds(self, state: State, rounds: FixedSetRounds) -> State:
        noises = state.noise * self._roots(state, rounds.n_rounds)
        totals = _many_rounds(state.totals, noises, rounds, *self._gain)
        return state._replace(totals=require_finite(totals), rounds=state.rounds + rounds.n_rounds)
