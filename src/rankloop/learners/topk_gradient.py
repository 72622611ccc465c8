"""Gradient steps on a surrogate, estimated without bias from the grades of the first few items.

For surrogates that need single grades or pairs, estimate and step are one kernel.
Equations, lines and lemmas are those of Chaudhuri (2016), Algorithm 5.
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import NotNegative, check_between
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ALL_POSITIONS, add_row, kernel, project, ranking_of, scores_of, seen_count
from rankloop.core.learner import (
    SparseLearner,
    best_ranking,
    check_receipt,
    expect,
    require_finite,
    shown_or_all,
)
from rankloop.core.protocols import Surrogate
from rankloop.core.registry import Spec, entry_of, register
from rankloop.core.types import Decision, Features, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners.ranking_perceptron import moved
from rankloop.surrogates.kl import KL, kl_term
from rankloop.surrogates.rank_svm import RankSVM, rank_svm_terms
from rankloop.surrogates.smooth_dcg import SmoothDCG, smooth_terms
from rankloop.surrogates.squared_loss import Squared, squared_term

SQUARED, KULLBACK_LEIBLER, RANK_SVM, SQUARED_GRADES, SMOOTH_DCG = range(5)
KERNEL_CODES: dict[type, int] = {Squared: SQUARED, KL: KULLBACK_LEIBLER, RankSVM: RANK_SVM, SmoothDCG: SMOOTH_DCG}


def _kernel_code(surrogate: Surrogate) -> int:
    """Return the code of a surrogate that the kernels implement; −1 for another."""
    if isinstance(surrogate, Squared) and surrogate.divided == "grade":
        return SQUARED_GRADES
    return KERNEL_CODES.get(type(surrogate), -1)


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
    probability = gamma
    for position in range(n_seen):
        probability /= n_items - position
    for position in range(n_seen):
        if best[position] != ranking[position]:
            return math.log(probability) if probability > 0.0 else -math.inf
    return math.log(1.0 - gamma + probability)


@kernel
def _inclusion(n_items: int, depth: int, span: int, gamma: float, familiar: bool) -> float:
    """Return P(`span` items are graded), (3.8): γ·k(k−1)…/(m(m−1)…), plus 1 − γ if they are in the best ranking."""
    probability = gamma
    for i in range(span):
        probability *= (depth - i) / (n_items - i)
    return 1.0 - gamma + probability if familiar else probability


@kernel
def _contains(items: Ints, item: int) -> bool:
    """Return true if the item is in the array."""
    contains = False
    for other in items:
        contains |= other == item
    return contains


@kernel
def _all_familiar(graded: GradedItems, n_items: int) -> bool:
    """Return true if every graded item would have been graded without exploration."""
    if len(graded.items) < n_items:
        for item in graded.items:
            if not _contains(graded.familiar, item):
                return False
    return True


@kernel
def _probabilities(graded: GradedItems, n_items: int, span: int) -> tuple[float, float]:
    """Return P of a familiar set and of another, none below the floor."""
    depth = len(graded.items)
    likely = max(_inclusion(n_items, depth, span, graded.exploration, True), graded.floor)
    return likely, max(_inclusion(n_items, depth, span, graded.exploration, False), graded.floor)


@kernel
def _familiar_part(graded: GradedItems) -> tuple[Ints, Floats]:
    """Return the graded items that the best ranking would have had graded too, with their grades."""
    familiar, n_familiar = np.empty(len(graded.items), np.int64), 0
    for position in range(len(graded.items)):
        if _contains(graded.familiar, graded.items[position]):
            familiar[n_familiar] = position
            n_familiar += 1
    return graded.items[familiar[:n_familiar]], graded.grades[familiar[:n_familiar]]


@kernel
def _weighted(terms: Floats, shared: Floats, likely: float, unlikely: float) -> Floats:
    """Divide the share of each set by its probability, as in (3.10); familiar sets are the likely ones."""
    return shared / likely + (terms - shared) / unlikely


def _estimated_gradient(surrogate: Surrogate, scores: Floats, graded: GradedItems) -> Floats:
    """Return z = Σ_A h_A / max(P(A), floor) over the sets A of `surrogate.span` graded items.

    h_A is the share of A in the gradient. The ranking was the best one with probability 1 − `exploration`, else
    uniformly random. At floor 0 the mean of z is the gradient in the scores: Lemma 25, equation (3.10), with all
    grades used. A surrogate of span 1 may have a `known_part` of its gradient, which is added in full and
    subtracted from the shares.
    """
    n_items = len(scores)
    span = n_items if surrogate.span is None else min(surrogate.span, n_items)
    likely, unlikely = _probabilities(graded, n_items, span)
    known_part = getattr(surrogate, "known_part", np.zeros_like)(scores)

    def shares(items: Ints, grades: Floats) -> Floats:
        known_shares = np.zeros(n_items)
        known_shares[items] = known_part[items]
        return surrogate.terms(scores, items, grades) - known_shares

    terms = shares(graded.items, graded.grades)
    if _all_familiar(graded, n_items):
        return known_part + terms / likely
    items, grades = _familiar_part(graded)
    return known_part + _weighted(terms, shares(items, grades), likely, unlikely)


@kernel
def _step_on_all(weights: Floats, features: Features, slope: Floats, rate: float, radius: float) -> Floats:
    """Return Π(w − rate · Σ_i slope[i] · features[i]): Algorithm 5, lines 10 and 11."""
    after = moved(weights, features, np.arange(len(slope)), slope, rate)
    project(after, radius)
    return after


@kernel
def _term(surrogate: int, score: float, grade: float) -> float:
    """Return the share of one grade in the gradient of squared or kl."""
    if surrogate == SQUARED_GRADES:
        return squared_term(0.0, grade)
    return kl_term(score, grade) if surrogate == KULLBACK_LEIBLER else squared_term(score, grade)


@kernel
def _from_pairs(scores: Floats, graded: GradedItems) -> Floats:
    """Return `_estimated_gradient` of rank_svm."""
    likely, unlikely = _probabilities(graded, len(scores), min(2, len(scores)))
    terms = rank_svm_terms(scores, graded.items, graded.grades)
    if _all_familiar(graded, len(scores)):
        return terms / likely
    familiar, familiar_grades = _familiar_part(graded)
    return _weighted(terms, rank_svm_terms(scores, familiar, familiar_grades), likely, unlikely)


@kernel
def _from_smoothed(scores: Floats, graded: GradedItems, smoothing: float) -> Floats:
    """Return `_estimated_gradient` of smooth_dcg."""
    likely, unlikely = _probabilities(graded, len(scores), 1)
    terms = smooth_terms(scores, graded.items, graded.grades, smoothing)[1]
    if _all_familiar(graded, len(scores)):
        return terms / likely
    familiar, familiar_grades = _familiar_part(graded)
    return _weighted(terms, smooth_terms(scores, familiar, familiar_grades, smoothing)[1], likely, unlikely)


@kernel
def _kernel_step(
    weights: Floats,
    features: Features,
    graded: GradedItems,
    surrogate: int,
    smoothing: float,
    sharpness: float,
    rate: float,
    radius: float,
) -> Floats:
    """Step along `_estimated_gradient`, for the surrogates of KERNEL_CODES; scores are multiplied by the sharpness."""
    scores = scores_of(features, weights) * sharpness
    if surrogate == RANK_SVM:
        return _step_on_all(weights, features, _from_pairs(scores, graded), rate, radius)
    if surrogate == SMOOTH_DCG:
        return _step_on_all(weights, features, _from_smoothed(scores, graded, smoothing), rate, radius)
    after, n_items, n_graded = weights.copy(), len(scores), len(graded.items)
    likely, unlikely = _probabilities(graded, n_items, 1)
    if surrogate == SQUARED_GRADES:
        for item in range(n_items):
            add_row(after, features, item, -rate * 2.0 * scores[item])
    for position in range(n_graded):
        item = graded.items[position]
        familiar = n_graded == n_items or _contains(graded.familiar, item)
        slope = _term(surrogate, scores[item], graded.grades[position]) / (likely if familiar else unlikely)
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

    `floor` = 0 is exactly unbiased and needs much exploration and small steps (exploration = 1, learning_rate = 0.001).
    With little exploration a single unlikely round could move the weights far, which the floor prevents at the price of
    a bias. The defaults are the thesis' schedules with a floor.

    Recommended for grades of the first k items.

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
    floor: float = 0.3
    exploration: NotNegative = 0.1
    exploration_decay: NotNegative = 1 / 3
    learning_rate: float = 0.01
    learning_rate_decay: NotNegative = 2 / 3
    smoothing_decay: NotNegative = 0.0
    radius: float | None = None
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("steps",)
    examples: ClassVar[tuple[Spec, ...]] = (
        {},
        {"surrogate": "rank_svm", "floor": 0.0, "exploration": 1.0, "learning_rate": 0.001},
        {"surrogate": "smooth_dcg", "smoothing_decay": 0.1, "radius": 2.0},
        {"surrogate": "list_net"},
        {"surrogate": "squared(divided='grade')", "learning_rate": 0.001},
    )

    def __post_init__(self) -> None:
        check_between(0, 1, floor=self.floor)
        if self.smoothing_decay and not hasattr(self.surrogate, "smoothing"):
            raise InvalidInput(
                f"{entry_of(self.surrogate).kind} has no smoothing to anneal: leave smoothing_decay at 0"
            )
        super().__post_init__()

    def init(self, problem: Problem) -> State:
        self._check_depth(problem)
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
        if code >= 0:
            weights = _kernel_step(
                state.weights, query.features, graded, code, self._smoothing, sharpness, rate, radius
            )
        else:
            scores = scores_of(query.features, state.weights) * sharpness
            slope = _estimated_gradient(self.surrogate, scores, graded)
            weights = _step_on_all(state.weights, query.features, slope, rate, radius)
        return State(require_finite(weights), steps, state.depth, state.shown)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return _prefix_log_prob(best_ranking(query.features, state.weights), ranking, self._gamma(state), state.shown)

    @property
    def _smoothing(self) -> float:
        return float(getattr(self.surrogate, "smoothing", 1.0))

    def _gamma(self, state: State) -> float:
        return min(0.5, self.exploration * math.pow(state.steps + 1, -self.exploration_decay))

    def _check_depth(self, problem: Problem) -> None:
        span, n_graded = self.surrogate.span, problem.depth
        if n_graded is None or (span is not None and span <= n_graded):
            return
        if problem.n_items is not None and problem.n_items <= n_graded:
            return
        needed = "all items (no depth limit)" if span is None else f"depth {span} or more"
        raise InvalidInput(
            f"the gradient of {entry_of(self.surrogate).kind} cannot be estimated from the grades of the first "
            f"{n_graded} item(s): it needs {needed}; squared and kl need depth 1, rank_svm depth 2"
        )
