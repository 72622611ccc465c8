"""Estimate and step in one kernel, and whole runs of it, for surrogates that need single grades or pairs."""

from __future__ import annotations

import math

import numpy as np

from rankloop.core.kernels import all_finite, kernel, scores_of
from rankloop.core.learner_parts import project, seen_count
from rankloop.core.types import Floats, Ints
from rankloop.data.streams.compiled_pool import Pool, keep, more_rounds, next_own, next_query, write_round
from rankloop.learners._shared.topk_estimate import (
    Seen,
    all_familiar,
    divided,
    draw_ranking,
    familiar_part,
    holds,
    prefix_log_prob,
    probabilities,
    projected_step,
    weighed,
)
from rankloop.surrogates.kl import KL, kl_term
from rankloop.surrogates.rank_svm import RankSVM, rank_svm_terms
from rankloop.surrogates.squared_loss import Squared, squared_term

SQUARED, KULLBACK_LEIBLER, RANK_SVM = range(3)
COMPILED: dict[type, int] = {Squared: SQUARED, KL: KULLBACK_LEIBLER, RankSVM: RANK_SVM}


@kernel
def _term(surrogate: int, score: float, grade: float) -> float:
    """What one grade adds to the gradient of squared or kl."""
    return kl_term(score, grade) if surrogate == KULLBACK_LEIBLER else squared_term(score, grade)


@kernel
def _from_pairs(scores: Floats, seen: Seen) -> Floats:
    """`estimated_gradient` of rank_svm."""
    likely, unlikely = probabilities(seen, len(scores), min(2, len(scores)))
    terms = rank_svm_terms(scores, seen.items, seen.grades)
    if all_familiar(seen, len(scores)):
        return divided(terms, likely)
    kept, kept_grades = familiar_part(seen)
    return weighed(terms, rank_svm_terms(scores, kept, kept_grades), likely, unlikely)


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
    """A step along `estimated_gradient`, for the surrogates in COMPILED; item i is the row rows[i] of the features."""
    if surrogate == RANK_SVM:
        return projected_step(weights, features, rows, _from_pairs(scores, seen), rate, radius)
    after, n_items, n_graded = weights.copy(), len(scores), len(seen.items)
    likely, unlikely = probabilities(seen, n_items, 1)
    for position in range(n_graded):
        item = seen.items[position]
        familiar = n_graded == n_items or holds(seen.familiar, item)
        slope = _term(surrogate, scores[item], seen.grades[position]) / (likely if familiar else unlikely)
        if slope != 0.0:
            change, row = rate * slope, rows[item]
            for j in range(len(after)):
                after[j] -= change * features[row, j]
    project(after, radius)
    return after


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


@kernel
def many_queries(
    weights: Floats, steps: int, shown: int, pool: Pool, surrogate: int, floor: float, schedule: Floats, radius: float
) -> tuple[Floats, int]:
    """Rounds over a pool of queries until its draws are used up, exactly as `play` would go through them."""
    exploration, exploration_decay, learning_rate, learning_rate_decay = schedule
    refused, keeps = 0, len(pool.history) > 0
    while more_rounds(pool, True):
        start, end, first = next_query(pool)
        size, features = end - start, pool.features[start:end]
        order, relevance = pool.order[first : first + size], pool.grades[first : first + size]
        gamma = min(0.5, exploration * math.pow(steps + 1, -exploration_decay))
        scores, draws = scores_of(features, weights)[order], next_own(pool, size + 1)
        ranking, best = draw_ranking(scores, draws, gamma)
        n_graded = seen_count(pool.depth, size)
        items = ranking[:n_graded]
        seen = Seen(items, relevance[items], best[:n_graded], gamma, floor)
        if keeps:
            pool.familiar[first : first + n_graded] = seen.familiar
            keep(pool, (start, steps, refused, prefix_log_prob(best, ranking, gamma, shown), gamma), weights)
        rate = learning_rate * math.pow(steps + 1, -learning_rate_decay)
        after = compiled_step(weights, features, order, scores, seen, surrogate, rate, radius)
        if all_finite(after):
            weights, steps = after, steps + 1
        else:
            refused += 1
        write_round(pool, ranking)
    if keeps:
        keep(pool, (0, steps, refused, 0.0, 0.0), weights)
    return weights, steps
