"""A learner as the target policy: it is asked for the probability of what the log shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import AnyLearner
from rankloop.core.session import Session
from rankloop.core.types import Arrival, Clicks, Feedback, Floats, Ints, Preferred, Query, Relevances
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


def prefix_probabilities(learner: AnyLearner, state: Any, query: Query, ranking: Ints, places: int) -> Floats:
    """The probability of each place's item given those above it: a row for `cascade`.

    P(first p + 1 items) / P(first p items), from `log_prob` of a state in which only so many places are seen.
    """
    if not hasattr(state, "shown"):
        raise InvalidInput(f"{type(learner).__name__} does not keep `shown` in its state: its prefixes are unknown")
    logs = [0.0] + [learner.log_prob(state._replace(shown=p + 1), query, ranking) for p in range(places)]
    if any(math.isnan(value) for value in logs):
        raise InvalidInput(f"{type(learner).__name__} has no closed form for its probabilities")
    possible = np.isfinite(logs)
    steps = np.diff(np.where(possible, logs, 0.0))
    probabilities: Floats = np.where(possible[1:], np.exp(np.minimum(steps, 0.0)), 0.0)
    return probabilities


def place_probabilities(
    learner: AnyLearner, state: Any, query: Query, ranking: Ints, places: int, rng: Generator, draws: int = 1000
) -> Floats:
    """How often each of these items stands at its place, over `draws` rankings: a row for `position_wise`."""
    if draws < 1:
        raise InvalidInput(f"draws = {draws} must be at least 1")
    hits = np.zeros(places)
    for _ in range(draws):
        hits += learner.rank(state, query, rng).ranking[:places] == ranking[:places]
    return hits / draws
