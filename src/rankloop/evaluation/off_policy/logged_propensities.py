"""With which probability a learner puts items at positions: what estimators of whole rankings need of a log."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ALL_POSITIONS, seen_count
from rankloop.core.learner import from_layers, with_in_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.session import Session
from rankloop.core.types import Arrival, Clicks, Feedback, Floats, Ints, Preferred, Query, Relevances
from rankloop.logs.choice_log import ChoiceRows, rows_of

MAX_PREFIXES = 20_000  # examined before a distribution counts as too wide to be written down
ROUNDING_TOLERANCE = 1e-12
MAX_PIECE_ROWS = 4096  # rows at a time


class RankingPolicy(NamedTuple):
    """A learner in one of its states: the policy that drew a ranking, or one that might."""

    learner: AnyLearner
    state: Any

    @property
    def name(self) -> str:
        """The class name of the learner, for messages."""
        return type(self.learner).__name__

    def positions_seen(self, n_items: int) -> int:
        """Return how many positions users see when this policy ranks so many items."""
        return int(seen_count(int(from_layers(self.state, "shown", ALL_POSITIONS)), n_items))

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        """Return the log-probability of a ranking with the learner in another state."""
        value = self.learner.log_prob(state, query, ranking)
        if math.isnan(value):
            action = "shows these items at these positions (it has no closed form)"
            raise InvalidInput(f"{self.name} cannot say with which probability it {action}")
        return value


def prefix_probabilities(policy: RankingPolicy, query: Query, ranking: Ints, positions: int) -> Floats:
    """Return the probability of each position's item given those above it: a row of `cascade_ips`.

    P(first p + 1 items) / P(first p items), from `log_prob` of a state in which only so many positions are seen.

    Args:
      policy: A learner in one of its states.
      query: The query.
      ranking: The ranking, best first.
      positions: How many positions count, from the first.
    """
    logs = [0.0] + [policy.log_prob(state, query, ranking) for state in _by_depth(policy, positions)]
    possible = np.isfinite(logs)
    steps = np.diff(np.where(possible, logs, 0.0))
    probabilities: Floats = np.where(possible[1:], np.exp(np.minimum(steps, 0.0)), 0.0)
    return probabilities


def position_probabilities(policy: RankingPolicy, query: Query, ranking: Ints, positions: int) -> Floats:
    """Return the probability of each item at its position, whatever stands elsewhere: a row of `position_wise`.

    Exact, as a sum over all that the policy can show in these positions; refused where that is too much.

    Args:
      policy: A learner in one of its states.
      query: The query.
      ranking: The ranking, best first.
      positions: How many positions count, from the first.
    """
    probabilities = np.zeros(positions)
    for shown, probability in shown_parts(policy, query, positions).items():
        probabilities += probability * (np.array(shown) == ranking[:positions])
    return np.minimum(probabilities, 1.0)


def shown_parts(policy: RankingPolicy, query: Query, positions: int) -> dict[tuple[int, ...], float]:
    """Return everything that the policy can show in the first `positions`, with its probability.

    A prefix is followed by the items that `predict` has next, until its probability is used up; so learners that move
    items a little (3pr, fair_pairs) are quickly written down, and those that may show any order only for few positions.

    Args:
      policy: A learner in one of its states.
      query: The query.
      positions: How many positions count, from the first.
    """
    expected: list[int] = policy.learner.predict(policy.state, query).tolist()
    parts: dict[tuple[int, ...], float] = {(): 1.0}
    examined = 0
    for state in _by_depth(policy, positions):
        longer: dict[tuple[int, ...], float] = {}
        for prefix, probability in parts.items():
            left = probability
            remaining_items = [item for item in expected if item not in prefix]
            for position, item in enumerate(remaining_items):
                others = remaining_items[:position] + remaining_items[position + 1 :]
                order = np.array([*prefix, item, *others], dtype=np.int64)
                joint = math.exp(policy.log_prob(state, query, order))
                examined += 1
                if examined > MAX_PREFIXES:
                    raise InvalidInput(
                        f"{policy.name} can show too many different orders in the first {positions} positions to write "
                        "them all down; judge fewer positions, or use cascade_ips, which does not need them"
                    )
                if joint > 0.0:
                    longer[*prefix, item] = joint
                left -= joint
                if left <= ROUNDING_TOLERANCE * probability:
                    break
        parts = longer
    return parts


def _by_depth(policy: RankingPolicy, positions: int) -> list[Any]:
    """The policy's state as it would be if only the first 1, 2, … `positions` were seen."""
    if from_layers(policy.state, "shown") is None:
        problem = "does not keep `shown` in its state: the probabilities of positions are unknown"
        raise InvalidInput(f"{policy.name} {problem}")
    return [with_in_layers(policy.state, "shown", position + 1) for position in range(positions)]


def _reward_of(feedback: Feedback) -> float:
    """Return the worth of feedback: the reward itself, the clicks with their weights, or the grades, summed."""
    if isinstance(feedback, Preferred):
        raise InvalidInput("a preferred order has no value by itself; give `reward`, a function of the feedback")
    if isinstance(feedback, Clicks):
        return float(feedback.weights.sum())
    return float(feedback.grades.sum()) if isinstance(feedback, Relevances) else float(feedback.value)


def session_rows(
    session: Session, log: Iterable[Arrival], reward: Callable[[Feedback], float] = _reward_of, first: int = 0
) -> Iterator[ChoiceRows]:
    """Yield rows for `estimate`; the target is the session as it is now, exploration included.

    Refused, with the row: a decision whose propensity is unknown, and a target without a closed form for its own.

    Args:
      session: The session of the ranker.
      log: The arrivals: decisions with their log-propensity, and feedback.
      reward: The value of feedback.
      first: The number of the first row, for messages.
    """
    entries = iter(log)
    while piece := list(islice(entries, MAX_PIECE_ROWS)):
        log_probs = [session.log_prob(arrival.query, arrival.decision.ranking) for arrival in piece]
        if np.isnan(log_probs).any():
            raise InvalidInput(
                f"row {first + int(np.argmax(np.isnan(log_probs)))}: {type(session.learner).__name__} cannot say with "
                "which probability it shows this ranking (it has no closed form), so the log cannot be weighted; "
                "evaluate a learner that can, such as 3pr, pdgd or auc_policy"
            )
        logged = np.exp([arrival.decision.log_propensity for arrival in piece])
        target = list(map(math.exp, log_probs))
        yield rows_of([reward(arrival.feedback) for arrival in piece], logged, target, first_row=first)
        first += len(piece)
