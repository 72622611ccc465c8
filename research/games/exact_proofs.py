"""Check in whole numbers what an enumeration of rankings found by linear programs, for measures that are rational."""

import math
from fractions import Fraction
from functools import reduce

import numpy as np

from rankloop.core.types import Floats, Ints
from rankloop.games.enumeration import Combination, classes_of
from rankloop.games.game import Game

MAX_DENOMINATOR = 100_000  # rationals up to it are 1e-10 apart, far beyond the error of a double
ROUNDING_ERROR = 1e-14
MAX_WHOLE_NUMBER = 2**40  # whole numbers whose sums still fit into 64 bits
ROUNDING_GRID = 2**52  # probabilities are rounded to multiples of 1 / 2^52 before the exact check


def common_integers(values: Floats) -> Ints | None:
    """Return `values` times their common denominator if all are fractions with a small denominator, else None.

    A float lies within 1e-14 of such a fraction by chance once in 10,000 times, so a list of irrational values
    practically never passes.
    """
    fractions = [Fraction(float(value)).limit_denominator(MAX_DENOMINATOR) for value in values]
    errors = [abs(float(fraction) - value) for fraction, value in zip(fractions, values)]
    if max(errors) > ROUNDING_ERROR * max(1.0, float(np.abs(values).max())):
        return None
    common = reduce(math.lcm, (fraction.denominator for fraction in fractions))
    if common * max(1.0, float(np.abs(values).max())) > MAX_WHOLE_NUMBER:
        return None
    return np.array([int(fraction * common) for fraction in fractions], dtype=np.int64)


def integer_differences(game: Game) -> Ints | None:
    """Return the loss of each class of rankings less that of class 0, as integers; None for irrational measures."""
    numbers = common_integers(game.in_shown_order)
    if numbers is None:
        return None
    rows = game.shown_relevance[classes_of(game).rows]
    differences: Ints = numbers[rows] - numbers[game.shown_relevance[0]]
    return -differences if game.measure.higher_is_better else differences


def is_proved_witness(integers: Ints, which: int, witness: Floats) -> bool:
    """Check a witness exactly, after moving it onto the border and mixing it with the uniform distribution.

    Under the uniform distribution all rankings are equal, so that mixing with it changes no sign and makes every
    probability positive.

    Args:
      integers: The differences as `integer_differences` returns them.
      which: The class that shares a border with class 0.
      witness: The distribution of `border`.
    """
    rows = integers.astype(object)
    p = np.array([round(value * ROUNDING_GRID) + 2**20 for value in witness], dtype=object)
    d = rows[which]
    p = p * int(d @ d) - d * int(d @ p)  # now d @ p == 0
    gaps = np.delete(rows @ p, [0, which])
    return bool((p > 0).all() and (gaps > 0).all())


def is_proved_combination(integers: Ints, which: int, combination: Combination) -> bool:
    """Check a combination exactly: its weights, divided by the factor, are taken for the fractions next to them.

    Args:
      integers: The differences as `integer_differences` returns them.
      which: The class that shares no border with class 0.
      combination: The result of `border`.
    """
    if combination.factor <= 0.0:
        return False
    weights = (combination.weights / combination.factor).tolist()
    fractions = [Fraction(weight).limit_denominator(MAX_DENOMINATOR) for weight in weights]
    combined = np.array(fractions, dtype=object) @ integers[combination.classes].astype(object)
    return min(fractions) >= 0 and bool((combined <= integers[which]).all())
