"""Thresholds of a small game for any measure, by enumerating all of its rankings.

Renaming the items turns every ranking into every other, so that all are best somewhere and it is enough to compare the
first one (0, 1, 2, …) with its neighbours. The geometry does not depend on the depth: it is computed once.

A function of the grades is a sum of terms, one per set of items and levels of their grades: the product over the items
of [grade of the item = level], levels from 1. The first `depth` grades of a ranking reveal the span of the terms whose
items all stand among those `depth`. So a difference of two loss rows can be estimated from a family of rankings if and
only if each of its terms lies inside the top of one of them; no rank computation is needed.
"""

from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.types import Bools, Floats, Ints
from rankloop.games.certificate import Border, Order, Refuted, Thresholds, Unseen
from rankloop.games.game import Game, is_zero

MIN_BORDER_WIDTH = 1e-6  # in practice the borders of distinct classes are wider than 1e-4
ZERO_WIDTH = 1e-9  # a width up to this counts as 0
INEQUALITIES_PER_STEP = 40


class Combination(NamedTuple):
    """Proof that two rankings are not neighbours: Σ weights[i]·D[classes[i]] ≤ factor·D[c] in every relevance."""

    classes: Ints
    weights: Floats
    factor: float


def border(differences: Floats, which: int, first: Ints) -> Floats | Combination:
    """Decide if a class is a neighbour of class 0, with the proof: a distribution under which only these two are best.

    Inequalities are added as they are violated: a few dozen out of thousands decide.

    Args:
      differences: One row per class, of magnitude about 1; row 0 is zero.
      which: The class.
      first: The classes whose inequalities are used first.
    """
    others = np.ones(len(differences), dtype=np.bool_)
    others[[0, which]] = False
    used = first[others[first]]
    if len(used) == 0:
        used = np.flatnonzero(others)[:INEQUALITIES_PER_STEP]
    while True:
        width, probabilities, weights, factor = _widest(differences[which], differences[used])
        if width <= ZERO_WIDTH:
            needed = weights > 0.0
            return Combination(used[needed], weights[needed], factor)
        slack = np.where(others, differences @ probabilities, np.inf)
        slack[used] = np.inf
        missing = np.flatnonzero(slack < width / 4.0)
        if len(missing) == 0:
            if width < MIN_BORDER_WIDTH:
                raise InvalidInput(f"no verdict: two rankings differ by {width:.1e}, too little for floating point")
            return probabilities
        used = np.concatenate((used, missing[np.argsort(slack[missing])][:INEQUALITIES_PER_STEP]))


def _widest(difference: Floats, others: Floats) -> tuple[float, Floats, Floats, float]:
    """Maximise t over distributions p with difference·p = 0 and others·p ≥ t; the dual weights prove t = 0."""
    # Returned are t, p, the weights of `others` and the factor of `difference`.
    n_others, n = others.shape
    result = import_extra("scipy.optimize").linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.column_stack((-others, np.ones(n_others))),
        b_ub=np.zeros(n_others),
        A_eq=np.array([np.append(difference, 0.0), np.append(np.ones(n), 0.0)]),
        b_eq=np.array([0.0, 1.0]),
        bounds=[(0.0, None)] * n + [(0.0, 1.0)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status != 0:
        raise InvalidInput(f"no verdict: a linear program was not solved: {result.message}")
    weights = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    return float(result.x[n]), np.maximum(result.x[:n], 0.0), weights, -float(result.eqlin.marginals[0])


class Classes(NamedTuple):
    """Classes of rankings with equal loss rows; class 0 holds the ranking 0, 1, 2, and so on."""

    rows: Ints  # of one ranking of each class
    differences: Floats  # its loss less that of class 0, of the size of 1
    terms: Bools  # (n_classes, n_relevances): the terms of the differences
    depths: Ints  # (n_classes,): the depth from which class 0 and this class alone show their difference
    first: Ints  # the classes of the adjacent swaps


def thresholds_of(game: Game) -> Thresholds:
    """Return both thresholds of a game with their proofs."""
    classes = classes_of(game)
    if len(classes.rows) == 1:
        return Thresholds(learnable=0, fast=0, unseen=None, border=None, refuted=(), source="enumeration")
    # Of all terms in which an adjacent swap differs, the first with most items.
    present = np.where(classes.terms[classes.first], (game.relevances > 0).sum(axis=1), -1)
    index, outcome = np.unravel_index(present.argmax(), present.shape)
    items, grades = _term(game, int(outcome))
    second = _order(game, classes.rows[classes.first[index]])
    unseen = Unseen(first=_order(game, 0), second=second, items=items, grades=grades)
    refuted, helpful = [], classes.first
    # By descending depth, adjacent swaps before others: the first neighbour among them decides.
    numbers = np.arange(1, len(classes.rows))
    for c in map(int, numbers[np.lexsort((numbers, ~np.isin(numbers, classes.first), -classes.depths[1:]))]):
        proof = border(classes.differences, c, helpful)
        if not isinstance(proof, Combination):
            break
        combined = tuple(_order(game, row) for row in classes.rows[proof.classes])
        ranking = _order(game, classes.rows[c])
        weights = tuple(proof.weights.tolist())
        refuted.append(Refuted(ranking=ranking, combined=combined, weights=weights, factor=proof.factor))
        helpful = np.union1d(helpful, proof.classes)
    return Thresholds(
        learnable=len(unseen.items),
        fast=int(classes.depths[c]),
        unseen=unseen,
        border=None if isinstance(proof, Combination) or classes.depths[c] == 1 else _border(game, classes, c, proof),
        refuted=tuple(refuted),
        source="enumeration",
    )


def classes_of(game: Game) -> Classes:
    """Return the classes of a game, the differences of their losses, and the depths that reveal these differences."""
    rows = np.unique(game.duplicates, return_index=True)[1]
    differences = scaled(game.loss[rows] - game.loss[0])
    terms = ~is_zero(_coefficients(differences, game.n_items, game.max_grade))
    depth_to_see = _depth_to_see(game.ranks, game.relevances)
    of_class = np.array([depth_to_see[game.duplicates == c].min(axis=0) for c in range(len(rows))])
    depths = np.where(terms, np.minimum(of_class, of_class[0]), 0).max(axis=1)
    # A swap of neighbouring positions leaves all other items where they are.
    swaps = np.flatnonzero(np.abs(game.ranks - game.ranks[0]).sum(axis=1) == 2)
    first = np.unique(game.duplicates[swaps])
    return Classes(rows, differences, terms, depths, first[first > 0])


def _border(game: Game, classes: Classes, c: int, probabilities: Floats) -> Border:
    """Return the border with the term that needs the depth of this class."""
    in_pair = np.isin(game.duplicates, [0, c])
    needs = np.where(classes.terms[c], _depth_to_see(game.ranks[in_pair], game.relevances).min(axis=0), -1)
    items, grades = _term(game, int(needs.argmax()))
    # Under the uniform distribution all rankings are equal, so that mixing with it changes no comparison.
    mixed = 0.999 * probabilities / probabilities.sum() + 0.001 * np.full(len(probabilities), 1.0 / len(probabilities))
    witness = tuple(zip(map(tuple, game.relevances.tolist()), mixed.tolist()))
    second = _order(game, classes.rows[c])
    return Border(first=_order(game, 0), second=second, witness=witness, items=items, grades=grades)


def _term(game: Game, outcome: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the items with grade ≥ 1 in a relevance, and these grades."""
    grades = game.relevances[outcome]
    items = np.flatnonzero(grades)
    return tuple(items.tolist()), tuple(grades[items].tolist())


def _order(game: Game, row: int) -> Order:
    return tuple(game.rankings[row].tolist())


def _coefficients(rows: Floats, n_items: int, max_grade: int) -> Floats:
    """Return the terms of functions of the relevance."""
    # Entry r of a row belongs to the items with grade ≥ 1 in relevance r. This is the Möbius transform along every
    # item: f(level) − f(0) for levels from 1, f(0) for level 0.
    terms = np.array(rows).reshape((len(rows),) + (max_grade + 1,) * n_items)
    for item in range(1, n_items + 1):
        along = np.moveaxis(terms, item, 0)
        along[1:] -= along[0]
    return terms.reshape(len(rows), -1)


def _depth_to_see(ranks: Ints, relevances: Ints) -> Ints:
    """Return the number of top positions that hold all items with grade ≥ 1, as (n_rankings, n_relevances)."""
    depths = np.zeros((len(ranks), len(relevances)), dtype=np.int64)
    for rank, grade in zip(ranks.T, relevances.T):
        np.maximum(depths, np.outer(rank + 1, grade > 0), out=depths)
    return depths


def scaled(rows: Floats) -> Floats:
    """Return rows divided by their largest magnitude, for comparisons with fixed tolerances."""
    return rows / (np.abs(rows).max() or 1.0)
