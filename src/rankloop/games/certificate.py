"""Certificates: why a measure can be learned from a depth on, and from which depth on fast; as data and in words."""

from dataclasses import dataclass
from typing import Literal

Source = Literal["closed form", "exact arithmetic", "floating point"]
Relevance = tuple[int, ...]
Order = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class AllEqual:
    """Every ranking is as good as every other, whatever the relevance."""


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """The rankings `first` and `second` differ by a term of these `items` at these `grades`: fewer do not show it.

    The alternating sum of the difference over the sub-sets of the items (at their grades, all else 0) is not 0, whereas
    it is 0 for every function of fewer grades than that.
    """

    first: Order
    second: Order
    items: tuple[int, ...]
    grades: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Border:
    """`first` and `second` are the only best rankings (with their duplicates) under the distribution `witness`.

    Their difference has a term of these `items` at these `grades`, which the top of none of them holds.
    """

    first: Order
    second: Order
    witness: tuple[tuple[Relevance, float], ...]  # relevances with their probabilities
    items: tuple[int, ...]
    grades: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Refuted:
    """`ranking` shares no border with 0, 1, 2, …, as its inequality follows from others.

    With D(r) the loss of a ranking r less that of 0, 1, 2, …: Σ weights[i]·D(combined[i]) ≤ factor·D(ranking) for every
    relevance.
    """

    ranking: Order
    combined: tuple[Order, ...]
    weights: tuple[float, ...]
    factor: float


@dataclass(frozen=True, kw_only=True)
class AllSeen:
    """Whatever shares a border with the ranking 0, 1, 2, … can be compared with it by showing only the two.

    `refuted` are the rankings that cannot, with the reason why they share no border.
    """

    refuted: tuple[Refuted, ...]


Certificate = AllEqual | Unseen | Border | AllSeen


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Below `learnable` regret grows as T, below `fast` as T^(2/3), from there on as √T; both are 0 when trivial."""

    learnable: int
    fast: int
    unseen: Unseen | None  # the largest term, of `learnable` items
    border: Border | None  # a pair that needs depth `fast`; None when that is 1
    refuted: tuple[Refuted, ...]  # what would need more than `fast`
    source: Source
    margin: float | None = None  # of floating-point decisions: what is below counts as 0

    def certificate(self, depth: int) -> Certificate:
        """Why the verdict at this depth is what it is."""
        if self.unseen is None:
            return AllEqual()
        if depth < self.learnable:
            return self.unseen
        if depth < self.fast and self.border is not None:
            return self.border
        return AllSeen(refuted=self.refuted)


def explain(proof: Certificate, depth: int) -> str:
    """Return why the verdict at this depth is what it is, in one or two sentences."""
    if isinstance(proof, AllEqual):
        return "Every ranking is worth the same, whatever the grades."
    if isinstance(proof, Unseen):
        return (
            f"Which of the rankings {_order(proof.first)} and {_order(proof.second)} is better depends on "
            f"{_grades(proof.items)}, but no ranking reveals more than {depth} of them at once."
        )
    if isinstance(proof, Border):
        return (
            f"There are people for whom {_order(proof.first)} and {_order(proof.second)} tie for the best; to "
            f"decide between them takes {_grades(proof.items)}, which neither of the two reveals. Rounds must be spent "
            f"on rankings that are known to be worse."
        )
    return "Whichever rankings compete for the best place, showing those already reveals which of them is better."


def _order(order: tuple[int, ...]) -> str:
    if len(order) <= 8:
        return "[" + ", ".join(map(str, order)) + "]"
    return "[" + ", ".join(map(str, order[:6])) + ", …]"


def _grades(items: tuple[int, ...]) -> str:
    if len(items) == 1:
        return f"the grade of item {items[0]}"
    if len(items) > 6:
        return f"the grades of {len(items)} items ({', '.join(map(str, items[:4]))}, …) taken together"
    return f"the grades of items {', '.join(map(str, items[:-1]))} and {items[-1]} taken together"


def swapped(n_items: int, item: int, other: int) -> Order:
    """0, 1, 2, … with two items exchanged."""
    exchange = {item: other, other: item}
    return tuple(exchange.get(i, i) for i in range(n_items))
