"""Statements on bounds and losses that cannot hold as printed: Chaudhuri (2016), chapter IV, and a supplement.

Each function takes what is printed as its default, so that a corrected version can be tried in its place.
"""

import math
from collections.abc import Callable

import numpy as np

from rankloop.core.types import Floats
from rankloop.experiments.analysis.curves import number
from rankloop.experiments.analysis.verdicts import Verdict, Word
from rankloop.training.risks.pointwise import LeastSquares
from research.bounds.generalisation import uniform_l1
from research.verdicts import refutable

N_ITEMS = 20


def claims() -> tuple[Verdict, ...]:
    """All of them, in the order of the thesis, then the supplement's."""
    return (l1_complexity(), local_complexity(), missing_risk(), gradient_sign())


def corollary_39(size: float, n_queries: int, largest: float, n_features: int) -> float:
    """Corollary 39 as printed, A = G·W₁·R̄."""
    inside = 24.0 * N_ITEMS * n_queries * size
    root = math.sqrt(math.log(n_features) * math.log2(inside))
    logarithm = math.log((largest + inside) / (40.0 * math.sqrt(2.0) * size * root))
    return 120.0 * math.sqrt(2.0) * size * root / math.sqrt(n_queries) * logarithm**2


def covering_l1(size: float, n_queries: int, largest: float, n_features: int) -> float:
    """Equation 4.6 with the covering numbers of Proposition 4, as Theorem 40 has it."""
    slack = 3.0 * largest * math.sqrt(math.log(4.0) / (2.0 * n_queries))
    return (uniform_l1(size, 1.0, 1.0, n_queries, N_ITEMS, n_features, largest, 0.5) - slack) / 2.0


def l1_complexity(printed: Callable[[float, int, float, int], float] = corollary_39) -> Verdict:
    """Corollary 39 against the integral of Proposition 4; an upper bound may be loose, but not by its own proof."""
    cases = [(2.0, n_queries, 4.0, 100) for n_queries in (1000, 10**5, 10**7)]
    ratios = [printed(*case) / covering_l1(*case) for case in cases]
    word: Word = "cannot hold" if min(ratios) < 0.999 else "partly" if max(ratios) > 10.0 else "holds"
    return Verdict(
        "Corollary 39 is what Proposition 4 and equation 4.6 give",
        word,
        f"it is a bound, but {number(min(ratios))} to {number(max(ratios))} times the integral (10³ to 10⁷ queries)",
        "Corollary 39: 120·√2·G·W₁·R̄·√(log d·log₂(24mn·G·W₁·R̄)/n)·log²(…)",
    )


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
        argument="The proof ends with 4·√r·C·log(3√B/C), and Theorem 44 uses r* = (4·C·log(3√B/C))², which is that.",
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
        argument="The sign is turned: it is f − y.",
    )
