"""Rollback: the states that a ranker can go back to, the step before the current one, and the difference it makes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import Conflict
from rankloop.core.protocols import AnyLearner
from rankloop.core.types import Ints, Query

MAX_EXAMPLES = 3  # lists of which a preview shows both orders
MAX_EXAMPLE_IDS = 10  # at the top of each


class StateRow(NamedTuple):
    """A state that a rollback can restore; the state of a rollback is the `same_as` another one."""

    state: int
    seq: int  # the last event that is in it
    at: float
    same_as: int | None = None


def listed_states(
    first: tuple[int, float], snapshots: Sequence[tuple[int, int, float]], rollbacks: Mapping[int, int]
) -> list[StateRow]:
    """Return the states of a ranker, the initial one first.

    Args:
      first: The event of its creation, and the time.
      snapshots: State number, last event and time of each, in order.
      rollbacks: By the event of a rollback the state that it restored.
    """
    rows = {0: StateRow(0, first[0], first[1])}
    for number, seq, at in snapshots:
        origin = rows.get(rollbacks.get(seq, -1))
        same = None if origin is None else origin.state if origin.same_as is None else origin.same_as
        rows[number] = StateRow(number, seq, at, rollbacks.get(seq) if same is None else same)
    return [rows[number] for number in sorted(rows)]


def state_before(rows: Sequence[StateRow], current: int) -> int:
    """Return the last state that was kept; if nothing was learned since, the one before: each step goes further back.

    Args:
      rows: As `listed_states` returns them.
      current: The number of the state that is served.
    """
    newest = rows[-1]
    origin = newest.state if newest.same_as is None else newest.same_as
    if newest.state != current:
        return origin
    earlier = [row for row in rows if row.state < origin]  # after a rollback, learning went on from an earlier state
    if not earlier:
        raise Conflict("this ranker is at state 0, its initial state: there is no state before it")
    return earlier[-1].state if earlier[-1].same_as is None else earlier[-1].same_as


def order_difference(learner: AnyLearner, now: Any, then: Any, queries: Mapping[str, Query]) -> dict[str, Any]:
    """Compare the orders that two states give to logged queries, by numbers and by examples.

    Args:
      learner: Of the ranker.
      now: The state that is served.
      then: The state of a rollback.
      queries: Recent ones, with the ids of their items, by impression.
    """
    pairs = [(name, learner.predict(now, query), learner.predict(then, query)) for name, query in queries.items()]
    different = [pair for pair in pairs if not np.array_equal(pair[1], pair[2])]
    correlations = [_rank_correlation(first, second) for _, first, second in pairs]
    examples = [
        {
            "impression": name,
            "query_id": queries[name].id,
            "now": [queries[name].item_ids[i] for i in first[:MAX_EXAMPLE_IDS]],
            "then": [queries[name].item_ids[i] for i in second[:MAX_EXAMPLE_IDS]],
        }
        for name, first, second in different[:MAX_EXAMPLES]
    ]
    return {
        "lists": len(pairs),
        "changed": len(different),
        "rank_correlation": float(np.mean(correlations)) if correlations else None,
        "examples": examples,
    }


def _rank_correlation(first: Ints, second: Ints) -> float:
    """Return Spearman's correlation of the positions of n items in two rankings, 1 − 6 Σ d² / (n (n² − 1))."""
    n_items = len(first)
    if n_items < 2:
        return 1.0
    differences = np.argsort(first) - np.argsort(second)
    return float(1.0 - 6.0 * (differences**2).sum() / (n_items * (n_items**2 - 1)))
