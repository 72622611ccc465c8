"""What learners share: a start, the best ranking, its seen part, a projection, and checks of what they are given."""

from __future__ import annotations

import math
import sys
from typing import TypeVar

import numpy as np

from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.kernels import kernel, scores_of
from rankloop.core.rankings import ranking_of
from rankloop.core.types import Feedback, Floats, Ints, Problem

K = TypeVar("K", bound=Feedback)
ALL = -1  # how a state writes "every position is seen"


@kernel
def best_ranking(features: Floats, weights: Floats) -> Ints:
    """Items by descending features · weights: scores and sort in one call."""
    return ranking_of(scores_of(features, weights))


@kernel
def point_log_prob(best: Ints, ranking: Ints, shown: int) -> float:
    """0 when the seen part of `ranking` is that of `best`, the only one ever shown; else −infinity."""
    for position in range(seen_count(shown, len(best))):
        if best[position] != ranking[position]:
            return -np.inf
    return 0.0


@kernel
def seen_count(shown: int, n_items: int) -> int:
    """How many of n_items places are seen; a negative `shown` means all."""
    if shown < 0 or shown > n_items:
        return n_items
    return shown


@kernel
def project(weights: Floats, radius: float) -> None:
    """Scale `weights` in place so that their Euclidean norm is at most `radius` (infinite: leave them)."""
    if radius == np.inf or len(weights) == 0:
        return
    largest = np.abs(weights).max()
    if largest == 0.0:
        return
    total = 0.0
    for value in weights:
        total += (value / largest) ** 2
    norm = largest * np.sqrt(total)
    if norm > radius:
        weights *= radius / norm


def shown_or_all(problem: Problem) -> int:
    """`problem.shown` as a number for a state: −1 when every position is seen."""
    return ALL if problem.shown is None else problem.shown


def start_weights(start: tuple[float, ...], n_features: int) -> Floats:
    """The first weights of a linear learner: zeros when `start` is empty."""
    if start and len(start) != n_features:
        raise InvalidInput(f"start has {len(start)} weights, the problem has {n_features} features: give one for each")
    return np.array(start, dtype=np.float64) if start else np.zeros(n_features)


def check_finite(name: str, values: tuple[float, ...]) -> None:
    """Refuse hyper-parameters with a NaN or an infinity in them."""
    for position, value in enumerate(values):
        if not math.isfinite(value):
            raise InvalidInput(f"{name}[{position}] = {value}: every number must be finite")


def check_positive(name: str, value: float) -> None:
    """Refuse a hyper-parameter that is not a finite number above zero."""
    if value is None or isinstance(value, str | list | tuple) or not 0 < value <= sys.float_info.max:
        raise InvalidInput(f"{name} = {value!r:.60} must be a finite number above 0")


def check_horizon(horizon: int | None) -> None:
    """Refuse a number of rounds below 1; None is an open end."""
    if horizon is not None and horizon < 1:
        raise InvalidInput(f"horizon = {horizon} must be a number of rounds from 1")


def expect(feedback: Feedback, kind: type[K]) -> K:
    """`feedback`, known to be of this kind; the session has already refused others."""
    if not isinstance(feedback, kind):
        raise IncompatibleFeedback(f"this learner learns from {kind.__name__}, got {type(feedback).__name__}")
    return feedback


def check_receipt(fits: bool) -> None:
    """Refuse a receipt that cannot be of this decision: it may have travelled far, and kernels do not check bounds."""
    if not fits:
        raise IncompatibleFeedback("the decision's receipt is not one that this learner gave for this query")


def finite(value: float) -> float:
    """`value`, or `UnstableUpdate`: what `stable` is for arrays."""
    if not math.isfinite(value):
        raise UnstableUpdate(f"the step would leave {value} in the state; it is refused, the old state stands")
    return value
