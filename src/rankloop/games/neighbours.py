"""Which rankings share a border: a linear program with a margin, its answers checked in whole numbers where possible.

The differences D[c] = (loss row of class c) − (loss row of class 0) of a game carve out the distributions p over
relevances under which class 0 is best: D[c]·p ≥ 0 for all c. Class c is its neighbour if and only if that inequality is
needed: some p makes D[c]·p = 0 and all others positive (a witness). Otherwise it follows from the others: weights
y ≥ 0 and a factor w > 0 with Σ y[i]·D[i] ≤ w·D[c] in every relevance (a combination), by Farkas' lemma.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints

MARGIN = 1e-6  # a border this wide is one; borders of distinct classes were never seen below 1e-4
NOTHING = 1e-9  # a margin up to this is none
BATCH = 40  # inequalities added at a time
GRID = 2**52  # witnesses are rounded to this fraction before they are checked in whole numbers


class Witness(NamedTuple):
    """A distribution under which both rankings are best, and all others are worse."""

    probabilities: Floats


class Combination(NamedTuple):
    """Why two rankings are not neighbours: Σ weights[i]·D[classes[i]] ≤ factor·D[c] in every relevance."""

    classes: Ints
    weights: Floats
    factor: float


def border(differences: Floats, which: int, first: Ints) -> Witness | Combination:
    """Whether class `which` is a neighbour of class 0, with the proof.

    `differences` has one row per class, of the size of 1, row 0 zero. Inequalities are added as they are violated,
    beginning with the classes `first`: a few dozen out of thousands decide.
    """
    others = np.ones(len(differences), dtype=np.bool_)
    others[[0, which]] = False
    used = np.array([c for c in first if others[c]], dtype=np.int64)
    if len(used) == 0:
        used = np.flatnonzero(others)[:BATCH]
    while True:
        solved = _widest(differences[which], differences[used])
        if solved.width <= NOTHING:
            needed = solved.weights > 0.0
            return Combination(used[needed], solved.weights[needed], solved.factor)
        slack = np.where(others, differences @ solved.probabilities, np.inf)
        slack[used] = np.inf
        missing = np.flatnonzero(slack < solved.width / 4.0)
        if len(missing) == 0:
            if solved.width < MARGIN:
                raise InvalidInput(f"a border of width {solved.width:.1e} is too narrow for floating point: no verdict")
            return Witness(solved.probabilities)
        used = np.concatenate((used, missing[np.argsort(slack[missing])][:BATCH]))


class _Solved(NamedTuple):
    width: float
    probabilities: Floats
    weights: Floats
    factor: float


def _widest(difference: Floats, others: Floats) -> _Solved:
    """max t over distributions p with difference·p = 0 and others·p ≥ t; the dual weights prove it when t = 0."""
    from scipy.optimize import linprog  # takes half a second, for which nobody else should wait

    n_others, n = others.shape
    at_least_t = np.column_stack((-others, np.ones(n_others)))
    on_border = np.zeros((2, n + 1))
    on_border[0, :n] = difference
    on_border[1, :n] = 1.0
    minus_t = np.zeros(n + 1)
    minus_t[n] = -1.0
    bounds = [(0.0, None)] * n + [(0.0, 1.0)]
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    arguments = {"A_ub": at_least_t, "b_ub": np.zeros(n_others), "A_eq": on_border, "b_eq": np.array([0.0, 1.0])}
    result = linprog(minus_t, **arguments, bounds=bounds, method="highs", options=options)
    if result.status != 0:
        raise InvalidInput(f"the linear program of a border could not be solved: {result.message}")
    factor = -float(result.eqlin.marginals[0])
    weights = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    return _Solved(float(result.x[n]), np.maximum(result.x[:n], 0.0), weights, factor)


def proved_witness(whole: Ints, which: int, witness: Witness) -> bool:
    """Whether a witness stands in whole numbers: moved onto the border exactly, mixed with the uniform distribution.

    `whole` are the differences as whole numbers. Under the uniform distribution all rankings are equal, so that mixing
    with it changes no sign and makes every probability positive.
    """
    rows = whole.astype(object)
    p = np.array([round(value * GRID) + 2**20 for value in witness.probabilities], dtype=object)
    d = rows[which]
    p = p * int(d @ d) - d * int(d @ p)
    gaps = rows @ p
    gaps[[0, which]] = 1
    return bool((p > 0).all() and (gaps > 0).all() and rows[which] @ p == 0)


def proved_combination(whole: Ints, which: int, found: Combination) -> bool:
    """Whether a combination stands in whole numbers: its weights are solved for anew where it is tight."""
    rows = whole[found.classes].astype(object)
    target = whole[which].astype(object)
    scale = float(np.abs(whole).max())
    slack = found.factor * whole[which] / scale - found.weights @ (whole[found.classes] / scale)
    tight = np.flatnonzero(slack < 1e-9)
    weights = _solve([[Fraction(int(rows[i][r])) for i in range(len(rows))] for r in tight], target[tight])
    if weights is None or min(weights) < 0:
        return False
    left = [target[r] - sum(w * row[r] for w, row in zip(weights, rows)) for r in range(len(target))]
    return all(value >= 0 for value in left)


def _solve(equations: list[list[Fraction]], right: Ints) -> list[Fraction] | None:
    """The unique solution of an overdetermined system in fractions, by elimination; None when there is none."""
    lines = [[*row, Fraction(int(value))] for row, value in zip(equations, right)]
    n_unknown = len(lines[0]) - 1 if lines else 0
    for column in range(n_unknown):
        pivot = next((i for i in range(column, len(lines)) if lines[i][column]), None)
        if pivot is None:
            return None
        lines[column], lines[pivot] = lines[pivot], lines[column]
        lead = lines[column][column]
        lines[column] = [value / lead for value in lines[column]]
        for i, line in enumerate(lines):
            if i != column and line[column]:
                lines[i] = [value - line[column] * own for value, own in zip(line, lines[column])]
    if any(line[-1] for line in lines[n_unknown:]):
        return None
    return [line[-1] for line in lines[:n_unknown]] or None
