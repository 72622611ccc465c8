"""The preference perceptron that shows the list sorted by the mean of its weights."""

from typing import Literal

from rankloop.core.learner import require_finite, shown_or_all, start_weights
from rankloop.core.registry import register
from rankloop.core.types import Decision, Feedback, Problem, Query
from rankloop.learners._shared.joint_features import AveragedState as State
from rankloop.learners._shared.joint_features import corrected
from rankloop.learners.preference_perceptron import PreferenceLearner, Receipt


@register("averaged_preference_perceptron")
class AveragedPreferencePerceptron(PreferenceLearner):
    """`preference_perceptron`, but the list that is shown is sorted by the running mean of w.

    Averaging smooths unbiased noise. It does not cure the oscillation that biased clicks cause: take `3pr` for these.
    References: Shivaswamy and Joachims (2012), Online Structured Prediction via Coactive Learning; Collins (2002),
    Discriminative Training Methods for Hidden Markov Models.
    """

    clicks_to: Literal["top", "swap_first", "pairs"] = "top"
    start: tuple[float, ...] = ()

    def init(self, problem: Problem) -> State:
        weights = start_weights(self.start, problem.n_features)
        return State(weights, weights, shown_or_all(problem), 0)

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        row_weights = self._row_weights(decision, feedback)
        weights, newest = corrected(query.features, state.weights, state.newest, state.rounds, True, row_weights)
        return State(require_finite(weights), require_finite(newest), state.shown, state.rounds + 1)
