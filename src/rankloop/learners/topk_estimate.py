"""A ranking that is the best known or random, and the gradient estimated from the grades of its first few items."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import kernel, scores_of
from rankloop.core.learning import project, seen_count
from rankloop.core.protocols import Surrogate
from rankloop.core.rankings import ranking_of
from rankloop.core.types import Floats, Ints
from rankloop.learners.steps import moved
from rankloop.surrogates.kl import KL, kl_terms
from rankloop.surrogates.rank_svm import RankSVM, rank_svm_terms
from rankloop.surrogates.squared import Squared, squared_terms

SQUARED, KULLBACK_LEIBLER, RANK_SVM = range(3)
COMPILED: dict[type, int] = {Squared: SQUARED, KL: KULLBACK_LEIBLER, RankSVM: RANK_SVM}  # estimated in one kernel


class Seen(NamedTuple):
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
    chance = gamma
    for place in range(seen):
        chance /= n_items - place
    for place in range(seen):
        if best[place] != ranking[place]:
            return math.log(chance) if chance > 0.0 else -math.inf
    return math.log(1.0 - gamma + chance)


@kernel
def draw_ranking(scores: Floats, draws: Floats, gamma: float) -> tuple[Ints, Ints]:
    """The ranking to show and the best one; when the first draw is below γ, the others order what is shown."""
    best = ranking_of(scores)
    return (ranking_of(draws[1:]) if draws[0] < gamma else best), best


@kernel
def inclusion(n_items: int, depth: int, span: int, gamma: float, familiar: bool) -> float:
    """P(these `span` items are all graded): γ·k(k−1)…/(m(m−1)…), and 1 − γ more when they are in the best ranking."""
    chance = gamma
    for i in range(span):
        chance *= (depth - i) / (n_items - i)
    return 1.0 - gamma + chance if familiar else chance


@kernel
def _chances(seen: Seen, n_items: int, span: int) -> tuple[bool, float, float]:
    """Whether all graded items are familiar, and P of a familiar set and of another, none below the floor."""
    depth, n_familiar = len(seen.items), 0
    if depth < n_items:
        for item in seen.items:
            for known in seen.familiar:
                n_familiar += item == known
    likely = max(inclusion(n_items, depth, span, seen.exploration, True), seen.floor)
    unlikely = max(inclusion(n_items, depth, span, seen.exploration, False), seen.floor)
    return depth == n_items or n_familiar == depth, likely, unlikely


@kernel
def _familiar_part(seen: Seen) -> tuple[Ints, Floats]:
    """The graded items that the best ranking would have had graded too, with their grades."""
    kept, n_kept = np.empty(len(seen.items), np.int64), 0
    for place in range(len(seen.items)):
        if np.any(seen.familiar == seen.items[place]):
            kept[n_kept] = place
            n_kept += 1
    return seen.items[kept[:n_kept]], seen.grades[kept[:n_kept]]


@kernel
def _weighed(terms: Floats, shared: Floats, likely: float, unlikely: float) -> Floats:
    """The share of the familiar sets divided by their probability, and that of all other sets by theirs."""
    return shared / likely + (terms - shared) / unlikely


@kernel
def _divided(terms: Floats, chance: float) -> Floats:
    return terms / chance


@kernel
def compiled_gradient(surrogate: int, scores: Floats, seen: Seen) -> Floats:
    """`estimated_gradient` for the surrogates in COMPILED, by their number there."""
    span = min(2 if surrogate == RANK_SVM else 1, len(scores))
    all_familiar, likely, unlikely = _chances(seen, len(scores), span)
    terms = _terms(surrogate, scores, seen.items, seen.grades)
    if all_familiar:
        return _divided(terms, likely)
    kept, kept_grades = _familiar_part(seen)
    return _weighed(terms, _terms(surrogate, scores, kept, kept_grades), likely, unlikely)


@kernel
def _terms(surrogate: int, scores: Floats, items: Ints, grades: Floats) -> Floats:
    if surrogate == KULLBACK_LEIBLER:
        return kl_terms(scores, items, grades)
    if surrogate == RANK_SVM:
        return rank_svm_terms(scores, items, grades)
    return squared_terms(scores, items, grades)


def estimated_gradient(surrogate: Surrogate, scores: Floats, seen: Seen) -> Floats:
    """z = Σ_A h_A / max(P(A), floor) over the sets A of `surrogate.span` graded items, h_A their share of the gradient.

    The ranking was the best one with probability 1 − `exploration`, else uniformly random. At floor 0 the mean of z is
    the gradient in the scores. Lemma 25 of Chaudhuri and Tewari (2017), with all grades used.
    """
    n_items = len(scores)
    span = n_items if surrogate.span is None else min(surrogate.span, n_items)
    all_familiar, likely, unlikely = _chances(seen, n_items, span)
    terms = surrogate.terms(scores, seen.items, seen.grades)
    if all_familiar:
        return _divided(terms, likely)
    return _weighed(terms, surrogate.terms(scores, *_familiar_part(seen)), likely, unlikely)


@kernel
def sharpened(features: Floats, weights: Floats, sharpness: float) -> Floats:
    return scores_of(features, weights) * sharpness


@kernel
def _step(weights: Floats, features: Floats, rows: Ints, slope: Floats, rate: float, radius: float) -> Floats:
    after = moved(weights, features, rows, slope, rate)
    project(after, radius)
    return after


@kernel
def step_on_all(weights: Floats, features: Floats, slope: Floats, rate: float, radius: float) -> Floats:
    """Π(w − rate · Σ_i slope[i] · features[i])."""
    return _step(weights, features, np.arange(len(slope)), slope, rate, radius)


@kernel
def compiled_step(
    weights: Floats,
    features: Floats,
    rows: Ints,
    scores: Floats,
    seen: Seen,
    surrogate: int,
    rate: float,
    radius: float,
) -> Floats:
    """Estimate and step in one, for the surrogates in COMPILED; item i is the row rows[i] of the features."""
    return _step(weights, features, rows, compiled_gradient(surrogate, scores, seen), rate, radius)


@kernel
def compiled_learn(
    weights: Floats,
    features: Floats,
    items: Ints,
    grades: Floats,
    familiar: Ints,
    exploration: float,
    floor: float,
    surrogate: int,
    rate: float,
    radius: float,
) -> Floats:
    """`compiled_step` on a query; a tuple would cost more to hand over than the step takes."""
    seen = Seen(items, grades, familiar, exploration, floor)
    scores, rows = scores_of(features, weights), np.arange(len(features))
    return compiled_step(weights, features, rows, scores, seen, surrogate, rate, radius)
