"""Whether a log can answer the question at all: how far the target policy's choices are among the logged ones."""

import math
from typing import NamedTuple

from rankloop.evaluation.off_policy.intervals import RANGED
from rankloop.evaluation.off_policy.sums import Sums

FEW_REWARDS, FEW_ROWS = 20, 100
THIN_SHARE = 0.1
HEAVY_SHARE = 0.1


class Overlap(NamedTuple):
    """Diagnostics of the weights w = target / propensity; on a log that covers the target they average 1."""

    mean_weight: float
    mean_weight_error: float
    largest_weight: float
    largest_share: float  # of the sum of all weights
    unsupported: float  # share of rows that the target would never show
    effective_n: float
    effective_rewards: float  # so many rewarded rows of equal weight carry the estimate
    effective_losses: float  # so many rows pull it down; the bound from below rests on them


def overlap_of(sums: Sums) -> Overlap:
    mean = sums.weight_sum / sums.n
    variance = max(0.0, sums.weight_squares / sums.n - mean**2)
    return Overlap(
        mean,
        math.sqrt(variance / sums.n),
        sums.largest_weight,
        sums.largest_weight / sums.weight_sum if sums.weight_sum else 1.0,
        sums.unsupported / sums.n,
        sums.effective_n,
        sums.effective_rewards,
        sums.effective_losses,
    )


def is_off_balance(overlap: Overlap) -> bool:
    """Whether the weights average so far from 1 that the log cannot tell how good the target policy is."""
    return abs(overlap.mean_weight - 1.0) > 4.0 * overlap.mean_weight_error + 0.01


def rests_on(overlap: Overlap, bound: str) -> float:
    """How many rows carry the estimate and its bound from below; `FEW_REWARDS` are needed to tell anything."""
    rewards, losses = overlap.effective_rewards, overlap.effective_losses
    return rewards if bound in RANGED else min(rewards, losses)


def warnings_of(overlap: Overlap, n: int, bound: str) -> tuple[str, ...]:
    """In plain words, what makes the estimate doubtful; empty when nothing does."""
    found = []
    if overlap.effective_rewards < FEW_REWARDS:
        found.append(
            f"the log is too small to tell: the estimate rests on about {overlap.effective_rewards:.0f} rewarded rows, "
            f"and needs {FEW_REWARDS} or more for a bound worth having"
        )
    elif rests_on(overlap, bound) < FEW_REWARDS:
        found.append(
            f"the log is too small to tell: only about {overlap.effective_losses:.0f} rows earned much less than the "
            f"others, and the lower bound needs {FEW_REWARDS} or more to hold"
        )
    if overlap.effective_n < min(FEW_ROWS, n) or overlap.effective_n < THIN_SHARE * n:
        found.append(
            f"the log's {n:,} rows count as only {overlap.effective_n:,.0f}: the target policy mostly shows what the "
            "log seldom shows"
        )
    if overlap.largest_share > HEAVY_SHARE and n > 1:
        found.append(f"a single row carries {overlap.largest_share:.0%} of the weight")
    if is_off_balance(overlap):
        found.append(
            f"the weights average {overlap.mean_weight:.3g} and should average 1: the propensities are wrong, or the "
            "target policy shows what the log never shows"
        )
    return tuple(found)
