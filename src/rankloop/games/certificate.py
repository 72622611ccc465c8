"""Certificates that prove a verdict."""

from dataclasses import dataclass
from typing import Literal

Source = Literal["closed form", "enumeration"]
Relevance = tuple[int, ...]
Order = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class AllEqual:
    """Proof of `trivial`: every ranking is as good as every other, for every relevance."""


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """Proof of `hopeless`: two rankings differ by a term of more items than feedback reveals together.

    The alternating sum of the difference over the subsets of `items` (at their `grades`, all others 0) is not 0,
    whereas it is 0 for every function of fewer grades than that.
    """

    first: Order
    second: Order
    items: tuple[int, ...]
    grades: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Border:
    """Proof of `two_thirds`: two rankings that are the only best ones (with their duplicates) under a distribution.

    Their difference has a term of these `items` at these `grades`, which the top of neither of them holds.
    """

    first: Order
    second: Order
    witness: tuple[tuple[Relevance, float], ...]  # relevances with their probabilities
    items: tuple[int, ...]
    grades: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Refuted:
    """Proof that `ranking` shares no border with 0, 1, 2, …: its inequality follows from others.

    With D(r) the loss of a ranking r less that of 0, 1, 2, …: Σ weights[i]·D(combined[i]) ≤ factor·D(ranking) for every
    relevance.
    """

    ranking: Order
    combined: tuple[Order, ...]
    weights: tuple[float, ...]
    factor: float


@dataclass(frozen=True, kw_only=True)
class AllSeen:
    """Proof of `sqrt`: every ranking that shares a border with 0, 1, 2, … is compared with it by showing only the two.

    `refuted` are the rankings that cannot be compared so, each with the proof that they share no border.
    """

    refuted: tuple[Refuted, ...]


Certificate = AllEqual | Unseen | Border | AllSeen


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Depths that separate the verdicts: T below `learnable`, T^(2/3) below `fast`, then √T; both 0 when trivial."""

    learnable: int
    fast: int
    unseen: Unseen | None  # the largest term, of `learnable` items
    border: Border | None  # a pair that needs depth `fast`; None when that is 1
    refuted: tuple[Refuted, ...]  # what would need more than `fast`
    source: Source

    def certificate(self, depth: int) -> Certificate:
        """Return the proof of the verdict at this depth."""
        if self.unseen is None:
            return AllEqual()
        if depth < self.learnable:
            return self.unseen
        return self.border if depth < self.fast and self.border is not None else AllSeen(refuted=self.refuted)
