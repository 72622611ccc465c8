"""Gradient steps on a surrogate, estimated without bias from the grades of the first few items."""

import math
from typing import ClassVar, NamedTuple

from numpy.random import Generator

from rankloop.core.checks import check_not_negative, check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ALL, kernel, scores_of, seen_count
from rankloop.core.learner import (
    SparseLearner,
    best_ranking,
    check_receipt,
    expect,
    require_finite,
    shown_or_all,
    start_weights,
)
from rankloop.core.protocols import Surrogate
from rankloop.core.registry import Spec, entry_of, register
from rankloop.core.types import Decision, Features, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners._shared.topk_estimate import (
    GradedItems,
    compiled_code,
    compiled_step,
    draw_ranking,
    estimated_gradient,
    prefix_log_prob,
    step_on_all,
)
from rankloop.surrogates.squared_loss import Squared


class State(NamedTuple):
    """The weights, the rounds learned, and what is shown and graded (−1: everything)."""

    weights: Floats
    steps: int
    depth: int
    shown: int


class Receipt(NamedTuple):
    """Of decision time: the items that would have been graded without exploration, and γ."""

    familiar: Ints
    exploration: float


@kernel
def _draw(
    features: Features, weights: Floats, draws: Floats, gamma: float, depth: int, shown: int
) -> tuple[Ints, Ints, float]:
    """The ranking, the items that would be graded without exploration, and the log-probability of what is seen."""
    ranking, best = draw_ranking(scores_of(features, weights), draws, gamma)
    familiar = best[: seen_count(depth, len(best))].copy()
    return ranking, familiar, prefix_log_prob(best, ranking, gamma, shown)


@register("topk_gradient")
class TopKGradient(SparseLearner):
    """Algorithm 5 of Chaudhuri (2016): w ← Π(w − η_t · Σ_i z_i · features[i]), z an estimate of ∇surrogate.

    With probability 1 − γ_t the ranking by features · w is shown, else a uniformly random one, and the grades of the
    first k = depth items come back. Every set A of `surrogate.span` graded items adds its share h_A of the gradient,
    divided by the probability that A is graded: z = Σ_A h_A / max(P(A), `floor`), with
    P(A) = (1 − γ_t)·[A in the best k] + γ_t · k(k−1)… / (m(m−1)…). Schedules over the rounds t = 1, 2, … learned:
    γ_t = min(½, `exploration` · t^−`exploration_decay`), η_t = `learning_rate` · t^−`learning_rate_decay`, and for
    `smooth_dcg` its smoothing shrinks as t^−`smoothing_decay` (annealing). ‖w‖ ≤ `radius` when given.

    `floor = 0` is exactly unbiased and needs much exploration and small steps (exploration = 1, learning_rate = 0.001);
    with little exploration a single unlikely round would throw the weights away, which the floor prevents at the
    price of a bias. The defaults are the thesis' schedule with a floor. Use it when only the top of a ranking is
    graded. Reference: Chaudhuri and Tewari (2017), Online Learning to Rank with Top-k Feedback.
    """

    surrogate: Surrogate = Squared()
    floor: float = 0.3
    exploration: float = 0.1
    exploration_decay: float = 1 / 3
    learning_rate: float = 0.01
    learning_rate_decay: float = 2 / 3
    smoothing_decay: float = 0.0
    radius: float | None = None
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("steps",)
    examples: ClassVar[tuple[Spec, ...]] = (
        {},
        {"surrogate": "rank_svm", "floor": 0.0, "exploration": 1.0, "learning_rate": 0.001},
        {"surrogate": "smooth_dcg", "smoothing_decay": 0.1, "radius": 2.0},
        {"surrogate": "list_net"},
        {"surrogate": "squared(divided='grade')", "learning_rate": 0.001},
    )

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        for name in ("exploration", "exploration_decay", "learning_rate_decay", "smoothing_decay"):
            check_not_negative(name, getattr(self, name))
        if not 0.0 <= self.floor <= 1.0:
            raise InvalidInput(f"floor = {self.floor} must be a probability, from 0 to 1")
        if self.smoothing_decay and not hasattr(self.surrogate, "smoothing"):
            raise InvalidInput(
                f"{entry_of(self.surrogate).kind} has no smoothing to anneal: leave smoothing_decay at 0"
            )
        if self.radius is not None:
            check_positive("radius", self.radius)
        super().__post_init__()

    def init(self, problem: Problem) -> State:
        self._check_depth(problem)
        depth = ALL if problem.depth is None else problem.depth
        return State(start_weights(self.start, problem.n_features), 0, depth, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        gamma, draws = self._gamma(state), rng.random(query.n_items + 1)
        ranking, familiar, log_propensity = _draw(query.features, state.weights, draws, gamma, state.depth, state.shown)
        return Decision(ranking, log_propensity, Receipt(familiar, gamma))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        steps, code = state.steps + 1, compiled_code(self.surrogate)
        items, grades = expect(feedback, Relevances)
        familiar, exploration = decision.receipt
        check_receipt(familiar.shape == items.shape and 0.0 <= exploration <= 1.0)
        seen = GradedItems(items, grades, familiar, exploration, self.floor)
        sharpness = math.pow(steps, self.smoothing_decay)
        rate = self.learning_rate * sharpness * math.pow(steps, -self.learning_rate_decay)
        radius = math.inf if self.radius is None else self.radius
        if code >= 0:
            weights = compiled_step(state.weights, query.features, seen, code, self._smoothing, sharpness, rate, radius)
        else:
            scores = scores_of(query.features, state.weights) * sharpness
            slope = estimated_gradient(self.surrogate, scores, seen)
            weights = step_on_all(state.weights, query.features, slope, rate, radius)
        return State(require_finite(weights), steps, state.depth, state.shown)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return prefix_log_prob(best_ranking(query.features, state.weights), ranking, self._gamma(state), state.shown)

    @property
    def _smoothing(self) -> float:
        return float(getattr(self.surrogate, "smoothing", 1.0))

    def _gamma(self, state: State) -> float:
        return min(0.5, self.exploration * math.pow(state.steps + 1, -self.exploration_decay))

    def _check_depth(self, problem: Problem) -> None:
        span, n_graded = self.surrogate.span, problem.depth
        if n_graded is None or (span is not None and span <= n_graded):
            return
        if problem.n_items is not None and problem.n_items <= n_graded:
            return
        needed = "all items (no depth limit)" if span is None else f"depth {span} or more"
        raise InvalidInput(
            f"the gradient of {entry_of(self.surrogate).kind} cannot be estimated from the grades of the first "
            f"{n_graded} item(s): it needs {needed}; squared and kl do with depth 1, rank_svm with depth 2"
        )
