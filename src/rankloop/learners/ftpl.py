"""Follow the perturbed leader: sort a fixed set of items by their summed gains plus noise."""

import math
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_between
from rankloop.core.kernels import MAX_FLOAT, ranking_of
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Floats, Problem, Query
from rankloop.learners._shared.fixed_set import SummedGains, largest_gain, require_all_grades


class State(NamedTuple):
    """The summed gains of a fixed set of items."""

    totals: Floats  # The summed gain of each item.
    rounds: int  # The number of rounds learned.
    noise: float  # 1/ε; without a horizon, 1/ε of the first round.


@register("ftpl")
class FTPL(SummedGains):
    """Follow the perturbed leader: sort by summed gains plus fresh uniform noise, from the grades of all items.

      ranking_t = sort descending of Σ_{s<t} gain(grades_s) + noise,  noise uniform in [0, 1/ε]^m.

    Unless `epsilon` is given, 1/ε = g·√(m·`horizon`) with g the largest gain of the `measure`; without a horizon it
    grows as g·√(m·t). The regret against the best fixed ranking is O(√T) for any sequence of grades. When only the
    first items are graded, put it inside `rtopk`. `log_prob` is nan: the probability of an order is a volume without a
    practical closed form.

    Args:
      horizon: The number of rounds, if it is known.
      measure: The measure to maximise: DCG, SumLoss or P@n.
      epsilon: The inverse of the noise's range; the theory's choice if None.

    References:
      Kalai and Vempala (2005), Efficient Algorithms for Online Decision Problems.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("ftpl", "flipped_relevance(n_items=6, n_relevant=2)", "full", "nDCG@5"), 3)
      0.967
    """

    epsilon: Annotated[float, partial(check_between, 1 / MAX_FLOAT, MAX_FLOAT)] | None = None  # divided by

    tuned: ClassVar[str] = "epsilon"
    examples: ClassVar[Examples] = ({}, {"horizon": 50, "measure": "SumLoss"})

    def init(self, problem: Problem) -> State:
        n_items = require_all_grades(problem)
        theory = largest_gain(self.measure, problem) * math.sqrt(n_items * (self.horizon or 1))
        return State(np.zeros(n_items), 0, theory if self.epsilon is None else 1.0 / self.epsilon)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        noise = state.noise * self._root(state) * rng.random(len(state.totals))
        return Decision(ranking_of(state.totals + noise), math.nan, ())
