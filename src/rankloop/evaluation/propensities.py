"""With which probability a learner puts items at places: what estimators of whole rankings need of a log."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.learning import seen_count
from rankloop.core.protocols import AnyLearner
from rankloop.core.types import Floats, Ints, Query

MOST_PREFIXES = 20_000  # looked at before a distribution counts as too wide to be written down
ROUNDING = 1e-12


class RankingPolicy(NamedTuple):
    """A learner in one of its states: the policy that drew a ranking, or one that might."""

    learner: AnyLearner
    state: Any

    @property
    def name(self) -> str:
        return type(self.learner).__name__


def places_seen(policy: RankingPolicy, n_items: int) -> int:
    """How many places people see when this policy ranks so many items."""
    return int(seen_count(_shown_in(policy), n_items))


def prefix_probabilities(policy: RankingPolicy, query: Query, ranking: Ints, places: int) -> Floats:
    """The probability of each place's item given those above it, for the first `places`: a row for `cascade`.

    P(first p + 1 items) / P(first p items), from `log_prob` of a state in which only so many places are seen.
    """
    logs = [0.0] + [_log_prob(state, policy, query, ranking) for state in _by_depth(policy, places)]
    possible = np.isfinite(logs)
    steps = np.diff(np.where(possible, logs, 0.0))
    probabilities: Floats = np.where(possible[1:], np.exp(np.minimum(steps, 0.0)), 0.0)
    return probabilities


def place_probabilities(policy: RankingPolicy, query: Query, ranking: Ints, places: int) -> Floats:
    """The probability of each of these items at its place, whatever stands elsewhere: a row for `position_wise`.

    Exact, as a sum over all that the policy can show in these places; refused where that is too much.
    """
    found = np.zeros(places)
    for shown, probability in shown_parts(policy, query, places).items():
        found += probability * (np.array(shown) == ranking[:places])
    return np.minimum(found, 1.0)


def shown_parts(policy: RankingPolicy, query: Query, places: int) -> dict[tuple[int, ...], float]:
    """Everything that the policy can show in the first `places`, with its probability, and nothing that it cannot.

    A prefix is followed by the items that `predict` has next, until its probability is used up; so learners that move
    items a little (3pr, fair_pairs) are quickly written down, and those that may show any order only for few places.
    """
    expected: list[int] = policy.learner.predict(policy.state, query).tolist()
    parts: dict[tuple[int, ...], float] = {(): 1.0}
    looked_at = 0
    for state in _by_depth(policy, places):
        longer: dict[tuple[int, ...], float] = {}
        for prefix, probability in parts.items():
            left = probability
            rest = [item for item in expected if item not in prefix]
            for place, item in enumerate(rest):
                order = np.array([*prefix, item, *rest[:place], *rest[place + 1 :]], dtype=np.int64)
                chance = math.exp(_log_prob(state, policy, query, order))
                looked_at += 1
                if looked_at > MOST_PREFIXES:
                    raise _too_many(policy, places)
                if chance > 0.0:
                    longer[*prefix, item] = chance
                left -= chance
                if left <= ROUNDING * probability:
                    break
        parts = longer
    return parts


def _by_depth(policy: RankingPolicy, places: int) -> list[Any]:
    """The policy's state as it would be if only the first 1, 2, … `places` were seen."""
    if not _has_shown(policy.state):
        raise InvalidInput(f"{policy.name} does not keep `shown` in its state: the probabilities of places are unknown")
    return [_with_shown(policy.state, place + 1) for place in range(places)]


def _has_shown(state: Any) -> bool:
    return hasattr(state, "shown") or (hasattr(state, "inner") and _has_shown(state.inner))


def _with_shown(state: Any, shown: int) -> Any:
    """Wrappers keep the state of what they wrap in `inner`."""
    if hasattr(state, "shown"):
        state = state._replace(shown=shown)
    return state._replace(inner=_with_shown(state.inner, shown)) if hasattr(state, "inner") else state


def _shown_in(policy: RankingPolicy) -> int:
    state = policy.state
    while not hasattr(state, "shown"):
        if not hasattr(state, "inner"):
            return -1
        state = state.inner
    return int(state.shown)


def _log_prob(state: Any, policy: RankingPolicy, query: Query, ranking: Ints) -> float:
    value = policy.learner.log_prob(state, query, ranking)
    if math.isnan(value):
        raise InvalidInput(
            f"{policy.name} cannot say with which probability it shows these items at these places (it has no closed "
            "form)"
        )
    return value


def _too_many(policy: RankingPolicy, places: int) -> InvalidInput:
    return InvalidInput(
        f"{policy.name} can show too many different orders in the first {places} places to write them all down; judge "
        "fewer places, or use the cascade estimator, which does not need them"
    )
