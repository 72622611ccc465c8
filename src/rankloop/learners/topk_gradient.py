"""Gradient steps on a surrogate, estimated without bias from the grades of the first few items.

For surrogates that need single grades or pairs, estimate and step are one kernel.
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_between, check_not_negative
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ALL, add_row, kernel, ranking_of, scores_of, seen_count
from rankloop.core.learner import (
    SparseLearner,
    best_ranking,
    check_receipt,
    expect,
    project,
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
COMPILED: dict[type, int] = {Squared: SQUARED, KL: KULLBACK_LEIBLER, RankSVM: RANK_SVM, SmoothDCG: SMOOTH_DCG}


def compiled_code(surrogate: Surrogate) -> int:
    """Which of the surrogates the kernels know this is; −1: none of them."""
    if isinstance(surrogate, Squared) and surrogate.divided == "grade":
        return SQUARED_GRADES
    return COMPILED.get(type(surrogate), -1)


class GradedItems(NamedTuple):
    """What a round revealed, and what decides how likely that was."""

    items: Ints
    grades: Floats
    familiar: Ints  # the items that would have been graded without exploration
    exploration: float  # γ
    floor: float


@kernel
def prefix_log_prob(best: Ints, ranking: Ints, gamma: float, shown: int) -> float:
    """log((1 − γ)·[the seen part is the best one] + γ · (m − seen)! / m!)."""
    n_items = len(best)
    seen = seen_count(shown, n_items)
    probability = gamma
    for position in range(seen):
        probability /= n_items - position
    for position in range(seen):
        if best[position] != ranking[position]:
            return math.log(probability) if probability > 0.0 else -math.inf
    return math.log(1.0 - gamma + probability)


@kernel
def inclusion(n_items: int, depth: int, span: int, gamma: float, familiar: bool) -> float:
    """P(these `span` items are all graded): γ·k(k−1)…/(m(m−1)…), and 1 − γ more when they are in the best ranking."""
    probability = gamma
    for i in range(span):
        probability *= (depth - i) / (n_items - i)
    return 1.0 - gamma + probability if familiar else probability


@kernel
def holds(items: Ints, item: int) -> bool:
    found = False
    for other in items:
        found |= other == item
    return found


@kernel
def all_familiar(seen: GradedItems, n_items: int) -> bool:
    if len(seen.items) < n_items:
        for item in seen.items:
            if not holds(seen.familiar, item):
                return False
    return True


@kernel
def probabilities(seen: GradedItems, n_items: int, span: int) -> tuple[float, float]:
    """P of a familiar set and of another, none below the floor."""
    depth = len(seen.items)
    likely = max(inclusion(n_items, depth, span, seen.exploration, True), seen.floor)
    return likely, max(inclusion(n_items, depth, span, seen.exploration, False), seen.floor)


@kernel
def familiar_part(seen: GradedItems) -> tuple[Ints, Floats]:
    """The graded items that the best ranking would have had graded too, with their grades."""
    found, n_found = np.empty(len(seen.items), np.int64), 0
    for position in range(len(seen.items)):
        if holds(seen.familiar, seen.items[position]):
            found[n_found] = position
            n_found += 1
    return seen.items[found[:n_found]], seen.grades[found[:n_found]]


@kernel
def weighed(terms: Floats, shared: Floats, likely: float, unlikely: float) -> Floats:
    """The share of the familiar sets divided by their probability, and that of all other sets by theirs."""
    return shared / likely + (terms - shared) / unlikely


def estimated_gradient(surrogate: Surrogate, scores: Floats, seen: GradedItems) -> Floats:
    """z = Σ_A h_A / max(P(A), floor) over the sets A of `surrogate.span` graded items, h_A their share of the gradient.

    The ranking was the best one with probability 1 − `exploration`, else uniformly random. At floor 0 the mean of z is
    the gradient in the scores. Lemma 25 of Chaudhuri and Tewari (2017), with all grades used. A surrogate of span 1 may
    have a `known_part` of its gradient, which is added whole and taken out of the shares.
    """
    n_items = len(scores)
    span = n_items if surrogate.span is None else min(surrogate.span, n_items)
    likely, unlikely = probabilities(seen, n_items, span)
    known = getattr(surrogate, "known_part", np.zeros_like)(scores)

    def shares(items: Ints, grades: Floats) -> Floats:
        own = np.zeros(n_items)
        own[items] = known[items]
        return surrogate.terms(scores, items, grades) - own

    terms = shares(seen.items, seen.grades)
    if all_familiar(seen, n_items):
        return known + terms / likely
    items, grades = familiar_part(seen)
    return known + weighed(terms, shares(items, grades), likely, unlikely)


@kernel
def step_on_all(weights: Floats, features: Features, slope: Floats, rate: float, radius: float) -> Floats:
    """Π(w − rate · Σ_i slope[i] · features[i])."""
    after = moved(weights, features, np.arange(len(slope)), slope, rate)
    project(after, radius)
    return after


@kernel
def _term(surrogate: int, score: float, grade: float) -> float:
    """What one grade adds to the gradient of squared or kl."""
    if surrogate == SQUARED_GRADES:
        return squared_term(0.0, grade)
    return kl_term(score, grade) if surrogate == KULLBACK_LEIBLER else squared_term(score, grade)


@kernel
def _from_pairs(scores: Floats, seen: GradedItems) -> Floats:
    """`estimated_gradient` of rank_svm."""
    likely, unlikely = probabilities(seen, len(scores), min(2, len(scores)))
    terms = rank_svm_terms(scores, seen.items, seen.grades)
    if all_familiar(seen, len(scores)):
        return terms / likely
    familiar, familiar_grades = familiar_part(seen)
    return weighed(terms, rank_svm_terms(scores, familiar, familiar_grades), likely, unlikely)


@kernel
def _from_smoothed(scores: Floats, seen: GradedItems, smoothing: float) -> Floats:
    """`estimated_gradient` of smooth_dcg."""
    likely, unlikely = probabilities(seen, len(scores), 1)
    terms = smooth_terms(scores, seen.items, seen.grades, smoothing)[1]
    if all_familiar(seen, len(scores)):
        return terms / likely
    familiar, familiar_grades = familiar_part(seen)
    return weighed(terms, smooth_terms(scores, familiar, familiar_grades, smoothing)[1], likely, unlikely)


@kernel
def compiled_step(
    weights: Floats,
    features: Features,
    seen: GradedItems,
    surrogate: int,
    smoothing: float,
    sharpness: float,
    rate: float,
    radius: float,
) -> Floats:
    """A step along `estimated_gradient`, for the surrogates in COMPILED; scores are multiplied by the sharpness."""
    scores = scores_of(features, weights) * sharpness
    if surrogate == RANK_SVM:
        return step_on_all(weights, features, _from_pairs(scores, seen), rate, radius)
    if surrogate == SMOOTH_DCG:
        return step_on_all(weights, features, _from_smoothed(scores, seen, smoothing), rate, radius)
    after, n_items, n_graded = weights.copy(), len(scores), len(seen.items)
    likely, unlikely = probabilities(seen, n_items, 1)
    if surrogate == SQUARED_GRADES:
        for item in range(n_items):
            add_row(after, features, item, -rate * 2.0 * scores[item])
    for position in range(n_graded):
        item = seen.items[position]
        familiar = n_graded == n_items or holds(seen.familiar, item)
        slope = _term(surrogate, scores[item], seen.grades[position]) / (likely if familiar else unlikely)
        if slope != 0.0:
            add_row(after, features, item, -rate * slope)
    project(after, radius)
    return after


class State(NamedTuple):
    """The weights, the rounds learned, and what is shown and graded (−1: everything)."""

    weights: Floats
    steps: int
    depth: int
    shown: int


class Receipt(NamedTuple):
    """Of decision time: the items that would have been graded without exploration, and γ."""

    familiar: Ints
    exploration: float


@kernel
def _draw(
    features: Features, weights: Floats, draws: Floats, gamma: float, depth: int, shown: int
) -> tuple[Ints, Ints, float]:
    """The ranking, the items that would be graded without exploration, and the log-probability of what is seen."""
    best = ranking_of(scores_of(features, weights))
    ranking = ranking_of(draws[1:]) if draws[0] < gamma else best
    familiar = best[: seen_count(depth, len(best))].copy()
    return ranking, familiar, prefix_log_prob(best, ranking, gamma, shown)


@register("topk_gradient")
class TopKGradient(SparseLearner):
    """Algorithm 5 of Chaudhuri (2016): w ← Π(w − η_t · Σ_i z_i · features[i]), z an estimate of ∇surrogate.

    With probability 1 − γ_t the ranking by features · w is shown, else a uniformly random one, and the grades of the
    first k = depth items come back. Every set A of `surrogate.span` graded items adds its share h_A of the gradient,
    divided by the probability that A is graded: z = Σ_A h_A / max(P(A), `floor`), with
    P(A) = (1 − γ_t)·[A in the best k] + γ_t · k(k−1)… / (m(m−1)…). Schedules over the rounds t = 1, 2, … learned:
    γ_t = min(½, `exploration` · t^−`exploration_decay`), η_t = `learning_rate` · t^−`learning_rate_decay`, and for
    `smooth_dcg` its smoothing shrinks as t^−`smoothing_decay` (annealing). ‖w‖ ≤ `radius` when given.

    `floor = 0` is exactly unbiased and needs much exploration and small steps (exploration = 1, learning_rate = 0.001);
    with little exploration a single unlikely round would throw the weights away, which the floor prevents at the
    price of a bias. The defaults are the thesis' schedule with a floor. Use it when only the top of a ranking is
    graded. Reference: Chaudhuri and Tewari (2017), Online Learning to Rank with Top-k Feedback.
    """

    surrogate: Surrogate = Squared()
    floor: float = 0.3
    exploration: float = 0.1
    exploration_decay: float = 1 / 3
    learning_rate: float = 0.01
    learning_rate_decay: float = 2 / 3
    smoothing_decay: float = 0.0
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
        for name in ("exploration", "exploration_decay", "learning_rate_decay", "smoothing_decay"):
            check_not_negative(name, getattr(self, name))
        check_between(0, 1, floor=self.floor)
        if self.smoothing_decay and not hasattr(self.surrogate, "smoothing"):
            raise InvalidInput(
                f"{entry_of(self.surrogate).kind} has no smoothing to anneal: leave smoothing_decay at 0"
            )
        super().__post_init__()

    def init(self, problem: Problem) -> State:
        self._check_depth(problem)
        depth = ALL if problem.depth is None else problem.depth
        return State(self.first_weights(problem), 0, depth, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        gamma, draws = self._gamma(state), rng.random(query.n_items + 1)
        ranking, familiar, log_propensity = _draw(query.features, state.weights, draws, gamma, state.depth, state.shown)
        return Decision(ranking, log_propensity, Receipt(familiar, gamma))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        steps, code = state.steps + 1, compiled_code(self.surrogate)
        items, grades = expect(feedback, Relevances)
        familiar, exploration = decision.receipt
        check_receipt(familiar.shape == items.shape and 0.0 <= exploration <= 1.0)
        seen = GradedItems(items, grades, familiar, exploration, self.floor)
        sharpness = math.pow(steps, self.smoothing_decay)
        rate = self.learning_rate * sharpness * math.pow(steps, -self.learning_rate_decay)
        radius = math.inf if self.radius is None else self.radius
        if code >= 0:
            weights = compiled_step(state.weights, query.features, seen, code, self._smoothing, sharpness, rate, radius)
        else:
            scores = scores_of(query.features, state.weights) * sharpness
            slope = estimated_gradient(self.surrogate, scores, seen)
            weights = step_on_all(state.weights, query.features, slope, rate, radius)
        return State(require_finite(weights), steps, state.depth, state.shown)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return prefix_log_prob(best_ranking(query.features, state.weights), ranking, self._gamma(state), state.shown)

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
            f"{n_graded} item(s): it needs {needed}; squared and kl do with depth 1, rank_svm with depth 2"
        )
