"""A ranking that is the best known or random, the gradient estimated from the grades of its first few items, a step.

For surrogates that need single grades or pairs, estimate and step are one kernel.
"""

import math
from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import add_row, kernel, ranking_of, scores_of, seen_count
from rankloop.core.learner import project
from rankloop.core.protocols import Surrogate
from rankloop.core.types import Features, Floats, Ints
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
def draw_ranking(scores: Floats, draws: Floats, gamma: float) -> tuple[Ints, Ints]:
    """The ranking to show and the best one; when the first draw is below γ, the others order what is shown."""
    best = ranking_of(scores)
    return (ranking_of(draws[1:]) if draws[0] < gamma else best), best


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


@kernel
def divided(terms: Floats, probability: float) -> Floats:
    return terms / probability


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
        return known + divided(terms, likely)
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
        return divided(terms, likely)
    familiar, familiar_grades = familiar_part(seen)
    return weighed(terms, rank_svm_terms(scores, familiar, familiar_grades), likely, unlikely)


@kernel
def _from_smoothed(scores: Floats, seen: GradedItems, smoothing: float) -> Floats:
    """`estimated_gradient` of smooth_dcg."""
    likely, unlikely = probabilities(seen, len(scores), 1)
    terms = smooth_terms(scores, seen.items, seen.grades, smoothing)[1]
    if all_familiar(seen, len(scores)):
        return divided(terms, likely)
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
