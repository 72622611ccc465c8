"""A ranking SVM that is refitted from time to time to all feedback so far."""

import math
from contextlib import suppress
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from rankloop.core.checks import FiniteNumbers, Positive, PositiveCount
from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.kernels import clicked_weights, scores_of, weighted_rows
from rankloop.core.learner import GreedyLearner, LinearLearner, expect, require_finite, shown_or_all
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Preferred, Problem, Query
from rankloop.learners._shared.swap_propensity import correction, moved_to_top
from rankloop.training.bundle import minimise

FIRST_FIT_ROUND = 10  # of a learner that does not fit in every round
MAX_ROUNDS = 2.0**53  # whole numbers above are not exact
MAX_FEATURE = 1e150  # in an example: its square is still finite
CHUNK_EXAMPLES = 256  # old examples are copied once per so many new ones
FIT_TOLERANCE = 1e-4  # of the improvement over w = 0


class State(NamedTuple):
    """The weights of the last fit, and the examples φ(x, better) − φ(x, shown) for the next one."""

    weights: Floats
    stored: Floats  # (n_examples, n_features)
    recent: Floats  # the newest examples, fewer than CHUNK_EXAMPLES
    rounds: int
    next_fit: int
    shown: int


def _hinge_of_examples(examples: Floats, weights: Floats) -> tuple[float, Floats]:
    """Return (1/n) Σ max(0, 1 − example · weights) and a sub-gradient."""
    margins = 1.0 - scores_of(examples, weights)
    is_short = (margins > 0.0).astype(np.float64)
    return float((margins * is_short).sum()) / len(examples), weighted_rows(examples, -is_short) / len(examples)


@register("refitted_svm")
class RefittedSVM(GreedyLearner, LinearLearner):
    """A ranking SVM that is fitted again whenever the number of rounds has grown by the factor `growth`.

    With `growth` = 1 it is fitted after every round.

    Each piece of feedback is an example δ = φ(x, better) − φ(x, shown), clicked items moved to the top, as in
    `preference_perceptron`. A fit minimises `regularisation`/2 · ‖w‖² + (1/n) Σ max(0, 1 − w · δ) over the newest
    `memory` examples; between fits the list is sorted by the last w, without exploration.

    Use it to compare with retraining in batches. Its examples come from the lists that it showed itself, so it stays
    behind learners that explore.
    Reference: Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, figure 4.
    """

    regularisation: Positive = 0.01
    growth: float = 2.0
    memory: PositiveCount = 10_000
    start: FiniteNumbers = ()

    accepts: ClassVar[tuple[type, ...]] = (Preferred, Clicks)
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"growth": 1.0, "memory": 3, "regularisation": 1.0})

    def __post_init__(self) -> None:
        if not (math.isfinite(self.growth) and self.growth >= 1):
            raise InvalidInput(f"growth = {self.growth} must be a factor from 1 on: 1 fits again in every round")

    def init(self, problem: Problem) -> State:
        empty, first_fit = np.zeros((0, problem.n_features)), 1 if self.growth == 1.0 else FIRST_FIT_ROUND
        return State(self.first_weights(problem), empty, empty, 0, first_fit, shown_or_all(problem))

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        if isinstance(feedback, Preferred):
            better = feedback.ranking
        else:
            items, clicks = expect(feedback, Clicks)
            better = moved_to_top(decision.ranking, clicked_weights(len(decision.ranking), items, clicks))
        example = weighted_rows(query.features, correction(decision.ranking, better))
        stored, recent = state.stored, state.recent
        largest = np.abs(example).max(initial=0.0)
        if not largest <= MAX_FEATURE:
            raise UnstableUpdate(f"the features differ by {largest:g}, too much to fit: the update was refused")
        if largest > 0.0:
            recent = np.vstack([recent, example])
        if len(recent) >= CHUNK_EXAMPLES:
            stored, recent = np.vstack([stored, recent])[-self.memory :], recent[:0]
        rounds, next_fit, weights = state.rounds + 1, state.next_fit, state.weights
        if rounds >= next_fit:
            next_fit = max(rounds + 1, math.ceil(min(rounds * self.growth, MAX_ROUNDS)))
            weights = self._fitted(np.vstack([stored, recent])[-self.memory :], weights)
        return State(weights, stored, recent, rounds, next_fit, state.shown)

    def _fitted(self, examples: Floats, start: Floats) -> Floats:
        if len(examples) == 0:
            return start
        for first in (start, np.zeros(len(start))):  # from zero where the risk of the last weights is beyond numbers
            with suppress(InvalidInput):
                risk, strength = partial(_hinge_of_examples, examples), self.regularisation
                return require_finite(minimise(risk, first, regularisation=strength, tolerance=FIT_TOLERANCE).weights)
        raise UnstableUpdate("the examples are too large to fit: the update was refused and the state is unchanged")
