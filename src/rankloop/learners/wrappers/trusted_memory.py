"""Hashed columns whose memory counts only as far as it has predicted clicks."""

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

PRIOR_SQUARES = 100.0  # Σ z² that the first trust counts for


class State(NamedTuple):
    """The state of `hashed`, and how well memory has predicted clicks."""

    table: WeightTable  # Weight and Σ gradient² of every column.
    inner: Any  # The state of the inner learner without its weights.
    n_hashed: int  # The number of hashed columns.
    agreement: float  # Σ z, see `TrustedMemory`.
    squares: float  # Σ z².

    def reachable(self, initial: "State") -> bool:
        """Return true if the sum of squares is not negative."""
        return self.squares >= 0.0


@kernel
def _scaled(columns: Ints, entries: Floats, memory_from: int, n_hashed: int, trust: float) -> Floats:
    """Return the entries with the weights of memory multiplied by trust."""
    scaled = entries.copy()
    for i in range(len(columns)):
        if memory_from <= columns[i] < n_hashed:
            scaled[i, 0] *= trust
    return scaled


@kernel
def _agreement(columns: Ints, entries: Floats, steps: Floats, memory_from: int, n_hashed: int) -> float:
    """Return step · weights over the memory columns: above 0 if memory had predicted the clicks."""
    total = 0.0
    for i in range(len(columns)):
        if memory_from <= columns[i] < n_hashed:
            total += steps[i] * entries[i, 0]
    return total


def memory_trust(learner: AnyLearner, state: Any) -> float:
    """Return the factor of memory's score, for any learner; 1 without a `TrustedMemory`.

    Args:
      learner: A learner, or wrappers around one.
      state: Its state.
    """
    wrapper = next((layer for layer in layers_of(learner) if isinstance(layer, TrustedMemory)), None)
    own_state = next((layer for layer in layers_of(state) if isinstance(layer, State)), None)
    return 1.0 if wrapper is None or own_state is None else wrapper.trust(own_state)


@register("trusted_memory")
class TrustedMemory(Hashed):
    """The learner `hashed` with the score of its memory multiplied by the trust that it has earned.

    Before an update changes anything, it tests memory: z = g · m, with g the step of `inner` and m the memory weights
    of the query, is above 0 when memory had ranked as the clicks do now. If clicks are random, z is as often below 0 as
    above. So

      T = (`sure` · √100 + Σ z) / √(100 + Σ z²),  trust = clip(T / `sure`, 0, 1),

    is a t-statistic. Trust begins at 1, stays there while memory is confirmed, and falls when users click at random;
    then the order is that of the other weights. The memory weights are kept, and count again when they predict again.
    An `inner` that keeps evidence per column is refused.

    Args:
      inner: A linear learner that accepts sparse rows.
      rate: The step size of AdaGrad.
      prior: The first value of the summed squares.
      memory_rate: The `rate` of the memory columns; `rate` if None.
      memory_prior: The `prior` of the memory columns; `prior` if None.
      by_query: As in `hashed`.
      start: The first weights of the dense block; zeros if empty.
      sure: The t-statistic of full trust.
      span: The number of updates that the sums reach back.

    Examples:
      >>> from rankloop import build, play
      >>> stream, users, measure = build("web_search"), build("dcm"), build("nDCG@10")
      >>> rounds = play(build("trusted_memory(inner='click_residuals')"), stream, users, horizon=200, seed=0)
      >>> round(sum(measure(r.decision.ranking, r.relevance) for r in rounds) / 200, 3)
      0.497
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
            raise InvalidInput(f"{kind} has step sizes of its own, which trust would distort: use hashed")

    def init(self, problem: Problem) -> Any:
        """Return the first state for a problem."""
        first = super().init(problem)
        return State(first.table, first.inner, first.n_hashed, 0.0, 0.0)

    def trust(self, state: State) -> float:
        """Return the factor of memory's score."""
        statistic = (self.sure * np.sqrt(PRIOR_SQUARES) + state.agreement) / np.sqrt(PRIOR_SQUARES + state.squares)
        return float(min(1.0, max(0.0, statistic / self.sure)))

    def learn(self, state: Any, query: Query, decision: Decision[R], feedback: Feedback) -> Any:
        """Return the state after the feedback on a decision."""
        small, columns, entries = self._in_sight(state, query)
        after = self._inner.learn(small, query, decision, feedback)
        half, n_hashed, kept = state.n_hashed // 2, state.n_hashed, 1.0 - 1.0 / self.span
        steps = getattr(after, "newest", after.weights) - small.weights
        agreement_now = _agreement(columns, entries, steps, half, n_hashed)
        agreement, squares = (
            finite(kept * state.agreement + agreement_now),
            finite(kept * state.squares + agreement_now**2),
        )
        changed, values = self._written(state, query, columns, entries, entries[:, 0] + steps)
        empty_inner = self._inner.with_table_entries(after, np.empty((0, 2)))
        return State(state.table.patched(changed, require_finite(values)), empty_inner, n_hashed, agreement, squares)

    def _in_sight(self, state: Any, query: Query) -> tuple[Any, Ints, Floats]:
        """Return the inner state with memory scaled by its trust, the columns, and their unscaled table entries."""
        _, columns, entries = super()._in_sight(state, query)
        trusted = _scaled(columns, entries, state.n_hashed // 2, state.n_hashed, self.trust(state))
        return self._inner.with_table_entries(state.inner, trusted), columns, entries
