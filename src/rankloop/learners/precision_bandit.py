"""A bandit for Precision@n: the order inside the first n positions is free, so it is used to reveal grades."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import Positive, PositiveCount
from rankloop.core.kernels import kernel, ranking_of
from rankloop.core.learner import check_receipt, expect, require_finite
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners._shared.fixed_set import GAIN_IS_CAPPED, AnytimeLearner, gain_of, graded_depth, size_of_fixed_set


@kernel
def _inclusion_probabilities(losses: Floats, best_first: Ints, rate: float, n: int) -> Floats:
    """Return x_i = min(1, c · exp(−rate · losses_i)), Σ x = n: the entropic weights of Koolen et al. (2010)."""
    # In ascending order of losses, tail_i = Σ_{j ≥ i} exp(−rate · (loss_j − loss_i)), which neither overflows nor
    # vanishes.
    n_items = len(losses)
    tails = np.ones(n_items)
    for i in range(n_items - 2, -1, -1):
        tails[i] += tails[i + 1] * np.exp(-rate * (losses[best_first[i + 1]] - losses[best_first[i]]))
    # The largest probabilities are capped at 1 until the others, c · exp(−η L_i), sum to the places that are left.
    capped = 0
    while capped < n and n - capped >= tails[capped]:
        capped += 1
    probabilities = np.ones(n_items)
    if capped < n_items:
        share = (n - capped) / tails[capped]
        for item in best_first[capped:]:
            probabilities[item] = share * np.exp(-rate * (losses[item] - losses[best_first[capped]]))
    return probabilities


@kernel
def _shuffle(items: Ints, uniforms: Floats) -> None:
    """Shuffle the items in place."""
    for position in range(len(items)):
        other = position + int(uniforms[position] * (len(items) - position))
        items[position], items[other] = items[other], items[position]


@kernel
def _drawn_first(probabilities: Floats, best_first: Ints, n: int, uniforms: Floats) -> Ints:
    """Return a ranking whose first n positions contain item i with probability probabilities[i], in random order."""
    # Systematic sampling: the items' probabilities are laid end to end in random order on a line from 0 to n, and an
    # item is included if its stretch contains one of n points that are 1 apart, with a random start. The other items
    # follow, best first.
    n_items = len(probabilities)
    ranking, outside, line, inside = np.empty(n_items, np.int64), np.ones(n_items, np.bool_), 0.0, 0
    walk = best_first.copy()
    _shuffle(walk, uniforms[1 : n_items + 1])
    for step in range(n_items):
        line += probabilities[walk[step]]
        due = n_items - step == n - inside  # rounding must not lose the last point
        if inside < n and (uniforms[0] + inside < line or due):
            ranking[inside] = walk[step]
            outside[walk[step]] = False
            inside += 1
    _shuffle(ranking[:n], uniforms[n_items + 1 :])
    for item in best_first:
        if outside[item]:
            ranking[inside] = item
            inside += 1
    return ranking


@kernel
def _decide(losses: Floats, rate: float, n: int, revealed: int, uniforms: Floats) -> tuple[Ints, Floats]:
    """Return the ranking, and the probability with which each item in a revealed position was revealed."""
    best_first = ranking_of(-losses)
    probabilities = _inclusion_probabilities(losses, best_first, rate, n)
    ranking = _drawn_first(probabilities, best_first, n, uniforms)
    return ranking, probabilities[ranking[:revealed]] * revealed / n


@kernel
def _with_estimates(losses: Floats, items: Ints, grades: Floats, probabilities: Floats, start: float) -> Floats:
    """Add (1 − relevant) / probability for each revealed item: the mean is 1 − relevant for every item."""
    new = losses.copy()
    for i in range(len(probabilities)):
        new[items[i]] += (1.0 - gain_of(grades[i], GAIN_IS_CAPPED, start)) / probabilities[i]
    return new


class State(NamedTuple):
    """The estimated losses of a fixed set of items."""

    losses: Floats  # The estimated number of rounds in which each item was irrelevant.
    rounds: int  # The number of rounds learned.
    rate: float  # η; without a horizon, η of the first round.
    revealed: int  # The number of positions among the first n that are graded.

    def reachable(self, initial: "State") -> bool:
        """Return true if the number of revealed positions is that of the problem."""
        return self.revealed == initial.revealed


class Receipt(NamedTuple):
    """The probabilities with which the revealed items were revealed."""

    chances: Floats  # probabilities


@register("precision_bandit")
class PrecisionBandit(AnytimeLearner):
    """A bandit for Precision@n with √T regret from the grades of the first k items, for every k ≥ 1.

    A set of n items is drawn that contains item i with probability x_i = min(1, c·exp(−η·L_i)), Σ x = n, and shown
    first in random order. For each revealed item

      L_i ← L_i + (1 − R_i)·n / (k·x_i),  R_i = [grade ≥ `relevant_from`],

    which is unbiased (k is at most n here). Unless `learning_rate` is given, η = √(2·k·ln(m/n) / (m·`horizon`)), and
    √(k·ln(m/n) / (m·t)) without a horizon. The regret in Precision@n, times n, is at most n·√(2·m·T·ln(m/n) / k) for
    any sequence of grades; O(m log m) a round.

    Use it when n positions are shown that all count the same, and few are graded; `rtopk` guarantees only T^{2/3}.
    `log_prob` is nan.

    Args:
      n: The number of positions that count.
      horizon: The number of rounds, if it is known.
      relevant_from: The smallest grade that is relevant.
      learning_rate: η; the theory's choice if None.

    References:
      Koolen, Warmuth and Kivinen (2010), Hedging Structured Concepts (entropic regularisation over sets).

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> stream = "flipped_relevance(n_items=6, n_relevant=2)"
      >>> round(play_mean("precision_bandit(n=2)", stream, "top_k(depth=1)", "P@2"), 3)
      0.785
    """

    n: PositiveCount = 5
    horizon: PositiveCount | None = None
    relevant_from: Positive = 1.0
    learning_rate: Positive | None = None

    tuned: ClassVar[str] = "learning_rate"
    examples: ClassVar[Examples] = ({"n": 2}, {"n": 5, "horizon": 50})

    def init(self, problem: Problem) -> State:
        n_items = size_of_fixed_set(problem)
        revealed = min(self.n, graded_depth(problem))
        spread = max(math.log(n_items / self.n), 0.0)
        theory = math.sqrt((1.0 if self._anytime else 2.0 / (self.horizon or 1)) * revealed * spread / n_items)
        return State(np.zeros(n_items), 0, self.learning_rate or theory, revealed)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        n_items = len(state.losses)
        n = min(self.n, n_items)
        rate, uniforms = state.rate / self._root(state), rng.random(1 + n_items + n)
        ranking, probabilities = _decide(state.losses, rate, n, state.revealed, uniforms)
        return Decision(ranking, math.nan, Receipt(probabilities))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        probabilities = decision.receipt.chances
        check_receipt(probabilities.shape == (state.revealed,) and probabilities.min() > 0.0)
        grade_of = np.zeros(len(state.losses))
        grade_of[items] = grades
        top = decision.ranking[: state.revealed]
        start = math.ceil(self.relevant_from) - 1.0
        losses = _with_estimates(state.losses, top, grade_of[top], probabilities, start)
        return state._replace(losses=require_finite(losses), rounds=state.rounds + 1)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(-state.losses)
