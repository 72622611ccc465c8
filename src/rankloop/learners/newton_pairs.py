"""Newton pairs: swap neighbours whose order is in doubt, and take a Newton step for each pair with unequal clicks."""

import math
from functools import cached_property, partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import FiniteNumbers, NotNegative, Positive, PositiveCount, check_between
from rankloop.core.kernels import add_row, clicked_weights, kernel, ranking_of, scores_of, seen_count, width_of
from rankloop.core.learner import SparseLearner, check_receipt, expect, require_finite, seen_part, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Clicks, Decision, Features, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.precision import Ridge, cholesky, dot, sherman_morrison, surprise_of, times

# The inverse is rebuilt after at most so many rounds, and at least so often within the memory.
MAX_BATCH_ROUNDS, MIN_BATCHES_IN_MEMORY = 128, 16
KEPT_AFTER_CHANGE = 0.03  # The share of the evidence that is kept when users have changed.
FIRST_CLICK_MEAN, RUN_ABOVE, RUN_BELOW, N_VALUES, N_STATISTICS = range(5)  # The entries of `State.watch`.
MIN_DEPARTURE = 0.1  # Smaller departures from the mean do not add up.
ROUNDING_ERROR = 1e-9
LOG_2 = math.log(2)


class State(NamedTuple):
    """The weights with their precision, and the statistics of the change detector."""

    weights: Floats  # One weight for each feature.
    precision: Floats  # Λ, a matrix or its diagonal.
    covariance: Floats  # Σ = Λ⁻¹, a matrix or its diagonal.
    origin: Floats  # The first weights.
    watch: Floats  # The statistics of the first click's position: see `FIRST_CLICK_MEAN` and the following.
    alarms: int  # The number of changes that were detected.
    shown: int  # The number of positions that are seen, −1 for all.
    rounds: int  # The number of rounds learned.

    def reachable(self, initial: "State") -> bool:
        """Return true if no precision is below its ridge, no variance below 0, and values from 0 to 1 were watched."""
        matrices = (self.precision, initial.precision, self.covariance)
        precision, ridge, variance = (matrix if matrix.ndim == 1 else np.diagonal(matrix) for matrix in matrices)
        are_precise = np.all(precision >= ridge * (1 - ROUNDING_ERROR)) and np.all(variance >= 0)
        return bool(are_precise and np.all(self.watch >= 0.0) and self.watch[FIRST_CLICK_MEAN] <= 1.0)


class Receipt(NamedTuple):
    """The probability of the order in which each pair was shown, and the upper position of the first pair."""

    order_probabilities: Floats
    first: int


@kernel
def _spread_of(covariance: Floats, x: Floats) -> float:
    """Return xᵀ Σ x, the variance of w · x."""
    total = 0.0
    if covariance.ndim == 1:
        for i in range(len(x)):
            total += covariance[i] * x[i] * x[i]
    else:
        for i in range(len(x)):
            if x[i] != 0.0:
                total += x[i] * (covariance[i, i] * x[i] + 2.0 * dot(covariance[i, i + 1 :], x[i + 1 :]))
    return total


@kernel
def _inverse_of(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix, in loops along its rows, or that of a diagonal."""
    if matrix.ndim == 1:
        return 1.0 / matrix
    upper, n = cholesky(matrix), len(matrix)
    lower = np.zeros((n, n))  # (Uᵀ)⁻¹
    for i in range(n):
        for k in range(i):
            if upper[k, i] != 0.0:
                for j in range(k + 1):
                    lower[i, j] -= upper[k, i] * lower[k, j]
        lower[i, i] = 1.0
        for j in range(i + 1):
            lower[i, j] /= upper[i, i]
    inverse = np.zeros((n, n))
    for k in range(n):
        for i in range(k + 1):
            if lower[k, i] != 0.0:
                for j in range(k + 1):
                    inverse[i, j] += lower[k, i] * lower[k, j]
    return inverse


@kernel
def _inform(precision: Floats, covariance: Floats, x: Floats, weight: float, surprise: float) -> tuple[Floats, bool]:
    """Add a pair to Λ and Σ = Λ⁻¹ in place, return weight · surprise · Σ x, and true if Σ has lost digits."""
    information = weight * surprise * (1.0 - surprise)
    if precision.ndim == 1:
        for i in range(len(x)):
            precision[i] += information * x[i] * x[i]
            covariance[i] = 1.0 / precision[i]
        return weight * surprise * covariance * x, False
    for i in range(len(x)):
        if x[i] != 0.0:
            of_row = information * x[i]
            for j in range(len(x)):
                precision[i, j] += of_row * x[j]
    product = times(covariance, x)
    gain = information * max(dot(x, product), 0.0)
    lost = sherman_morrison(covariance, product, information, gain)
    return weight * surprise / (1.0 + gain) * product, lost


@kernel
def _forget(precision: Floats, ridge: float, kept: float) -> None:
    """Replace Λ, a matrix or its diagonal, by kept · Λ + (1 − kept) · ridge · I in place."""
    for i in range(len(precision)):
        if precision.ndim == 1:
            precision[i] = kept * precision[i] + (1.0 - kept) * ridge
        else:
            for j in range(len(precision)):
                precision[i, j] *= kept
            precision[i, i] += (1.0 - kept) * ridge


@kernel
def _row_difference(features: Features, row: int, other: int) -> Floats:
    """Return features[row] − features[other]."""
    difference = np.zeros(width_of(features))
    add_row(difference, features, row, 1.0)
    add_row(difference, features, other, -1.0)
    return difference


@kernel
def _first_click(ranking: Ints, clicked: Floats) -> float:
    """Return 1 / (1 + the position of the first click), and 0 without a click."""
    for position in range(len(ranking)):
        if clicked[ranking[position]] > 0.0:
            return 1.0 / (1.0 + position)
    return 0.0


@kernel
def _watched(watch: Floats, value: float) -> Floats:
    """Return the statistics after one more value, by the test of Page and Hinkley in both directions."""
    # mean ← mean + (value − mean) / count, above ← max(0, above + value − mean − MIN_DEPARTURE), below likewise.
    after = watch.copy()
    after[N_VALUES] += 1.0
    after[FIRST_CLICK_MEAN] += (value - after[FIRST_CLICK_MEAN]) / after[N_VALUES]
    after[RUN_ABOVE] = max(0.0, after[RUN_ABOVE] + value - after[FIRST_CLICK_MEAN] - MIN_DEPARTURE)
    after[RUN_BELOW] = max(0.0, after[RUN_BELOW] + after[FIRST_CLICK_MEAN] - value - MIN_DEPARTURE)
    return after


@kernel
def _has_changed(watch: Floats, alarm: float) -> bool:
    """Return true if the values have departed from their mean by more than `alarm`; 0 is no alarm."""
    return bool(alarm > 0.0 and max(watch[RUN_ABOVE], watch[RUN_BELOW]) > alarm)


@kernel
def _swap_probability(
    features: Features, scores: Floats, covariance: Floats, upper: int, lower: int, alpha: float, floor: float
) -> float:
    """Return max(floor, Φ(−margin / (alpha · √(xᵀ Σ x)))) with the margin scores[upper] − scores[lower]."""
    margin = scores[upper] - scores[lower]
    if not margin > 0.0:
        return 0.5
    doubt = alpha * np.sqrt(max(_spread_of(covariance, _row_difference(features, upper, lower)), 0.0))
    if not doubt > 0.0:
        return floor
    probability = 0.5 * math.erfc(margin / doubt / math.sqrt(2.0))
    return probability if probability > floor else floor


@kernel
def _log_prob_of_pairs(
    rows: Features, scores: Floats, covariance: Floats, best: Ints, order: Ints, first: int, alpha: float, floor: float
) -> float:
    """Return the log-probability of a seen order when the pairs begin at `first`; −∞ if no swaps lead to it."""
    if first == 1 and order[0] != best[0]:
        return -np.inf
    total, n_seen = 0.0, len(order)
    for j in range(first, n_seen, 2):
        swapped = order[j] != best[j]
        if j + 1 == len(best):
            return -np.inf if swapped else total
        upper, lower = (best[j + 1], best[j]) if swapped else (best[j], best[j + 1])
        if order[j] != upper or (j + 1 < n_seen and order[j + 1] != lower):
            return -np.inf
        p = _swap_probability(rows, scores, covariance, best[j], best[j + 1], alpha, floor)
        total += np.log(p) if swapped else np.log(1.0 - p)
    return total


@kernel
def _present(
    features: Features, weights: Floats, covariance: Floats, shown: int, alpha: float, floor: float, draws: Floats
) -> tuple[Ints, float, Floats, int]:
    """Return the ranking with its doubtful pairs swapped, its log-probability, and the receipt's two fields."""
    scores = scores_of(features, weights)
    best = ranking_of(scores)
    n_items = len(best)
    n_seen, first = seen_count(shown, n_items), 0 if draws[0] < 0.5 else 1
    ranking, order_probabilities, log_propensity = best.copy(), np.ones(n_items // 2), 0.0
    for j in range(first, min(n_seen, n_items - 1), 2):
        p = _swap_probability(features, scores, covariance, best[j], best[j + 1], alpha, floor)
        if draws[1 + j // 2] < p:
            ranking[j], ranking[j + 1] = best[j + 1], best[j]
        else:
            p = 1.0 - p
        order_probabilities[j // 2] = p
        log_propensity += np.log(p)
    # The same ranking may come from the other pairing; both have probability ½.
    other = _log_prob_of_pairs(features, scores, covariance, best, ranking[:n_seen], 1 - first, alpha, floor)
    return ranking, np.logaddexp(log_propensity, other) - LOG_2, order_probabilities, first


@kernel
def _learn_pairs(
    features: Features,
    weights: Floats,
    precision: Floats,
    covariance: Floats,
    ranking: Ints,
    order_probabilities: Floats,
    first: int,
    clicked: Floats,
) -> tuple[Floats, Floats, Floats, bool]:
    """Take a Newton step for each pair of a seen ranking that was clicked unequally."""
    weights, precision, covariance, lost = weights.copy(), precision.copy(), covariance.copy(), False
    for j in range(first, len(ranking) - 1, 2):
        preference = clicked[ranking[j]] - clicked[ranking[j + 1]]
        # Weighted by the probability of the other order, a pair counts equally whichever item stood above.
        weight = abs(preference) * 2.0 * (1.0 - order_probabilities[j // 2])
        if weight > 0.0:
            x = _row_difference(features, ranking[j], ranking[j + 1])
            if preference < 0.0:
                x = -x
            step, digits_lost = _inform(precision, covariance, x, weight, surprise_of(weights, x))
            weights += step
            lost = lost or digits_lost
    return weights, precision, covariance, lost


@kernel
def _in_sight(features: Features, n_items: int, n_columns: int) -> Floats:
    """Return 1 for each column that is not 0 in every item, else 0."""
    in_use = np.zeros(n_columns)
    for item in range(n_items):
        row = np.zeros(n_columns)
        add_row(row, features, item, 1.0)
        in_use += row != 0.0
    return np.minimum(in_use, 1.0)


@kernel
def _observed(
    watch: Floats, alarm: float, ranking: Ints, shown: int, chances: Floats, first: int, items: Ints, weights: Floats
) -> tuple[Floats, Floats, bool, bool, bool]:
    """Return click weights, new statistics, and flags for a change, a decided pair and valid order probabilities."""
    clicked, decided, valid = clicked_weights(len(ranking), items, weights), False, True
    seen_items = ranking[: seen_count(shown, len(ranking))]
    after = _watched(watch, _first_click(seen_items, clicked))
    for j in range(first, len(seen_items) - 1, 2):
        decided |= clicked[seen_items[j]] != clicked[seen_items[j + 1]]
    for chance in chances:
        valid &= 0.0 <= chance <= 1.0
    return clicked, after, _has_changed(after, alarm), decided, valid


@register("newton_pairs")
class NewtonPairs(SparseLearner):
    """Swap neighbours where their order is in doubt, and take a Newton step for each pair with unequal clicks.

    Neighbouring positions are paired, beginning at the first or the second with probability ½. A pair whose features
    differ by x is swapped with probability

      max(`floor`, Φ(−w · x / (`alpha` · √(xᵀ Σ x)))),

    so no item moves more than one position. A pair with unequal clicks counts by c = 2 · (1 − P(the order shown)) times
    their difference: in expectation the same in either order, so the bias of the positions cancels. With x = winner −
    loser and q = σ(w · x),

      Λ ← Λ + c · q (1 − q) · x xᵀ,  Σ = Λ⁻¹,  w ← w + c · (1 − q) · Σ x.

    Λ begins at `ridge` · I. Every few rounds old evidence is discounted: Λ ← γ Λ + (1 − γ) · `ridge` · I for each
    round, with γ = 1 − 1 / `memory`.

    A change of the users is detected from v = 1 / (1 + the position of the first click), 0 without a click. When v has
    departed from its mean by more than `alarm` in sum (Page and Hinkley's test, departures below 0.1 not counted), 97 %
    of the evidence is discounted, and w ← w − 0.97 · `ridge` · Σ (w − `start`) in the columns that this query has.

    Recommended for clicks on search-like lists, with up to some hundred features; a step costs n_features². With more
    features set `diagonal`; with `hashed` columns only those of the query are discounted.

    Args:
      ridge: The precision of each weight at first.
      alpha: The number of standard deviations within which a margin is in doubt.
      floor: The smallest probability with which a pair is swapped.
      memory: The number of rounds after which evidence is discounted.
      alarm: The sum of departures that counts as a change of the users; 0 turns the detector off.
      diagonal: If true, only the diagonal of Λ is kept, and a step costs n_features.
      start: The first weights; zeros if empty.

    References:
      Radlinski and Joachims (2006), Minimally Invasive Randomization for Collecting Unbiased Preferences from
      Clickthrough Logs. Raman et al. (2013), Stable Coactive Learning via Perturbation. Hazan, Agarwal and Kale (2007),
      Logarithmic Regret Algorithms for Online Convex Optimization. Page (1954), Continuous Inspection Schemes.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("newton_pairs", "web_search", "dcm", "nDCG@10"), 3)
      0.526
    """

    ridge: Ridge = 10.0
    alpha: Positive = 2.0
    floor: Annotated[float, partial(check_between, 0, 0.5)] = 0.05
    memory: PositiveCount = 30_000
    alarm: NotNegative = 15.0
    diagonal: bool = False
    start: FiniteNumbers = ()

    weighs_clicks: ClassVar[bool] = True  # a click of weight v counts v times, so outcomes can be learned
    reports: ClassVar[tuple[str, ...]] = ("alarms",)
    examples: ClassVar[Examples] = (
        {},
        {"ridge": 0.5, "alpha": 0.5, "floor": 0.0, "memory": 2, "alarm": 0.0},
        {"diagonal": True, "ridge": 1.0, "floor": 0.5, "memory": 40, "alarm": 0.5},
    )

    @cached_property
    def _batch(self) -> int:
        """The number of rounds after which evidence is discounted and the inverse is rebuilt."""
        return max(1, min(MAX_BATCH_ROUNDS, self.memory // MIN_BATCHES_IN_MEMORY))

    def init(self, problem: Problem) -> State:
        weights, n = self.first_weights(problem), problem.n_features
        unit, watch = np.ones(n) if self.diagonal else np.eye(n), np.zeros(N_STATISTICS)
        return State(weights, self.ridge * unit, unit / self.ridge, weights, watch, 0, shown_or_all(problem), 0)

    def with_table_entries(self, state: State, entries: Floats) -> State:
        """Return the state with the weights and the evidence of these columns; a change does not move such weights."""
        precision = self.ridge + entries[:, 1]
        weights = np.ascontiguousarray(entries[:, 0])
        return state._replace(weights=weights, precision=precision, covariance=1.0 / precision, origin=weights)

    def table_entries_of(self, state: State) -> Floats:
        """Return the weights, and their precisions less the ridge."""
        return np.column_stack([state.weights, state.precision - self.ridge])

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        draws = rng.random(1 + query.n_items // 2)
        ranking, log_propensity, order_probabilities, first = _present(
            query.features, state.weights, state.covariance, state.shown, self.alpha, self.floor, draws
        )
        return Decision(ranking, log_propensity, Receipt(order_probabilities, first))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        order_probabilities, first = decision.receipt
        check_receipt(order_probabilities.shape == (len(decision.ranking) // 2,) and 0 <= first <= 1)
        items, clicks = expect(feedback, Clicks)
        clicked, watch, changed, decided, valid = _observed(
            state.watch, self.alarm, decision.ranking, state.shown, order_probabilities, first, items, clicks
        )
        check_receipt(valid)
        rounds = state.rounds + 1
        due = rounds % self._batch == 0  # This round discounts old evidence and rebuilds the inverse.
        if not due and not changed and not decided:
            return state._replace(watch=watch, rounds=rounds)
        seen_items, weights = seen_part(decision.ranking, state.shown), state.weights
        weights, precision, covariance, lost = _learn_pairs(
            query.features, weights, state.precision, state.covariance, seen_items, order_probabilities, first, clicked
        )
        if due:
            _forget(precision, self.ridge, (1 - 1 / self.memory) ** self._batch)
        if changed:
            _forget(precision, self.ridge, KEPT_AFTER_CHANGE)
        if due or lost or changed:
            covariance = _inverse_of(precision)
        if changed:  # The weights of the query's columns move back as far as evidence was discounted.
            away, ridge = weights - state.origin, (1.0 - KEPT_AFTER_CHANGE) * self.ridge
            pulled = ridge * covariance * away if covariance.ndim == 1 else ridge * times(covariance, away)
            in_sight = _in_sight(query.features, query.n_items, len(weights)) > 0.0
            weights, watch = np.where(in_sight, weights - pulled, weights), np.zeros(N_STATISTICS)
        weights, precision, covariance = require_finite(weights), require_finite(precision), require_finite(covariance)
        return State(weights, precision, covariance, state.origin, watch, state.alarms + changed, state.shown, rounds)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        scores, order = scores_of(query.features, state.weights), seen_part(ranking, state.shown)
        best, covariance, alpha, floor = ranking_of(scores), state.covariance, self.alpha, self.floor
        even = _log_prob_of_pairs(query.features, scores, covariance, best, order, 0, alpha, floor)
        odd = _log_prob_of_pairs(query.features, scores, covariance, best, order, 1, alpha, floor)
        return float(np.logaddexp(even, odd)) - LOG_2
