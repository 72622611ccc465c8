"""Decide which rankings share a border, by a linear program; rational solutions are checked exactly.

The differences D[c] = (loss row of class c) − (loss row of class 0) of a game bound the distributions p over
relevances under which class 0 is best: D[c]·p ≥ 0 for all c. Class c is its neighbour if and only if that inequality is
needed: some p makes D[c]·p = 0 and all others positive (a witness). Otherwise it follows from the others: weights
y ≥ 0 and a factor w > 0 with Σ y[i]·D[i] ≤ w·D[c] in every relevance (a combination), by Farkas' lemma.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.types import Floats, Ints

MIN_BORDER_WIDTH = 1e-6  # in practice the borders of distinct classes are wider than 1e-4
ZERO_WIDTH = 1e-9  # a width up to this counts as 0
INEQUALITIES_PER_STEP = 40
ROUNDING_GRID = 2**52  # probabilities are rounded to multiples of 1 / 2^52 before the exact check


class Witness(NamedTuple):
    """Distribution under which two rankings are best and all others are worse."""

    probabilities: Floats


class Combination(NamedTuple):
    """Proof that two rankings are not neighbours: Σ weights[i]·D[classes[i]] ≤ factor·D[c] in every relevance."""

    classes: Ints
    weights: Floats
    factor: float


def border(differences: Floats, which: int, first: Ints) -> Witness | Combination:
    """Decide if a class is a neighbour of class 0, with the proof.

    Inequalities are added as they are violated: a few dozen out of thousands decide.

    Args:
      differences: One row per class, of magnitude about 1; row 0 is zero.
      which: The class.
      first: The classes whose inequalities are used first.

    Returns:
      A witness if the class is a neighbour, else a combination.

    Raises:
      InvalidInput: If the border is too narrow for floating point.
    """
    others = np.ones(len(differences), dtype=np.bool_)
    others[[0, which]] = False
    used = np.array([c for c in first if others[c]], dtype=np.int64)
    if len(used) == 0:
        used = np.flatnonzero(others)[:INEQUALITIES_PER_STEP]
    while True:
        solved = _widest(differences[which], differences[used])
        if solved.width <= ZERO_WIDTH:
            needed = solved.weights > 0.0
            return Combination(used[needed], solved.weights[needed], solved.factor)
        slack = np.where(others, differences @ solved.probabilities, np.inf)
        slack[used] = np.inf
        missing = np.flatnonzero(slack < solved.width / 4.0)
        if len(missing) == 0:
            if solved.width < MIN_BORDER_WIDTH:
                raise InvalidInput(f"no verdict: a border of width {solved.width:.1e} is too narrow for floating point")
            return Witness(solved.probabilities)
        used = np.concatenate((used, missing[np.argsort(slack[missing])][:INEQUALITIES_PER_STEP]))


class _Solved(NamedTuple):
    width: float
    probabilities: Floats
    weights: Floats
    factor: float


def _widest(difference: Floats, others: Floats) -> _Solved:
    """Maximise t over distributions p with difference·p = 0 and others·p ≥ t; the dual weights prove t = 0."""
    linprog = import_extra("scipy.optimize").linprog

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


def proved_witness(integers: Ints, which: int, witness: Witness) -> bool:
    """Check a witness exactly, after moving it onto the border and mixing it with the uniform distribution.

    Under the uniform distribution all rankings are equal, so that mixing with it changes no sign and makes every
    probability positive.

    Args:
      integers: The differences of all classes, as integers.
      which: The class whose border with class 0 is checked.
      witness: The witness in floating point.
    """
    rows = integers.astype(object)
    p = np.array([round(value * ROUNDING_GRID) + 2**20 for value in witness.probabilities], dtype=object)
    d = rows[which]
    p = p * int(d @ d) - d * int(d @ p)
    gaps = rows @ p
    gaps[[0, which]] = 1
    return bool((p > 0).all() and (gaps > 0).all() and rows[which] @ p == 0)


def proved_combination(integers: Ints, which: int, combination: Combination) -> bool:
    """Check a combination exactly: its weights are solved for in fractions where the inequality is tight.

    Args:
      integers: The differences of all classes, as integers.
      which: The class that is no neighbour of class 0.
      combination: The combination in floating point.
    """
    rows = integers[combination.classes].astype(object)
    target = integers[which].astype(object)
    scale = float(np.abs(integers).max())
    slack = combination.factor * integers[which] / scale - combination.weights @ (integers[combination.classes] / scale)
    tight = np.flatnonzero(slack < 1e-9)
    weights = _solve([[Fraction(int(rows[i][r])) for i in range(len(rows))] for r in tight], target[tight])
    if weights is None or min(weights) < 0:
        return False
    left = [target[r] - sum(w * row[r] for w, row in zip(weights, rows)) for r in range(len(target))]
    return all(value >= 0 for value in left)


def _solve(equations: list[list[Fraction]], right: Ints) -> list[Fraction] | None:
    """Return the unique solution of an overdetermined system in fractions, by elimination; None when there is none."""
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
                lines[i] = [value - line[column] * lead_value for value, lead_value in zip(line, lines[column])]
    if any(line[-1] for line in lines[n_unknown:]):
        return None
    return [line[-1] for line in lines[:n_unknown]] or None
