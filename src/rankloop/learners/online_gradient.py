"""Online gradient descent on a surrogate, from the grades of the items."""

import math
from dataclasses import field
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from rankloop.core.checks import FiniteNumbers, Positive
from rankloop.core.kernels import kernel, project, scores_of, weighted_rows
from rankloop.core.learner import GreedyLearner, SparseLearner, expect, finite, require_finite, shown_or_all
from rankloop.core.protocols import Surrogate
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Features, Feedback, Floats, Problem, Query, Relevances, Rows
from rankloop.surrogates.list_net import ListNet


class State(NamedTuple):
    """The weights, and the sums that the schedules need."""

    weights: Floats  # One weight for each feature.
    steps: int  # The number of rounds learned.
    grad_squares: float  # Σ ‖gradient‖² so far, for the adaptive schedule.
    shown: int  # The number of positions that are seen, −1 for all.


@kernel
def _descend(
    weights: Floats, features: Features, grad: Floats, rate: float, adaptive: bool, squares: float, radius: float
) -> tuple[Floats, float]:
    """Return the weights after one projected step, and the sum of the squared gradient norms."""
    slope = weighted_rows(features, grad)
    if adaptive:
        squares += np.sum(slope * slope)
        if squares > 0.0:
            rate /= np.sqrt(squares)
    for j in range(len(weights)):
        slope[j] = weights[j] - rate * slope[j]
    project(slope, radius)
    return slope, squares


@register("online_gradient")
class OnlineGradient(GreedyLearner, SparseLearner):
    """Online gradient descent on a surrogate, from the grades of all items.

      w ← Π(w − η_t · ∇_w surrogate(features · w, relevance)), with Π the projection onto ‖w‖ ≤ `radius`.

    η_t is `learning_rate` ("constant"), `learning_rate` / √t ("root"), or `learning_rate` / √(Σ ‖gradient‖²)
    ("adaptive"). For gradients of norm at most G, "root" with radius / G and "adaptive" with √2 · radius keep the
    regret within O(radius · G · √T). If only the first items are graded, these are its list.

    Args:
      surrogate: The surrogate loss.
      learning_rate: The step size, before the schedule.
      schedule: The schedule of the step sizes.
      radius: The largest norm of the weights; no projection if None.
      start: The first weights; zeros if empty.

    References:
      Zinkevich (2003), Online Convex Programming and Generalized Infinitesimal Gradient Ascent. Streeter and McMahan
      (2010), Less Regret via Online Conditioning.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("online_gradient", "linear_gaussian(n_items=6, n_features=3)", "full", "nDCG@5"), 3)
      0.925
    """

    surrogate: Surrogate = field(default=ListNet())
    learning_rate: Positive = 0.1
    schedule: Literal["constant", "root", "adaptive"] = "constant"
    radius: Positive | None = None
    start: FiniteNumbers = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("steps",)
    examples: ClassVar[Examples] = (
        {},
        {"surrogate": "kl", "schedule": "root", "radius": 1.0},
        {"surrogate": "slam", "schedule": "adaptive", "start": (0.0, 0.5, -1.0)},
        {"surrogate": "rank_svm"},
    )

    def init(self, problem: Problem) -> State:
        return State(self.first_weights(problem), 0, 0.0, shown_or_all(problem))

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        (items, grades), rows = expect(feedback, Relevances), query.features
        if len(items) < query.n_items:  # the graded part of the list
            order = np.argsort(items)
            rows = rows.take(items[order]) if isinstance(rows, Rows) else rows[items[order]]
            items, grades = np.arange(len(items)), grades[order]
        relevance = np.empty(len(items))
        relevance[items] = grades
        _, grad = self.surrogate.value_and_grad(scores_of(rows, state.weights), relevance)
        steps = state.steps + 1
        rate = self.learning_rate / math.sqrt(steps) if self.schedule == "root" else self.learning_rate
        radius = math.inf if self.radius is None else self.radius
        adaptive = self.schedule == "adaptive"
        weights, squares = _descend(state.weights, rows, grad, rate, adaptive, state.grad_squares, radius)
        return State(require_finite(weights), steps, finite(squares), state.shown)
