"""A learner as the target policy: it is asked for the probability of what the log shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.types import Arrival, Clicks, Feedback, Preferred, Relevances
from rankloop.evaluation.rows import Rows, rows_of

PIECE = 4096


def reward_of(feedback: Feedback) -> float:
    """What feedback is worth: the reward itself, the clicks with their weights, or the grades, summed."""
    if isinstance(feedback, Preferred):
        raise InvalidInput("a preferred order has no value by itself; give `reward`, a function of the feedback")
    if isinstance(feedback, Clicks):
        return float(feedback.weights.sum())
    return float(feedback.grades.sum()) if isinstance(feedback, Relevances) else float(feedback.value)


def session_rows(
    session: Session, log: Iterable[Arrival], reward: Callable[[Feedback], float] = reward_of
) -> Iterator[Rows]:
    """Rows for `estimate`, the target being the session as it is now, exploration included.

    Every arrival has the decision with the `log_propensity` of its day. Refused, with the row: a decision whose
    propensity is unknown, and a target without a closed form for its probabilities.
    """
    entries, first = iter(log), 0
    while piece := list(islice(entries, PIECE)):
        target = [_probability(session, arrival, first + i) for i, arrival in enumerate(piece)]
        logged = np.exp([arrival.decision.log_propensity for arrival in piece])
        yield rows_of([reward(arrival.feedback) for arrival in piece], logged, target, first_row=first)
        first += len(piece)


def _probability(session: Session, arrival: Arrival, row: int) -> float:
    log_prob = session.log_prob(arrival.query, arrival.decision.ranking)
    if math.isnan(log_prob):
        kind = type(session.learner).__name__
        raise InvalidInput(
            f"row {row}: {kind} cannot say with which probability it shows this ranking (it has no closed form), so "
            "the log cannot be weighted; evaluate a learner that can, such as 3pr, pdgd or auc_policy"
        )
    return math.exp(log_prob)
