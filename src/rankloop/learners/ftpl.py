"""Follow the perturbed leader: sort by what the items gained so far, plus noise."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_positive
from rankloop.core.kernels import ranking_of
from rankloop.core.protocols import Measure
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Floats, Ints, Problem, Query
from rankloop.learners._shared.fixed_set import SummedGains, largest_gain, require_all_grades, size_of_fixed_set
from rankloop.measures.dcg import DCG


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
            check_positive("1 / epsilon", 1.0 / self.epsilon)

    def init(self, problem: Problem) -> State:
        n_items = size_of_fixed_set(problem)
        require_all_grades(problem)
        theory = largest_gain(self.measure, problem) * math.sqrt(n_items * (self.horizon or 1))
        return State(np.zeros(n_items), 0, theory if self.epsilon is None else 1.0 / self.epsilon)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        noise = state.noise * self._root(state) * rng.random(len(state.totals))
        return Decision(ranking_of(state.totals + noise), math.nan, ())

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return math.nan
