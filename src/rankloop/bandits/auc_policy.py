"""`auc_policy`: chooses one of a fixed set of ads by the visitor's context, and learns from rare clicks."""

import math
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.bandits.auc_loss import LOSSES, Loss, StepSize
from rankloop.bandits.auc_ranker import NOT_SAMPLED, reservoir_position, stepped
from rankloop.bandits.policies import drawn_ranking, first_log_prob
from rankloop.bandits.thresholds import CLICK_RATE, CRITERIA, sampled_threshold
from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, ranking_of, scores_of
from rankloop.core.learner import check_receipt, expect, require_finite, shown_or_all
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Reward


class State(NamedTuple):
    """A ranker and a threshold per ad, with samples of visitors who clicked it and of visitors who did not."""

    weights: Floats  # (n_ads, n_context)
    thresholds: Floats
    clicked: Floats  # (n_ads, buffer, n_context)
    unclicked: Floats
    n_clicked: Ints
    n_unclicked: Ints
    shown: int


class Receipt(NamedTuple):
    """A uniform random number that decides if this visitor enters the sample."""

    draw: float


class Visit(NamedTuple):
    """A visitor who was shown an ad."""

    ad: int
    context: Floats
    hit: bool  # the visitor clicked
    draw: float  # of the receipt


@kernel
def _updated(state: State, visit: Visit, size: StepSize, criterion: int) -> State:
    """Return the state after one visitor; the samples are copied only if the visitor enters them."""
    ad, context, buffer = visit.ad, visit.context, state.clicked.shape[1]
    weights, thresholds = state.weights.copy(), state.thresholds.copy()
    n_clicked, n_unclicked = state.n_clicked.copy(), state.n_unclicked.copy()
    clicked, unclicked = state.clicked, state.unclicked
    if visit.hit:
        others = unclicked[ad, : min(n_unclicked[ad], buffer)]
        weights[ad] = stepped(weights[ad], context, others, 1.0, size)
        position = reservoir_position(n_clicked[ad], buffer, visit.draw)
        if position != NOT_SAMPLED:
            clicked = clicked.copy()
            clicked[ad, position] = context
        n_clicked[ad] += 1
    else:
        others = clicked[ad, : min(n_clicked[ad], buffer)]
        weights[ad] = stepped(weights[ad], context, others, -1.0, size)
        position = reservoir_position(n_unclicked[ad], buffer, visit.draw)
        if position != NOT_SAMPLED:
            unclicked = unclicked.copy()
            unclicked[ad, position] = context
        n_unclicked[ad] += 1
    # An ad without a click keeps threshold 0, so that it is tried.
    if n_clicked[ad] > 0 or criterion == CLICK_RATE:
        hits = scores_of(clicked[ad, : min(n_clicked[ad], buffer)], weights[ad])
        misses = scores_of(unclicked[ad, : min(n_unclicked[ad], buffer)], weights[ad])
        thresholds[ad] = sampled_threshold(hits, misses, float(n_clicked[ad]), float(n_unclicked[ad]), criterion)
    return State(
        weights=weights,
        thresholds=thresholds,
        clicked=clicked,
        unclicked=unclicked,
        n_clicked=n_clicked,
        n_unclicked=n_unclicked,
        shown=state.shown,
    )


@register("auc_policy")
class AUCPolicy:
    """Show the ad with the largest w_a · x − s_a for the visitor's context x, and explore.

    For each ad, w_a learns to put visitors who clicked it above those who did not: every visitor is compared with up to
    `buffer` sampled ones of the other kind, w_a ← (w_a − η ∇ mean ℓ(w·x⁺ − w·x⁻)) / (1 + 2 η λ). s_a is the threshold
    with the best `criterion` on the samples. The other ads follow by score.

    Use it to choose among a fixed set of ads or offers where clicks are rare. It takes the context of the query; the
    items need no features.

    Args:
      loss: ℓ: `logistic`, `hinge` or `squared_hinge`.
      learning_rate: η.
      regularisation: λ.
      buffer: The number of sampled visitors of each kind, per ad.
      criterion: What the thresholds maximise, see `rankloop.bandits.threshold`. With `click_rate` an ad that nobody
        clicks sinks the more it is shown.
      epsilon: The probability to show another ad than the best, each alike.
      temperature: If given, ads are first with probability ∝ exp((w_a · x − s_a) / temperature) instead.

    Examples:
      >>> from rankloop import Problem, Query, Reward, Session
      >>> session = Session(AUCPolicy(epsilon=0.0), Problem(n_features=0, n_items=2, n_context=1))
      >>> query = Query.of([[], []], context=[1.0])
      >>> state = session.learn(query, session.rank(query), Reward(1.0))
      >>> state.n_clicked.tolist()
      [1, 0]

    References:
      Chaudhuri, Theocharous and Ghavamzadeh (2016), Personalized Advertisement Recommendation: A Ranking Approach to
      Address the Ubiquitous Click Sparsity Problem.
    """

    loss: Loss = "logistic"
    learning_rate: float = 0.05
    regularisation: float = 1e-4
    buffer: int = 64
    criterion: Literal["f1", "accuracy", "midpoint", "click_rate"] = "f1"
    epsilon: float = 0.2
    temperature: float | None = None

    accepts: ClassVar[tuple[type, ...]] = (Reward,)
    uses_context: ClassVar[bool] = True
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Spec, ...]] = (
        {},
        {"loss": "hinge", "criterion": "midpoint", "buffer": 2, "epsilon": 0.0},
        {"loss": "squared_hinge", "criterion": "accuracy", "temperature": 0.5, "buffer": 3},
        {"criterion": "click_rate", "buffer": 4},
    )
    example_problem: ClassVar[Problem] = Problem(n_features=0, n_items=4, n_context=3)

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        if self.temperature is not None:
            check_positive("temperature", self.temperature)
        if not 0.0 <= self.epsilon <= 1.0 or not 0.0 <= self.regularisation < math.inf or self.buffer < 1:
            raise InvalidInput(
                f"epsilon = {self.epsilon} must be from 0 to 1, regularisation = {self.regularisation} from 0, "
                f"buffer = {self.buffer} from 1"
            )

    def init(self, problem: Problem) -> State:
        """See `Learner.init`."""
        if problem.n_items is None or problem.n_context == 0:
            raise InvalidInput("auc_policy chooses among a fixed set (n_items) by the context (n_context above 0)")
        n_ads, n_context = problem.n_items, problem.n_context
        return State(
            weights=np.zeros((n_ads, n_context)),
            thresholds=np.zeros(n_ads),
            clicked=np.zeros((n_ads, self.buffer, n_context)),
            unclicked=np.zeros((n_ads, self.buffer, n_context)),
            n_clicked=np.zeros(n_ads, np.int64),
            n_unclicked=np.zeros(n_ads, np.int64),
            shown=shown_or_all(problem),
        )

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        """See `Learner.rank`."""
        first, draw = rng.random(2)
        ranking, log_propensity = drawn_ranking(_scores(state, query), self.epsilon, self.temperature or 0.0, first)
        return Decision(ranking, log_propensity, Receipt(float(draw)))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        """See `Learner.learn`."""
        hit = expect(feedback, Reward).value > 0
        check_receipt(0.0 <= decision.receipt.draw < 1.0)
        visit = Visit(int(decision.ranking[0]), query.context, hit, decision.receipt.draw)
        size = StepSize(self.learning_rate, self.regularisation, LOSSES[self.loss])
        updated = _updated(state, visit, size, CRITERIA[self.criterion])
        require_finite(updated.weights)
        require_finite(updated.thresholds)
        return updated

    def predict(self, state: State, query: Query) -> Ints:
        """See `Learner.predict`."""
        return ranking_of(_scores(state, query))

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        """See `Learner.log_prob`."""
        return first_log_prob(_scores(state, query), self.epsilon, self.temperature or 0.0, ranking, state.shown)


def _scores(state: State, query: Query) -> Floats:
    return scores_of(state.weights, query.context) - state.thresholds
