"""Hashed columns of which the memory counts only as far as it has told clicks in advance."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.checks import check_at_least, check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.learner import finite, layers_of, require_finite
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, entry_of, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, R
from rankloop.core.weight_table import WeightTable
from rankloop.learners.wrappers.hashed_columns import Hashed

PRIOR = 100.0  # Σ z² that the first trust counts for


class State(NamedTuple):
    """As that of `hashed`; and what memory has told in advance: Σ z and Σ z²."""

    table: WeightTable
    inner: Any
    n_hashed: int
    told: float
    squares: float

    def reachable(self, initial: "State") -> bool:
        return self.squares >= 0.0


@kernel
def _scaled(columns: Ints, entries: Floats, memory_from: int, n_hashed: int, trust: float) -> Floats:
    """The entries with the weights of memory multiplied by trust."""
    found = entries.copy()
    for i in range(len(columns)):
        if memory_from <= columns[i] < n_hashed:
            found[i, 0] *= trust
    return found


@kernel
def _foresight(columns: Ints, entries: Floats, steps: Floats, memory_from: int, n_hashed: int) -> float:
    """step · weights over the columns of memory: above 0 where memory had said what the clicks say now."""
    total = 0.0
    for i in range(len(columns)):
        if memory_from <= columns[i] < n_hashed:
            total += steps[i] * entries[i, 0]
    return total


def memory_trust(learner: AnyLearner, state: Any) -> float:
    """What the score of memory is multiplied by, of any learner: 1 where it is not doubted."""
    doubts = next((layer for layer in layers_of(learner) if isinstance(layer, TrustedMemory)), None)
    known = next((layer for layer in layers_of(state) if isinstance(layer, State)), None)
    return 1.0 if doubts is None or known is None else doubts.trust(known)


@register("trusted_memory")
class TrustedMemory(Hashed):
    """`hashed`, with the score of its memory multiplied by the trust that it has earned.

    Before a lesson changes anything it is an examination: z = g · m, with g the step of `inner` and m the weights of
    memory in sight, is above 0 when memory had ranked as the clicks do now. Where clicks mean nothing, z is as often
    below 0 as above it. So T = (`sure` · √100 + Σ z) / √(100 + Σ z²) is a t-statistic, and trust is T / `sure`, kept
    between 0 and 1: it begins at 1, stays there as long as memory is confirmed, and fades where people click at random;
    then the order goes back to that of the other weights. What is remembered stays, and counts again once it is right.
    Sums forget what is older than about `span` lessons. The other parameters are those of `hashed`; an `inner` that
    keeps evidence of its own per column is refused.
    """

    sure: float = 4.0
    span: int = 2000

    examples: ClassVar[tuple[Spec, ...]] = (
        {"inner": "click_residuals"},
        {"inner": "fair_pairs", "sure": 2.0, "span": 10, "by_query": True},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("sure", self.sure)
        check_at_least(0, span=self.span)
        if self._inner.table_entries_of(self._inner.init(Problem(0))) is not None:
            kind = entry_of(self.inner).kind
            raise InvalidInput(f"{kind} sets its steps by evidence of its own, which trust would distort: use hashed")

    def init(self, problem: Problem) -> Any:
        first = super().init(problem)
        return State(first.table, first.inner, first.n_hashed, 0.0, 0.0)

    def trust(self, state: State) -> float:
        """What the score of memory is multiplied by."""
        statistic = (self.sure * np.sqrt(PRIOR) + state.told) / np.sqrt(PRIOR + state.squares)
        return float(min(1.0, max(0.0, statistic / self.sure)))

    def learn(self, state: Any, query: Query, decision: Decision[R], feedback: Feedback) -> Any:
        small, columns, entries = self._in_sight(state, query)
        after = self._inner.learn(small, query, decision, feedback)
        half, n_hashed, kept = state.n_hashed // 2, state.n_hashed, 1.0 - 1.0 / self.span
        steps = getattr(after, "newest", after.weights) - small.weights
        foresight = _foresight(columns, entries, steps, half, n_hashed)
        told, squares = finite(kept * state.told + foresight), finite(kept * state.squares + foresight**2)
        changed, values = self._written(state, query, columns, entries, entries[:, 0] + steps)
        nothing = self._inner.with_table_entries(after, np.empty((0, 2)))
        return State(state.table.patched(changed, require_finite(values)), nothing, n_hashed, told, squares)

    def _in_sight(self, state: Any, query: Query) -> tuple[Any, Ints, Floats]:
        """As `hashed` has it, with memory counting by its trust for `inner`; the entries are those of the table."""
        _, columns, entries = super()._in_sight(state, query)
        trusted = _scaled(columns, entries, state.n_hashed // 2, state.n_hashed, self.trust(state))
        return self._inner.with_table_entries(state.inner, trusted), columns, entries
