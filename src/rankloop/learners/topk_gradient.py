"""Gradient steps on a surrogate, estimated from the grades of the first few items: Algorithm 5 of Chaudhuri (2016)."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import FiniteNumbers, NotNegative, Positive, Probability
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ALL_POSITIONS, add_row, kernel, project, ranking_of, scores_of, seen_count
from rankloop.core.learner import SparseLearner, best_ranking, check_receipt, expect, require_finite, shown_or_all
from rankloop.core.protocols import Surrogate
from rankloop.core.registry import Examples, entry_of, register
from rankloop.core.types import Decision, Features, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners.ranking_perceptron import moved
from rankloop.surrogates.pairwise import RankSVM
from rankloop.surrogates.pointwise import KL, Squared

NO_KERNEL, SQUARED, KULLBACK_LEIBLER, SQUARED_GRADES, PAIR_HINGES = range(5)
MAX_PAIRED_ITEMS = 50  # graded: their pairs are counted one by one, which for more takes longer than sorting them


def _kernel_code(surrogate: Surrogate) -> int:
    """Return the code of a surrogate for `_kernel_step`, which implements the three that are used most."""
    if isinstance(surrogate, Squared):
        return SQUARED_GRADES if surrogate.divided == "grade" else SQUARED
    return (
        PAIR_HINGES if isinstance(surrogate, RankSVM) else KULLBACK_LEIBLER if isinstance(surrogate, KL) else NO_KERNEL
    )


class GradedItems(NamedTuple):
    """The grades of a round, and what decides how likely they were revealed."""

    items: Ints  # The graded items.
    grades: Floats  # Their grades.
    familiar: Ints  # The items that would have been graded without exploration.
    exploration: float  # γ.
    floor: float  # The smallest probability that is divided by.


@kernel
def _prefix_log_prob(best: Ints, ranking: Ints, gamma: float, shown: int) -> float:
    """Return log((1 − γ)·[the seen part is the best one] + γ · (m − seen)! / m!): Algorithm 5, line 6."""
    n_items = len(best)
    n_seen = seen_count(shown, n_items)
    probability, is_best = gamma, True
    for position in range(n_seen):
        probability /= n_items - position
        is_best &= best[position] == ranking[position]
    probability += 1.0 - gamma if is_best else 0.0
    return math.log(probability) if probability > 0.0 else -math.inf


@kernel
def _inclusion(n_items: int, depth: int, span: int, gamma: float, familiar: bool) -> float:
    """Return P(`span` items are graded), (3.8): γ·k(k−1)…/(m(m−1)…), plus 1 − γ if they are in the best ranking."""
    probability = gamma
    for i in range(span):
        probability *= (depth - i) / (n_items - i)
    return 1.0 - gamma + probability if familiar else probability


@kernel
def _probabilities(graded: GradedItems, n_items: int, span: int) -> tuple[float, float]:
    """Return P of a familiar set and of another, none below the floor."""
    depth = len(graded.items)
    likely = max(_inclusion(n_items, depth, span, graded.exploration, True), graded.floor)
    return likely, max(_inclusion(n_items, depth, span, graded.exploration, False), graded.floor)


def _estimated_gradient(surrogate: Surrogate, scores: Floats, graded: GradedItems) -> Floats:
    """Return z = Σ_A h_A / max(P(A), floor) over the sets A of `surrogate.span` graded items.

    h_A is the share of A in the gradient. The ranking was the best one with probability 1 − `exploration`, else
    uniformly random. At floor 0 the mean of z is the gradient in the scores: Lemma 25, equation (3.10), with all
    grades used.
    """
    (items, grades, familiar, _, _), n_items = graded, len(scores)
    span = n_items if surrogate.span is None else min(surrogate.span, n_items)
    likely, unlikely = _probabilities(graded, n_items, span)
    terms = surrogate.terms(scores, items, grades)
    is_familiar = np.isin(items, familiar) if len(items) < n_items else np.ones(n_items, np.bool_)
    shared = terms if is_familiar.all() else surrogate.terms(scores, items[is_familiar], grades[is_familiar])
    with np.errstate(all="ignore"):  # a step that is not finite is refused later
        return terms / likely if shared is terms else shared / likely + (terms - shared) / unlikely


@kernel
def _pair_slopes(scores: Floats, graded: GradedItems) -> Floats:
    """Return `_estimated_gradient` of rank_svm: the pairs in which each item takes part, familiar ones apart."""
    items, grades, n_items = graded.items, graded.grades, len(scores)
    likely, unlikely = _probabilities(graded, n_items, min(2, n_items))
    is_familiar, counts = np.empty(len(items), np.bool_), np.zeros((2, n_items))
    for position in range(len(items)):
        is_familiar[position] = len(items) == n_items or np.any(graded.familiar == items[position])
    for higher in range(len(items)):
        for lower in range(len(items)):
            if grades[higher] > grades[lower] and 1.0 + scores[items[lower]] - scores[items[higher]] > 0.0:
                row = 0 if is_familiar[higher] and is_familiar[lower] else 1
                counts[row, items[higher]] -= 1.0
                counts[row, items[lower]] += 1.0
    for item in range(n_items):
        counts[0, item] /= likely
        if counts[1, item] != 0.0:
            counts[0, item] += counts[1, item] / unlikely
    return counts[0]  # type: ignore[no-any-return]


@kernel
def _kernel_step(
    weights: Floats, features: Features, graded: GradedItems, code: int, sharpness: float, rate: float, radius: float
) -> Floats:
    """Step along `_estimated_gradient` of squared, kl or rank_svm, at scores that are multiplied by the sharpness.

    With SQUARED_GRADES the part of the gradient that needs no grade, 2 · scores, is not divided by a probability.
    """
    scores = scores_of(features, weights) * sharpness
    after, n_items, n_graded = weights.copy(), len(scores), len(graded.items)
    likely, unlikely = _probabilities(graded, n_items, 1)
    slopes = _pair_slopes(scores, graded) if code == PAIR_HINGES else 2.0 * scores
    for item in range(n_items if code in (PAIR_HINGES, SQUARED_GRADES) else 0):
        if slopes[item] != 0.0:
            add_row(after, features, item, -rate * slopes[item])
    for position in range(0 if code == PAIR_HINGES else n_graded):
        item, grade = graded.items[position], graded.grades[position]
        if code == KULLBACK_LEIBLER:
            slope = np.exp(scores[item]) - np.exp(grade)
        else:
            slope = 2.0 * ((0.0 if code == SQUARED_GRADES else scores[item]) - grade)
        slope /= likely if n_graded == n_items or np.any(graded.familiar == item) else unlikely
        if slope != 0.0:
            add_row(after, features, item, -rate * slope)
    project(after, radius)
    return after


class State(NamedTuple):
    """The weights."""

    weights: Floats  # One weight for each feature.
    steps: int  # The number of rounds learned.
    depth: int  # The number of positions that are graded, −1 for all.
    shown: int  # The number of positions that are seen, −1 for all.


class Receipt(NamedTuple):
    """The items that would have been graded without exploration, and γ."""

    familiar: Ints
    exploration: float


@kernel
def _draw(
    features: Features, weights: Floats, draws: Floats, gamma: float, depth: int, shown: int
) -> tuple[Ints, Ints, float]:
    """Return the ranking, the items that would be graded without exploration, and the ranking's log-probability."""
    best = ranking_of(scores_of(features, weights))
    ranking = ranking_of(draws[1:]) if draws[0] < gamma else best
    familiar = best[: seen_count(depth, len(best))].copy()
    return ranking, familiar, _prefix_log_prob(best, ranking, gamma, shown)


@register("topk_gradient")
class TopKGradient(SparseLearner):
    """Gradient descent on a surrogate, from an unbiased estimate of its gradient by the grades of the first k items.

      w ← Π(w − η_t · Σ_i z_i · features[i]),  z = Σ_A h_A / max(P(A), `floor`).

    With probability 1 − γ_t the ranking by features · w is shown, else a uniformly random one, and the first k = depth
    items are graded. Every set A of `surrogate.span` graded items adds its share h_A of the gradient, divided by the
    probability that A is graded, P(A) = (1 − γ_t)·[A in the best k] + γ_t · k(k−1)… / (m(m−1)…). In round t = 1, 2, …

      γ_t = min(½, `exploration` · t^−`exploration_decay`),  η_t = `learning_rate` · t^−`learning_rate_decay`.

    `floor` = 0 is exactly unbiased and needs much exploration and small steps (exploration = 1, learning_rate = 0.001);
    a floor keeps a single unlikely round from moving the weights far, at the price of a bias. The schedules are those
    of the thesis. Recommended for grades of the first k items.

    Args:
      surrogate: The surrogate loss.
      floor: The smallest probability that is divided by.
      exploration: γ_1, the first exploration probability.
      exploration_decay: The exponent with which γ_t falls.
      learning_rate: η_1, the first step size.
      learning_rate_decay: The exponent with which η_t falls.
      smoothing_decay: The exponent with which the smoothing of `smooth_dcg` falls (annealing).
      radius: The largest norm of the weights; no projection Π if None.
      start: The first weights; zeros if empty.

    References:
      Chaudhuri and Tewari (2017), Online Learning to Rank with Top-k Feedback. Chaudhuri (2016), Learning to Rank:
      Online Learning, Statistical Theory and Applications, Algorithm 5.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("topk_gradient", "linear_gaussian(n_items=6, n_features=3)", "top_k(depth=2)", "nDCG@5"), 3)
      0.91
    """

    surrogate: Surrogate = Squared()
    floor: Probability = 0.3
    exploration: NotNegative = 0.1
    exploration_decay: NotNegative = 1 / 3
    learning_rate: Positive = 0.01
    learning_rate_decay: NotNegative = 2 / 3
    smoothing_decay: NotNegative = 0.0
    radius: Positive | None = None
    start: FiniteNumbers = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("steps",)
    examples: ClassVar[Examples] = (
        {},
        {"surrogate": "rank_svm", "floor": 0.0, "exploration": 1.0, "learning_rate": 0.001},
        {"surrogate": "smooth_dcg", "smoothing_decay": 0.1, "radius": 2.0},
        {"surrogate": "list_net"},
        {"surrogate": "squared(divided='grade')", "learning_rate": 0.001},
    )

    def __post_init__(self) -> None:
        if self.smoothing_decay and not hasattr(self.surrogate, "smoothing"):
            raise InvalidInput(f"{entry_of(self.surrogate).kind} has no smoothing: leave smoothing_decay at 0")

    def init(self, problem: Problem) -> State:
        span, n_graded = self.surrogate.span, math.inf if problem.depth is None else problem.depth
        if (math.inf if span is None else span) > n_graded and (problem.n_items or math.inf) > n_graded:
            needed = "all items (no depth limit)" if span is None else f"depth {span} or more"
            gradient = f"the gradient of {entry_of(self.surrogate).kind}"
            fault = f"{gradient} cannot be estimated from the grades of the first {n_graded} item(s)"
            raise InvalidInput(f"{fault}: it needs {needed}; squared and kl need depth 1, rank_svm depth 2")
        depth = ALL_POSITIONS if problem.depth is None else problem.depth
        return State(self.first_weights(problem), 0, depth, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        gamma, draws = self._gamma(state), rng.random(query.n_items + 1)
        ranking, familiar, log_propensity = _draw(query.features, state.weights, draws, gamma, state.depth, state.shown)
        return Decision(ranking, log_propensity, Receipt(familiar, gamma))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        steps, code = state.steps + 1, _kernel_code(self.surrogate)
        items, grades = expect(feedback, Relevances)
        familiar, exploration = decision.receipt
        check_receipt(familiar.shape == items.shape and 0.0 <= exploration <= 1.0)
        graded = GradedItems(items, grades, familiar, exploration, self.floor)
        sharpness = math.pow(steps, self.smoothing_decay)
        rate = self.learning_rate * sharpness * math.pow(steps, -self.learning_rate_decay)
        radius = math.inf if self.radius is None else self.radius
        if code == NO_KERNEL or (code == PAIR_HINGES and len(items) > MAX_PAIRED_ITEMS):
            slope = _estimated_gradient(self.surrogate, scores_of(query.features, state.weights) * sharpness, graded)
            weights = moved(state.weights, query.features, np.arange(len(slope)), slope, rate)
            project(weights, radius)
        else:
            weights = _kernel_step(state.weights, query.features, graded, code, sharpness, rate, radius)
        return State(require_finite(weights), steps, state.depth, state.shown)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return _prefix_log_prob(best_ranking(query.features, state.weights), ranking, self._gamma(state), state.shown)

    def _gamma(self, state: State) -> float:
        return min(0.5, self.exploration * math.pow(state.steps + 1, -self.exploration_decay))
