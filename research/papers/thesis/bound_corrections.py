"""Statements on bounds and losses that cannot hold as printed: Chaudhuri (2016), chapter IV, and a supplement.

Each function takes what is printed as its default, so that a corrected version can be tried in its place.
"""

import math
from collections.abc import Callable

import numpy as np

from rankloop.core.types import Floats
from rankloop.experiments.analysis.curves import number
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.training.risks.pointwise import LeastSquares
from research.verdicts import MAYBE_A_SLIP, refutable


def claims() -> tuple[Verdict, ...]:
    """All of them, in the order of the thesis, then the supplement's."""
    return (local_complexity(), missing_risk(), gradient_sign())


def local_complexity(printed: Callable[[float], float] = math.sqrt) -> Verdict:
    """Corollary 43, 4·√r·C·ln(3√B/C) printed with C under the root, against the line before it in its proof."""
    constant, largest = 3.0, 100.0
    proved = 4.0 * constant * (1.0 + math.log(math.sqrt(largest) / constant))
    stated = 4.0 * printed(constant) * math.log(3.0 * math.sqrt(largest) / constant)
    return refutable(
        "Corollary 43 follows from its proof",
        stated < proved,
        f"C = 3, B = 100, r = 1: the proof gives {number(proved)}, the statement {number(stated)}",
        paper="Corollary 43: 4·√(rC)·log(3√B/C)",
        argument="The proof ends with 4·√r·C·log(3√B/C), and Theorem 44 uses r* = (4·C·log(3√B/C))², which is that. "
        + MAYBE_A_SLIP,
    )


def missing_risk(leading: float = 0.0, best: float = 1.0) -> Verdict:
    """The end of appendix C, L(ŵ) ≤ √(D₀·L(w*))/2 + 2·D₀, where D₀ falls as 1/n: against the least possible L(w*)."""
    small = 1e-3
    stated = leading * best + math.sqrt(small * best) / 2.0 + 2.0 * small
    return refutable(
        "The last line of the proof of Theorem 44 bounds the risk of the minimiser",
        stated < best,
        f"where the least possible risk is {number(best)} and D₀ = 0.001, it promises a risk of {number(stated)}",
        paper="appendix C: L(ŵ) ≤ √(D₀·L(w*))/2 + 2·D₀",
        argument="No minimiser has less than the least risk, and D₀ goes to 0 with many queries. The displays lack "
        "their leading L̂(w*) and L(w*); the theorem has it.",
    )


def gradient_sign(printed: Callable[[Floats, Floats], Floats] = lambda scores, grades: grades - scores) -> Verdict:
    """The gradient of least squares as printed, against finite differences of the loss."""
    scores, grades, offsets = np.array([0.3, 1.2, -0.5]), np.array([1.0, 0.0, 2.0]), np.array([0, 3])
    from scipy.optimize import approx_fprime  # takes half a second, for which nobody else should wait

    slopes = approx_fprime(scores, lambda f: LeastSquares().of_lists(f, grades, offsets)[0], 1e-7)
    error = float(np.abs(printed(scores, grades) - slopes).max())
    return refutable(
        "The gradient of ½‖f − y‖² is y − f",
        error > 1e-5,
        f"finite differences {tuple(round(float(slope), 3) for slope in slopes)}, off by {number(error)}",
        paper="supplement on ranking losses for bundle methods, equation 2: y − f",
        argument=f"The sign is turned: it is f − y. {MAYBE_A_SLIP}",
    )
