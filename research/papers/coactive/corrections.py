"""Statements on coactive learning that cannot hold as printed: Raman, Joachims, Shivaswamy and Schnabel (2013).

Each function takes what is printed as its default, so that a corrected version can be tried in its place. The toy of
section 4.2 has an experiment of its own, `coactive-toy`.
"""

import math
from collections.abc import Callable

from rankloop.core.kernels import discount
from rankloop.experiments.analysis.curves import number
from rankloop.experiments.analysis.verdicts import Verdict
from research.verdicts import MAYBE_A_SLIP, refutable

DISCOUNT_DROP = discount(0) - discount(1)  # γ₁ − γ₂, which is also 1 − γ₂ / γ₁


def claims() -> tuple[Verdict, ...]:
    """All of them, in the order of the paper."""
    return (radius_under_root(), worked_example(), negative_scores(), term_outside_root())


def first_regret(size: float) -> float:
    """One round, two items with the features 0 and `size`, w* = 1: what is lost by showing the wrong one first.

    At w = 0 a learner cannot know better. The joint features have length `size`, users answer with the best ranking,
    so α = 1 and ξ = 0, and nothing is perturbed, so β = 0 and Δ = 0.
    """
    return size * DISCOUNT_DROP


def radius_under_root(last_term: Callable[[float], float] = lambda radius: math.sqrt(8.0 * radius)) -> Verdict:
    """Corollary 4 and Proposition 5 at T = 1, β = 0, α = ‖w*‖ = 1, where only the last term is left."""
    size = 100.0
    regret, bound = first_regret(size), last_term(size)
    return refutable(
        "The regret is below the bounds of Corollary 4 and Proposition 5",
        regret > bound,
        f"one round, two items with features 0 and {size:g}: regret {number(regret)}, the bound is {number(bound)}",
        paper="Corollary 4 and Proposition 5: the last term is √(2(4 − β²)R)·‖w*‖ / (α√T)",
        argument="Regret is a utility: features a hundred times as large make it a hundred times as large, and the "
        f"printed term ten times. R stands outside the root. {MAYBE_A_SLIP}",
    )


def feedback(shown: list[int], clicked: set[int], pairs: list[tuple[int, int]]) -> list[int]:
    """GET-FEEDBACK of Algorithm 3: a pair is swapped when its lower item was clicked and its upper one was not."""
    better = list(shown)
    for upper, lower in pairs:
        if shown[lower] in clicked and shown[upper] not in clicked:
            better[upper], better[lower] = shown[lower], shown[upper]
    return better


def worked_example(entries_swapped: bool = True) -> Verdict:
    """Algorithm 3 on the example of its own text: pairs 1 and 3 of [1 2 3 4 5 6] are flipped; 1, 4, 6 are clicked."""
    shown, clicked, expected = [2, 1, 3, 4, 6, 5], {1, 4, 6}, [1, 2, 4, 3, 6, 5]
    flipped = (1, 0) if entries_swapped else (0, 1)
    pairs = [flipped, (2, 3), (flipped[0] + 4, flipped[1] + 4)]
    preferred = feedback(shown, clicked, pairs)
    wrong = sum(preferred[position : position + 2] != expected[position : position + 2] for position in (0, 2, 4))
    return refutable(
        "Algorithm 3 gives the feedback of its worked example",
        wrong > 0,
        f"it gives {preferred}, {wrong} of 3 pairs otherwise than the example",
        paper=f"Algorithm 3: swap(Pairs[i][0], Pairs[i][1]) as well; section 6, the example: {expected}",
        argument="A pair is two places of the ranking that is shown, upper and lower. Exchanging its entries too calls "
        "the upper place the lower one, and inverts the feedback of every flipped pair.",
    )


def negative_scores(scores: tuple[float, float] = (1.0, -1.0)) -> Verdict:
    """Proposition 5's premise: swapping two neighbours costs at most the share 1 − γ₂/γ₁ of their utility."""
    cost = DISCOUNT_DROP * (scores[0] - scores[1])
    allowed = DISCOUNT_DROP * (discount(0) * scores[0] + discount(1) * scores[1])
    return refutable(
        "Proposition 5 holds whatever the scores of the items",
        cost > allowed,
        f"two items with scores {scores[0]:g} and {scores[1]:g}: a swap costs {number(cost)}, its proof allows "
        f"{number(allowed)}",
        paper="Proposition 5, without a condition; a footnote of its proof asks for scores that are not negative",
        argument="A share of a utility that is near 0, or below it, leaves no room for a swap. Theorem 2 and "
        "Corollary 3 need no such condition.",
    )


def _outside(radius: float) -> float:
    return math.sqrt(4.0 * radius**2 + DISCOUNT_DROP * radius) * 2.0 * radius


def term_outside_root(printed: Callable[[float], float] = _outside) -> Verdict:
    """Proposition 6 at T = 1, Δ = 0, α = ‖w*‖ = 1."""
    size = 0.01
    regret, bound = first_regret(size), printed(size)
    return refutable(
        "The regret of dynamic swaps is below the bound of Proposition 6",
        regret > bound,
        f"one round, two items with features 0 and {size:g}: regret {number(regret)}, the bound is {number(bound)}",
        paper="Proposition 6: ‖w*‖/(α√T)·√(4R² + 2Δ + (γ₁ − γ₂)R)·√((4R² + 2Δ)/T)",
        argument="The second root belongs under the first one, as in Proposition 7, and twice: Theorem 2 takes 2Δ, and "
        f"the mean score agreement is at most Δ + (γ₁ − γ₂)R·√((4R² + 2Δ)/T). {MAYBE_A_SLIP}",
    )
