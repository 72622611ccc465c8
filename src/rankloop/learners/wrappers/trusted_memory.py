"""Hashed columns whose memory counts only as far as it has predicted clicks."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.checks import Count, Positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, scores_of
from rankloop.core.learner import clicks_by_item, finite, layers_of, require_finite
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Examples, entry_of, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, R
from rankloop.core.weight_table import WeightTable
from rankloop.features.hashed_columns import NAME_SEPARATOR, hash_of
from rankloop.learners.wrappers.hashed_weights import NO_COLUMNS, Hashed

USER_FIELD = NAME_SEPARATOR + "users"  # no field has this name
CHANCE = 0.5  # of the t-statistic of full trust, which random clicks may reach
ALL_SUMS = ("all", "clicked"), ("all", "read")
FULL_UPDATES = 3.0  # of a user from one query that count in full
HALF_MEMORY_SCORE = 1.0  # of memory, at which agreement with it counts half: young memory is no judge of a user


class State(NamedTuple):
    """The state of `hashed`, and how well memory has predicted clicks."""

    table: WeightTable  # Weight and Σ gradient² of every column.
    inner: Any  # The state of the inner learner without its weights.
    n_hashed: int  # The number of hashed columns.
    agreement: float  # Σ a, see `TrustedMemory`.
    squares: float  # Σ a².

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
def _agreement(memory: Floats, clicked: Floats, ranking: Ints, click_rate: float) -> tuple[float, int, int]:
    """Return how far clicks agree with memory, and the numbers of items clicked and read, as in `TrustedMemory`."""
    end, n_clicked = 1, 0
    for position in range(len(ranking)):
        if clicked[ranking[position]] > 0.0:
            end, n_clicked = position + 2, n_clicked + 1
    end = min(end, len(ranking))
    product, memory_squares, click_squares = 0.0, 0.0, 0.0
    for position in range(end):
        score = memory[ranking[position]]
        surplus = (1.0 if clicked[ranking[position]] > 0.0 else 0.0) - click_rate
        product += score * surplus
        memory_squares += score * score
        click_squares += surplus * surplus
    norm, size = np.sqrt(memory_squares * click_squares), np.sqrt(memory_squares / max(end, 1))
    cosine = product / norm if norm > 1e-12 else 0.0
    return cosine * size / (size + HALF_MEMORY_SCORE), n_clicked, end


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

    Before an update changes anything, it tests memory: the agreement a of the clicks with memory is measured over the
    items that were read, those down to the last click and one more:

      a = s / (s + 1) · Σ m (c − r) / √(Σ m² · Σ (c − r)²),

    where m is an item's score by memory, s its root mean square, c is 1 for a click and else 0, and r is the share of
    read items that all users have clicked: who leaves a list that memory is sure of without a click contradicts it,
    too. If clicks are random, a is as often below 0 as above. So

      T = (`full_trust_t` · √`trust_prior` + Σ a) / √(`trust_prior` + Σ a²)

    is a t-statistic. With u = T / `full_trust_t`,

      trust = clip((1 − (0.5 / u)²) / (1 − 0.5²), 0, 1), and 0 where u ≤ 0.5,

    which takes off the share of T² that chance may explain, as the estimator of James and Stein does. Trust begins at
    1, and falls to 0 when users click at random: then the order is that of the other weights. The memory weights are
    kept, and count again when they predict again. An `inner` with evidence per column is refused.

    With `by_user` an update counts by the user who clicked. From the fourth on, the n-th update of a user from one
    query counts 3 / n, so that nobody decides an order alone. And a user whose clicks contradict memory counts less:

      trust in a user = clip(1 + Σ a / √(`user_prior` + Σ |a|) / `user_distrust_t`, 0, 1).

    Args:
      inner: A linear learner that accepts sparse rows.
      rate: The step size of AdaGrad.
      prior: The first value of the summed squares.
      memory_rate: The `rate` of the memory columns; `rate` if None.
      memory_prior: The `prior` of the memory columns; `prior` if None.
      by_query: As in `hashed`.
      start: The first weights of the dense block; zeros if empty.
      full_trust_t: The t-statistic of full trust.
      span: The number of updates that the sums reach back.
      trust_prior: The first value of Σ a².
      by_user: Weigh updates by user, where queries name one.
      user_prior: The first value of Σ |a|.
      user_distrust_t: The statistic of contradiction at which a user counts nothing.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("trusted_memory(inner='click_residuals')", "web_search", "dcm", "nDCG@10"), 3)
      0.497
    """

    full_trust_t: Positive = 6.0
    span: Count = 2000
    trust_prior: Positive = 0.7
    by_user: bool = False
    user_prior: Positive = 0.3
    user_distrust_t: Positive = 2.0

    examples: ClassVar[Examples] = (
        {"inner": "click_residuals"},
        {"inner": "fair_pairs", "full_trust_t": 2.0, "span": 10, "by_query": True, "by_user": True},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._inner.table_entries_of(self._inner.init(Problem(0))) is not None:
            kind = entry_of(self.inner).kind
            raise InvalidInput(f"{kind} has step sizes of its own, which trust would distort: use hashed")

    def init(self, problem: Problem) -> Any:
        first = super().init(problem)
        return State(first.table, first.inner, first.n_hashed, 0.0, 0.0)

    def trust(self, state: State) -> float:
        """Return the factor of memory's score."""
        statistic = np.sqrt(self.trust_prior) + state.agreement / self.full_trust_t
        share = statistic / np.sqrt(self.trust_prior + state.squares)  # of the statistic of full trust
        return float(min(1.0, (1.0 - (CHANCE / share) ** 2) / (1.0 - CHANCE**2))) if share > CHANCE else 0.0

    def learn(self, state: Any, query: Query, decision: Decision[R], feedback: Feedback) -> Any:
        small, columns, entries = self._in_sight(state, query)
        after = self._inner.learn(small, query, decision, feedback)
        half, n_hashed, kept = state.n_hashed // 2, state.n_hashed, 1.0 - 1.0 / self.span
        steps = getattr(after, "newest", after.weights) - small.weights
        weights_of_memory = entries[:, 0] - _scaled(columns, entries, half, n_hashed, 0.0)[:, 0]  # 0 for other columns
        sum_columns, sums = self._sums(state, query)
        memory, clicked = scores_of(query.features, weights_of_memory), clicks_by_item(feedback, query.n_items)
        click_rate = (1.0 + sums[0, 1]) / (2.0 + sums[1, 1])
        opinion, n_clicked, n_read = _agreement(memory, clicked, decision.ranking, click_rate)
        agreement_now, changes = opinion, [float(n_clicked), float(n_read)]
        if len(sums) > len(ALL_SUMS):
            agreeing, contradicting, n_updates = sums[len(ALL_SUMS) :, 1]
            share = self._user_trust(agreeing, contradicting) * min(1.0, FULL_UPDATES / (1.0 + n_updates))
            steps, agreement_now = steps * share, opinion * share
            changes += [max(opinion, 0.0), max(-opinion, 0.0), 1.0]
        agreement = finite(kept * state.agreement + agreement_now)
        squares = finite(kept * state.squares + agreement_now**2)
        changed, values = self._written(state, query, columns, entries, entries[:, 0] + steps)
        if len(sum_columns) and not np.isin(sum_columns, changed).any():
            sums[:, 1] += changes
            changed, values = np.concatenate([changed, sum_columns]), np.concatenate([values, sums])
        empty_inner = self._inner.with_table_entries(after, np.empty((0, 2)))
        return State(state.table.patched(changed, require_finite(values)), empty_inner, n_hashed, agreement, squares)

    def _user_trust(self, agreeing: float, contradicting: float) -> float:
        """Return the factor of a user's updates, by the sums of agreements above 0 and of those below, without sign."""
        statistic = (agreeing - contradicting) / np.sqrt(self.user_prior + agreeing + contradicting)
        return float(np.clip(1.0 + statistic / self.user_distrust_t, 0.0, 1.0))

    def _sums(self, state: Any, query: Query) -> tuple[Ints, Floats]:
        """Return memory's columns for the click rate of all and, with `by_user`, a user's sums, and their entries."""
        half = state.n_hashed // 2
        if not half:
            return NO_COLUMNS, np.zeros((len(ALL_SUMS), 2))
        of_user = ("agreeing", query.user), ("contradicting", query.user), (query.id, query.user)
        names = ALL_SUMS + (of_user if self.by_user and query.user else ())
        columns = np.array([half + hash_of(USER_FIELD, NAME_SEPARATOR.join(name)) % half for name in names])
        return columns, state.table.at(columns)

    def _in_sight(self, state: Any, query: Query) -> tuple[Any, Ints, Floats]:
        """Return the inner state with memory scaled by its trust, the columns, and their unscaled table entries."""
        _, columns, entries = super()._in_sight(state, query)
        trusted = _scaled(columns, entries, state.n_hashed // 2, state.n_hashed, self.trust(state))
        return self._inner.with_table_entries(state.inner, trusted), columns, entries
