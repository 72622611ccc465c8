"""Newton pairs: safe swaps where the order is in doubt, and a Newton step from the click on either item of a pair."""

import functools
import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_at_least, check_between, check_not_negative, check_positive
from rankloop.core.kernels import add_row, clicked_weights, kernel, ranking_of, row_difference, scores_of, seen_count
from rankloop.core.learner import SparseLearner, check_receipt, expect, require_finite, seen_part, shown_or_all
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Features, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.precision import (
    MAX_RIDGE,
    MIN_RIDGE,
    forget,
    inform,
    inverse_of,
    pulled_back,
    spread_of,
    surprise_of,
)

MAX_BATCH, BATCHES = 128, 16  # the inverse is rebuilt after so many rounds, and at least so often within the memory
KEPT = 0.03  # of the evidence, when people have changed
MEAN, ABOVE, BELOW, COUNT, N_NUMBERS = range(5)  # the entries of a watch
SLACK = 0.1  # departures from the mean of less than this do not add up
ROUNDING = 1e-9
LOG_2 = math.log(2)


class State(NamedTuple):
    """The weights now and at first, a precision with its inverse (matrices, or their diagonals), what is watched."""

    weights: Floats
    precision: Floats
    covariance: Floats
    origin: Floats
    watch: Floats
    alarms: int  # how often people have changed
    shown: int
    rounds: int

    def reachable(self, initial: "State") -> bool:
        """Precision never falls below the ridge that it began with, and no variance below 0."""
        precision, ridge = _diagonal_of(self.precision), _diagonal_of(initial.precision)
        are_precise = np.all(precision >= ridge * (1 - ROUNDING)) and np.all(_diagonal_of(self.covariance) >= 0)
        return bool(are_precise and is_watch(self.watch))


class Receipt(NamedTuple):
    """The probability of the order in which each pair was shown, and where the pairs begin."""

    order_probabilities: Floats
    first: int


def is_watch(watch: Floats) -> bool:
    """Whether values from 0 to 1 can lead to these numbers."""
    return bool(np.all(watch >= 0.0) and watch[MEAN] <= 1.0)


def _diagonal_of(matrix: Floats) -> Floats:
    return matrix if matrix.ndim == 1 else np.diagonal(matrix)


@kernel
def first_click(seen: Ints, clicked: Floats) -> float:
    """1 / (1 + the position of the first click); 0 of no click."""
    for position in range(len(seen)):
        if clicked[seen[position]] > 0.0:
            return 1.0 / (1.0 + position)
    return 0.0


@kernel
def watched(watch: Floats, value: float) -> Floats:
    """The watch after one more value: the mean of all, and how far they have lately run above it, and below it.

    mean ← mean + (value − mean) / count, above ← max(0, above + value − mean − SLACK), below likewise.
    """
    after = watch.copy()
    after[COUNT] += 1.0
    after[MEAN] += (value - after[MEAN]) / after[COUNT]
    after[ABOVE] = max(0.0, after[ABOVE] + value - after[MEAN] - SLACK)
    after[BELOW] = max(0.0, after[BELOW] + after[MEAN] - value - SLACK)
    return after


@kernel
def has_changed(watch: Floats, alarm: float) -> bool:
    """Whether the values have run away from their mean by more than `alarm` (0: nothing is ever an alarm)."""
    return bool(alarm > 0.0 and max(watch[ABOVE], watch[BELOW]) > alarm)


@kernel
def swap_probability(
    features: Features, scores: Floats, covariance: Floats, upper: int, lower: int, alpha: float, floor: float
) -> float:
    """max(floor, Φ(−margin / (alpha · √spread))) of two items with the margin scores[upper] − scores[lower]."""
    margin = scores[upper] - scores[lower]
    if not margin > 0.0:
        return 0.5
    doubt = alpha * np.sqrt(max(spread_of(covariance, row_difference(features, upper, lower)), 0.0))
    if not doubt > 0.0:
        return floor
    probability = 0.5 * math.erfc(margin / doubt / math.sqrt(2.0))
    return probability if probability > floor else floor


@kernel
def _fits(best: Ints, ranking: Ints, first: int) -> bool:
    """Whether swaps of the pairs from `first` on lead from `best` to this ranking, of which the end may be unseen."""
    seen = len(ranking)
    if first == 1 and ranking[0] != best[0]:
        return False
    for j in range(first, seen, 2):
        if ranking[j] == best[j]:
            if j + 1 < seen and ranking[j + 1] != best[j + 1]:
                return False
        elif j + 1 == len(best) or ranking[j] != best[j + 1] or (j + 1 < seen and ranking[j + 1] != best[j]):
            return False
    return True


@kernel
def _log_prob_of_pairs(
    features: Features,
    scores: Floats,
    covariance: Floats,
    best: Ints,
    ranking: Ints,
    first: int,
    alpha: float,
    floor: float,
) -> float:
    """The log-probability of what is seen of a ranking when pairs begin at `first`; what does not fit costs nothing."""
    if not _fits(best, ranking, first):
        return -np.inf
    total = 0.0
    for j in range(first, min(len(ranking), len(best) - 1), 2):
        p = swap_probability(features, scores, covariance, best[j], best[j + 1], alpha, floor)
        total += np.log(p) if ranking[j] != best[j] else np.log(1.0 - p)
    return total


@kernel
def log_prob_of(
    features: Features, weights: Floats, covariance: Floats, ranking: Ints, shown: int, alpha: float, floor: float
) -> float:
    """log ½ (P(ranking | pairs from 0) + P(ranking | pairs from 1)), over the part that is seen."""
    scores = scores_of(features, weights)
    best, seen = ranking_of(scores), ranking[: seen_count(shown, len(scores))]
    total = -np.inf
    for first in range(2):
        of_pairs = _log_prob_of_pairs(features, scores, covariance, best, seen, first, alpha, floor)
        total = np.logaddexp(total, of_pairs)
    return total - LOG_2


@kernel
def present(
    features: Features, weights: Floats, covariance: Floats, shown: int, alpha: float, floor: float, draws: Floats
) -> tuple[Ints, float, Floats, int]:
    """The ranking with its doubtful pairs swapped, its log-probability, and the receipt.

    A pair with both items below the seen part stays as it is.
    """
    scores = scores_of(features, weights)
    best = ranking_of(scores)
    n_items = len(best)
    seen, first = seen_count(shown, n_items), 0 if draws[0] < 0.5 else 1
    ranking, order_probabilities, log_propensity = best.copy(), np.ones(n_items // 2), 0.0
    for j in range(first, min(seen, n_items - 1), 2):
        p = swap_probability(features, scores, covariance, best[j], best[j + 1], alpha, floor)
        if draws[1 + j // 2] < p:
            ranking[j], ranking[j + 1] = best[j + 1], best[j]
        else:
            p = 1.0 - p
        order_probabilities[j // 2] = p
        log_propensity += np.log(p)
    other = _log_prob_of_pairs(features, scores, covariance, best, ranking[:seen], 1 - first, alpha, floor)
    return ranking, np.logaddexp(log_propensity, other) - LOG_2, order_probabilities, first


@kernel
def learn_pairs(
    features: Features,
    weights: Floats,
    precision: Floats,
    covariance: Floats,
    ranking: Ints,
    order_probabilities: Floats,
    first: int,
    clicked: Floats,
) -> tuple[Floats, Floats, Floats, bool]:
    """A Newton step for each pair of a seen ranking that was clicked unequally.

    Gives new weights, precision and inverse, and tells whether the inverse has lost digits.
    """
    weights, precision, covariance, lost = weights.copy(), precision.copy(), covariance.copy(), False
    for j in range(first, len(ranking) - 1, 2):
        preference = clicked[ranking[j]] - clicked[ranking[j + 1]]
        weight = abs(preference) * 2.0 * (1.0 - order_probabilities[j // 2])
        if weight > 0.0:
            x = row_difference(features, ranking[j], ranking[j + 1])
            if preference < 0.0:
                x = -x
            step, digits_lost = inform(precision, covariance, x, weight, surprise_of(weights, x))
            weights += step
            lost = lost or digits_lost
    return weights, precision, covariance, lost


@kernel
def is_decided(ranking: Ints, first: int, clicked: Floats) -> bool:
    """Whether some pair of a seen ranking was clicked unequally."""
    for j in range(first, len(ranking) - 1, 2):
        if clicked[ranking[j]] != clicked[ranking[j + 1]]:
            return True
    return False


@kernel
def in_sight(features: Features, n_items: int, n_columns: int) -> Floats:
    """1 for each column that is not 0 in every item, else 0."""
    seen = np.zeros(n_columns)
    for item in range(n_items):
        row = np.zeros(n_columns)
        add_row(row, features, item, 1.0)
        seen += row != 0.0
    return np.minimum(seen, 1.0)


@kernel
def _observed(
    watch: Floats, alarm: float, ranking: Ints, shown: int, first: int, items: Ints, click_weights: Floats
) -> tuple[Floats, Floats, bool, bool]:
    """The weight of the click on each item, the watch after it, and whether people have changed or decided a pair."""
    clicked, seen = clicked_weights(len(ranking), items, click_weights), ranking[: seen_count(shown, len(ranking))]
    after = watched(watch, first_click(seen, clicked))
    return clicked, after, has_changed(after, alarm), is_decided(seen, first, clicked)


@kernel
def _are_probabilities(values: Floats) -> bool:
    for value in values:
        if not 0.0 <= value <= 1.0:
            return False
    return True


@register("newton_pairs")
class NewtonPairs(SparseLearner):
    """Swaps of neighbours where their order is in doubt, and a Newton step for each pair that clicks decide.

    Neighbouring positions are paired, beginning at the first or the second with probability ½. With x the difference
    of the two items' features, a pair is swapped with probability max(`floor`, Φ(−w · x / (`alpha` · √(xᵀ Σ x)))):
    sure pairs are hardly disturbed, doubtful ones are tried, and no item moves more than one position. A pair of which
    one item was clicked and the other was not counts, whichever stood above, with c = 2 · (1 − P(the order shown))
    times the difference of the clicks: in expectation as much in either order, so that the bias of their positions
    cancels. With x now winner − loser and q = σ(w · x), the precision Λ, at first `ridge` · I, gets c · q (1 − q) x xᵀ,
    and w ← w + c · (1 − q) · Σ x with Σ = Λ⁻¹. What is older than about `memory` rounds is forgotten:
    Λ ← γ Λ + (1 − γ) · `ridge` · I a round, γ = 1 − 1 / `memory`, done for some rounds at a time.

    People are watched by 1 / (1 + the position of their first click), 0 without one. Once this has run away from its
    mean by more than `alarm` in sum, departures of less than .1 a round not counted (the test of Page and Hinkley, in
    both directions), they have changed: all but 3 % of the evidence is forgotten, w ← w − .97 · `ridge` ·
    Σ (w − `start`) with the new Σ in the columns in sight, and the watch begins again. 0 is no alarm.

    Use it behind a search box with up to some hundred features; its step costs n_features². With many features take
    `diagonal`, which keeps the diagonal of Λ alone and costs n_features; with `hashed` columns those in sight forget.
    Its parameters were chosen on MQ2007 and MQ2008.
    References: Raman et al. (2013), Stable Coactive Learning via Perturbation, for the swaps; Radlinski and Joachims
    (2006), Minimally Invasive Randomization for Collecting Unbiased Preferences from Clickthrough Logs; Hazan, Agarwal
    and Kale (2007), Logarithmic Regret Algorithms for Online Convex Optimization, for the online Newton step; Page
    (1954), Continuous Inspection Schemes, for the alarm.
    """

    ridge: float = 10.0
    alpha: float = 2.0
    floor: float = 0.05
    memory: int = 30_000
    alarm: float = 15.0
    diagonal: bool = False
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    reports: ClassVar[tuple[str, ...]] = ("alarms",)
    examples: ClassVar[tuple[Spec, ...]] = (
        {},
        {"ridge": 0.5, "alpha": 0.5, "floor": 0.0, "memory": 2, "alarm": 0.0},
        {"diagonal": True, "ridge": 1.0, "floor": 0.5, "memory": 40, "alarm": 0.5},
    )

    def __post_init__(self) -> None:
        check_between(MIN_RIDGE, MAX_RIDGE, ridge=self.ridge)
        check_positive("alpha", self.alpha)
        check_not_negative("alarm", self.alarm)
        super().__post_init__()
        check_between(0, 0.5, floor=self.floor)
        check_at_least(1, memory=self.memory)

    @functools.cached_property
    def _batch(self) -> int:
        """After so many rounds it forgets, and the inverse is rebuilt."""
        return max(1, min(MAX_BATCH, self.memory // BATCHES))

    @functools.cached_property
    def _kept(self) -> float:
        """γ to the power of the rounds of a batch."""
        return (1 - 1 / self.memory) ** self._batch

    def init(self, problem: Problem) -> State:
        weights, n = self.first_weights(problem), problem.n_features
        unit = np.ones(n) if self.diagonal else np.eye(n)
        return State(
            weights=weights,
            precision=self.ridge * unit,
            covariance=unit / self.ridge,
            origin=weights,
            watch=np.zeros(N_NUMBERS),
            alarms=0,
            shown=shown_or_all(problem),
            rounds=0,
        )

    def with_table_entries(self, state: State, entries: Floats) -> State:
        """The precisions are the ridge and the evidence of each column; an alarm leaves the weights where they are."""
        precision = self.ridge + entries[:, 1]
        weights = np.ascontiguousarray(entries[:, 0])
        return state._replace(weights=weights, precision=precision, covariance=1.0 / precision, origin=weights)

    def table_entries_of(self, state: State) -> Floats:
        return np.column_stack([state.weights, state.precision - self.ridge])

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        draws = rng.random(1 + query.n_items // 2)
        ranking, log_propensity, order_probabilities, first = present(
            query.features, state.weights, state.covariance, state.shown, self.alpha, self.floor, draws
        )
        return Decision(ranking, log_propensity, Receipt(order_probabilities, first))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        order_probabilities, first = decision.receipt
        check_receipt(order_probabilities.shape == (len(decision.ranking) // 2,) and 0 <= first <= 1)
        check_receipt(_are_probabilities(order_probabilities))
        items, clicks = expect(feedback, Clicks)
        clicked, watch, changed, decided = _observed(
            state.watch, self.alarm, decision.ranking, state.shown, first, items, clicks
        )
        rounds = state.rounds + 1
        due = rounds % self._batch == 0  # this round forgets, and rebuilds the inverse
        if not due and not changed and not decided:
            return state._replace(watch=watch, rounds=rounds)
        weights, precision, covariance, lost = learn_pairs(
            query.features,
            state.weights,
            state.precision,
            state.covariance,
            seen_part(decision.ranking, state.shown),
            order_probabilities,
            first,
            clicked,
        )
        if due:
            forget(precision, self.ridge, self._kept)
        if changed:
            forget(precision, self.ridge, KEPT)
        if due or lost or changed:
            covariance = inverse_of(precision)
        if changed:
            weights = self._after_change(state, query, weights, covariance)
            watch = np.zeros(N_NUMBERS)
        return State(
            weights=require_finite(weights),
            precision=require_finite(precision),
            covariance=require_finite(covariance),
            origin=state.origin,
            watch=watch,
            alarms=state.alarms + changed,
            shown=state.shown,
            rounds=rounds,
        )

    def _after_change(self, state: State, query: Query, weights: Floats, covariance: Floats) -> Floats:
        """Return the weights, of which those in sight have moved back as far as the evidence for them is forgotten."""
        pulled = pulled_back(weights, state.origin, covariance, (1.0 - KEPT) * self.ridge)
        return np.where(in_sight(query.features, query.n_items, len(weights)) > 0.0, pulled, weights)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return log_prob_of(
            query.features, state.weights, state.covariance, ranking, state.shown, self.alpha, self.floor
        )
