"""The preference perceptron that shows the list sorted by the mean of its weights."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from numpy.random import Generator

from rankloop.core.kernels import require_finite
from rankloop.core.learner_parts import best_ranking, check_finite, point_log_prob, shown_or_all, start_weights
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Preferred, Problem, Query
from rankloop.learners._shared.joint_features import corrected
from rankloop.learners.preference_perceptron import Receipt, first_pair, row_weights_of


class State(NamedTuple):
    """The mean of all weights so far, by which the list is sorted, and the newest ones, which are corrected."""

    weights: Floats
    newest: Floats
    shown: int
    rounds: int


@register("averaged_preference_perceptron")
class AveragedPreferencePerceptron:
    """`preference_perceptron`, but the list that is shown is sorted by the running mean of w.

    Averaging smooths unbiased noise. It does not cure the oscillation that biased clicks cause: take `3pr` for these.
    References: Shivaswamy and Joachims (2012), Online Structured Prediction via Coactive Learning; Collins (2002),
    Discriminative Training Methods for Hidden Markov Models.
    """

    clicks_to: Literal["top", "swap_first", "pairs"] = "top"
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Preferred, Clicks)
    reports: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        check_finite("start", self.start)

    def init(self, problem: Problem) -> State:
        weights = start_weights(self.start, problem.n_features)
        return State(weights, weights, shown_or_all(problem), 0)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        first = first_pair(self.clicks_to, len(query.features), rng)
        return Decision(best_ranking(query.features, state.weights), 0.0, Receipt(first))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        row_weights = row_weights_of(self.clicks_to, decision, feedback)
        weights, newest = corrected(query.features, state.weights, state.newest, state.rounds, True, row_weights)
        return State(require_finite(weights), require_finite(newest), state.shown, state.rounds + 1)

    def predict(self, state: State, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(best_ranking(query.features, state.weights), ranking, state.shown)
