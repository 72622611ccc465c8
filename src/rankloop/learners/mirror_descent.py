"""Online mirror descent over the permutahedron: mean positions follow the summed gains of a fixed set of items."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import Positive
from rankloop.core.kernels import kernel, positions_of, ranking_of, seen_count
from rankloop.core.learner import shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Floats, Ints, Problem, Query
from rankloop.learners._shared.fixed_set import SummedGains, largest_gain, require_all_grades, worth_of_positions


@kernel
def _nearest_mean(pulls: Floats, worth: Floats) -> Floats:
    """Return the point nearest to `pulls` among the means of random orders of `worth`: Lim and Wright (2016)."""
    # It is pulls − v, with v the best non-increasing fit to pulls − worth (pool adjacent violators).
    n_items = len(pulls)
    pulled, worths, sizes, n_pools = np.empty(n_items), np.empty(n_items), np.empty(n_items, np.int64), 0
    for i in range(n_items):
        pulled[n_pools], worths[n_pools], sizes[n_pools] = pulls[i], worth[i], 1  # means of a pool, and its size
        n_pools += 1
        while n_pools > 1:
            a, b = n_pools - 2, n_pools - 1
            if pulled[a] - worths[a] > pulled[b] - worths[b]:
                break
            both = sizes[a] + sizes[b]
            pulled[a] = (sizes[a] * pulled[a] + sizes[b] * pulled[b]) / both
            worths[a] = (sizes[a] * worths[a] + sizes[b] * worths[b]) / both
            sizes[a], n_pools = both, n_pools - 1
    point, i = np.empty(n_items), 0
    for pool in range(n_pools):
        for _ in range(sizes[pool]):
            point[i] = worths[pool] + (pulls[i] - pulled[pool])
            i += 1
    return point


@kernel
def _exchanges(point: Floats, worth: Floats) -> tuple[Ints, Floats]:
    """Return random exchanges of positions that make `worth` equal to `point` on average."""
    # By Hardy, Littlewood and Pólya m − 1 averagings of two entries are enough: an entry with too much gives to the
    # next one with too little, until one of the two is settled.
    n_items = len(worth)
    mean, rich, n_rich, n = worth.copy(), np.empty(n_items, np.int64), 0, 0
    pairs, probabilities = np.empty((n_items, 2), np.int64), np.empty(n_items)
    for poor in range(n_items):
        if mean[poor] > point[poor]:
            rich[n_rich] = poor
            n_rich += 1
        while mean[poor] < point[poor] and n_rich > 0:
            giver = rich[n_rich - 1]
            if mean[giver] <= mean[poor]:  # rounding: nothing is left to give
                break
            spare, missing = mean[giver] - point[giver], point[poor] - mean[poor]
            probabilities[n] = min(1.0, min(spare, missing) / (mean[giver] - mean[poor]))
            if spare <= missing:
                pairs[n, 0], pairs[n, 1] = giver, poor
                mean[poor], n_rich = mean[poor] + spare, n_rich - 1
            else:
                pairs[n, 0], pairs[n, 1] = poor, giver
                mean[giver], mean[poor] = mean[giver] - missing, point[poor]
            n += 1
    return pairs[:n], probabilities[:n]


@kernel
def _drawn_order(order: Ints, pairs: Ints, probabilities: Floats, uniforms: Floats) -> Ints:
    """Return the order after the exchanges whose uniform draw is below their probability."""
    ranking = order.copy()
    positions = np.arange(len(order))
    for i in range(len(probabilities)):
        if uniforms[i] < probabilities[i]:
            a, b = pairs[i]
            positions[a], positions[b] = positions[b], positions[a]
    for entry in range(len(order)):
        ranking[positions[entry]] = order[entry]
    return ranking


@kernel
def _log_prob_of_order(order: Ints, pairs: Ints, probabilities: Floats, ranking: Ints) -> float:
    """Return the log-probability of a ranking; an entry's final position tells if it was exchanged when it settled."""
    targets, positions, total = positions_of(ranking)[order], np.arange(len(order)), 0.0
    for i in range(len(probabilities)):
        settled, other = pairs[i]
        if positions[settled] == targets[settled]:
            total += np.log1p(-probabilities[i]) if probabilities[i] < 1.0 else -np.inf
        else:
            positions[settled], positions[other] = positions[other], positions[settled]
            fits = positions[settled] == targets[settled] and probabilities[i] > 0.0
            total += np.log(probabilities[i]) if fits else -np.inf
    return total if np.array_equal(positions, targets) else -np.inf


@kernel
def _plan(totals: Floats, step: float, worth: Floats) -> tuple[Ints, Ints, Floats]:
    """Return the items by summed gain, and the exchanges that draw an order with the nearest mean."""
    order = ranking_of(totals)
    pairs, probabilities = _exchanges(_nearest_mean(step * totals[order], worth), worth)
    return order, pairs, probabilities


@kernel
def _draw(totals: Floats, step: float, worth: Floats, uniforms: Floats) -> tuple[Ints, float]:
    """Return a drawn ranking and its log-probability."""
    order, pairs, probabilities = _plan(totals, step, worth)
    ranking = _drawn_order(order, pairs, probabilities, uniforms)
    return ranking, _log_prob_of_order(order, pairs, probabilities, ranking)


class State(NamedTuple):
    """The summed gains of a fixed set of items."""

    totals: Floats  # The summed gain of each item.
    rounds: int  # The number of rounds learned.
    step: float  # η; without a horizon, η of the first round.
    worth: Floats  # The worth of a unit of gain at each position.
    shown: int  # The number of positions that are seen, −1 for all.


@register("mirror_descent")
class MirrorDescent(SummedGains):
    """Show random orders whose mean worth per item is nearest to η · summed gains, from the grades of all items.

      x_t = argmin over the means x of random orders of ½‖x − η·Σ_{s<t} gain(grades_s)‖²,

    and an order is drawn with exactly this mean worth for every item, by m − 1 random exchanges; O(m log m) a round.
    Unless `learning_rate` is given, η = 2·‖w − mean w‖ / (g·√(m·`horizon`)), with w the worth of the positions under
    the `measure` and g its largest gain; without a horizon it falls as √2·‖w − mean w‖ / (g·√(m·t)).

    The regret bound is smaller than that of `ftpl` by √m, and `log_prob` is exact when all positions are seen, else
    nan. When only the first items are graded, put it inside `rtopk`.

    Args:
      horizon: The number of rounds, if it is known.
      measure: The measure to maximise: DCG, SumLoss or P@n.
      learning_rate: η; the theory's choice if None.

    References:
      Ailon (2014), Improved Bounds for Online Learning over the Permutahedron and Other Ranking Polytopes; here with
      the Euclidean regulariser in its lazy form.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("mirror_descent", "flipped_relevance(n_items=6, n_relevant=2)", "full", "nDCG@5"), 3)
      0.958
    """

    learning_rate: Positive | None = None

    tuned: ClassVar[str] = "learning_rate"
    examples: ClassVar[Examples] = ({}, {"horizon": 50, "measure": "P@2"})

    def init(self, problem: Problem) -> State:
        n_items = require_all_grades(problem)
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
        order, pairs, probabilities = _plan(state.totals, state.step / self._root(state), state.worth)
        return _log_prob_of_order(order, pairs, probabilities, ranking)

    def _all_seen(self, state: State) -> bool:
        return seen_count(state.shown, len(state.totals)) == len(state.totals)
