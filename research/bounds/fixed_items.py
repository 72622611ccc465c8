"""Proved bounds on the expected regret of the learners of a fixed set of items, with all constants.

Regret is summed and against the best fixed ranking of all `horizon` rounds, in the units of the measure (P@n divides by
n), for any sequence of grades fixed in advance. A bound is vacuous when no learner at all could do worse.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import Measure
from rankloop.core.types import Problem
from rankloop.learners._shared.fixed_set import largest_gain, worth_of_positions
from rankloop.learners.rtopk import number_of_blocks
from rankloop.measures.base import parse_measure

MAX_HORIZON = 2**62


class Bound(NamedTuple):
    """Bound on the regret, and the largest regret that any rankings could have in as many rounds."""

    regret: float
    worst: float

    @property
    def vacuous(self) -> bool:
        """Return true if the bound is not below the largest possible regret."""
        return self.regret >= self.worst


class Constants(NamedTuple):
    """Kalai and Vempala's constants of a measure.

    `diameter` D: the largest Σ_i |difference| in the items' worth between two rankings. `loss` R: the most that two
    rankings can differ in one round. `gains` A: the largest sum of gains in one round.
    """

    diameter: float
    loss: float
    gains: float


def constants(measure: Measure | str, n_items: int, max_grade: int = 1) -> Constants:
    """D = Σ_p |w_p − w_{m−1−p}|, R = g·D/2, A = g·m, with w the worth of the positions and g the largest gain.

    The papers give their order only: m², m², m for SumLoss, m, g·m, g·m for DCG and n, n, m for n times P@n.
    """
    judge = parse_measure(measure)
    worth = worth_of_positions(judge, n_items)
    diameter = float(np.abs(worth - worth[::-1]).sum())
    gain = largest_gain(judge, Problem(0, n_items, max_grade=max_grade))
    return Constants(diameter, gain * diameter / 2.0, gain * n_items)


def ftpl_regret(measure: Measure | str, n_items: int, horizon: int, max_grade: int = 1) -> Bound:
    """ε·R·A·T + D/ε with the learner's own ε = 1 / (g·√(m·T)), so 3/2·g·D·√(m·T).

    The best ε, √(D / (R·A·T)), gives 2·√(D·R·A·T), 6 % less. Kalai and Vempala (2005), "Efficient algorithms for online
    decision problems", Theorem 1.1.
    """
    sizes = constants(measure, n_items, max_grade)
    return Bound(_ftpl(sizes, n_items, horizon), sizes.loss * horizon)


def mirror_descent_regret(measure: Measure | str, n_items: int, horizon: int, max_grade: int = 1) -> Bound:
    """‖w − mean w‖²/(2η) + η·T·g²·m/8 with the learner's own η, so ½·‖w − mean w‖·g·√(m·T).

    Every ranking is equally far from the centre, and of the gains only their distance from their mean counts, whose
    square is at most g²·m/4. Orabona (2019), "A modern introduction to online learning", section 7.3.
    """
    sizes = constants(measure, n_items, max_grade)
    return Bound(_mirror_descent(measure, sizes, n_items, horizon), sizes.loss * horizon)


def rtopk_regret(
    measure: Measure | str,
    n_items: int,
    depth: int,
    horizon: int,
    *,
    blocks: int | None = None,
    max_grade: int = 1,
    inner: str = "ftpl",
) -> Bound:
    """R·⌈m/k⌉·K + ⌊T/K⌋·(the inner learner's bound for K rounds) + R·(T mod K).

    The first term is exploration, the last is for blocks that are a round longer than others. With the default K,
    m^{1/3}·T^{2/3} / ⌈m/k⌉^{2/3}, it is O(T^{2/3}). Chaudhuri (2016), "Learning to rank", Theorem 19 and Corollaries 20
    to 22; in Corollary 21 the square in ε = 1 / ((2^n − 1)²·√(m·K)) is a slip: ε = 1 / ((2^n − 1)·√(m·K)).
    """
    sizes = constants(measure, n_items, max_grade)
    depth = min(depth, n_items)
    blocks = number_of_blocks(blocks, horizon, n_items, depth)
    if inner not in ("ftpl", "mirror_descent"):
        raise InvalidInput(f"no bound is known for the inner learner {inner!r}; there are ftpl and mirror_descent")
    full = _ftpl(sizes, n_items, blocks) if inner == "ftpl" else _mirror_descent(measure, sizes, n_items, blocks)
    exploring = sizes.loss * math.ceil(n_items / depth) * blocks
    return Bound(exploring + horizon // blocks * full + sizes.loss * (horizon % blocks), sizes.loss * horizon)


def precision_bandit_regret(n: int, n_items: int, depth: int, horizon: int) -> Bound:
    """√(2·m·T·ln(m/n) / k) in P@n, k being at most n: n·ln(m/n)/η + η·T·n·m/(2k), divided by n.

    The set of n items has entropy at most n·ln(m/n), and Σ_i x_i·E[estimate_i²] is at most n·m/k.
    """
    sizes = constants(f"P@{n}", n_items)
    revealed, spread = min(depth, n, n_items), max(math.log(n_items / n), 0.0)
    return Bound(math.sqrt(2.0 * n_items * horizon * spread / revealed), sizes.loss * horizon)


def generic_forecaster_regret(largest: float, n_groups: int, spread: float, n_items: int, horizon: int) -> Bound:
    """3·B^{1/3}·(V·G)^{2/3}·(ln m!)^{1/3}·T^{2/3}: γ·B·T + ln N/η + η·T·(V·G)²/γ with the learner's own η and γ.

    V `largest`, G `n_groups` and B `spread` are those of its table (`rankloop.games.generic_forecaster._table_of`). The
    proof needs η·V·G ≤ γ ≤ 1, that is T ≥ ln N and γ below 1; before that, nothing better than B·T is promised.
    """
    log_actions, size = math.lgamma(n_items + 1), largest * n_groups
    exploration = (size / spread) ** (2 / 3) * (log_actions / horizon) ** (1 / 3)
    promised = 3.0 * exploration * spread * horizon if log_actions / horizon <= exploration <= 1.0 else math.inf
    return Bound(min(promised, spread * horizon), spread * horizon)


def useful_from(bound: Callable[[int], Bound], shortest: int = 1) -> int | None:
    """The horizon from which on a bound is no longer vacuous, by bisection; None when it always is.

    For bounds that fall, per round, as the horizon grows.
    """
    low, high = shortest - 1, shortest
    while bound(high).vacuous:
        if high > MAX_HORIZON:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bound(middle).vacuous else (low, middle)
    return high


def _ftpl(sizes: Constants, n_items: int, rounds: int) -> float:
    noise = sizes.gains / n_items * math.sqrt(n_items * rounds)  # 1/ε
    return sizes.loss * sizes.gains * rounds / noise + sizes.diameter * noise


def _mirror_descent(measure: Measure | str, sizes: Constants, n_items: int, rounds: int) -> float:
    worth = worth_of_positions(parse_measure(measure), n_items)
    radius = float(np.sqrt(np.sum((worth - worth.mean()) ** 2)))
    return 0.5 * radius * sizes.gains / n_items * math.sqrt(n_items * rounds)
