"""`auc_policy`: chooses one of a fixed set of ads by the visitor's context, and learns from rare clicks."""

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from rankloop.bandits.auc_ranker import LOSSES, NOT_SAMPLED, Loss, StepSize, stepped
from rankloop.bandits.policies import drawn_ranking, first_log_prob
from rankloop.core.checks import NotNegative, Positive, PositiveCount, Probability
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, ranking_of, scores_of
from rankloop.core.learner import check_receipt, expect, require_finite, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Reward, finite_floats, real_numbers

Criterion = Literal["f1", "accuracy", "midpoint", "click_rate"]
CRITERIA: dict[Criterion, int] = {"f1": 0, "accuracy": 1, "midpoint": 2, "click_rate": 3}
MIDPOINT, CLICK_RATE = 2, 3
MAX_NEWTON_STEPS = 100


@kernel
def _reservoir_position(n_earlier: int, size: int, draw: float) -> int:
    """Return the place of the next example in a reservoir sample, or NOT_SAMPLED."""
    if n_earlier < size:
        return n_earlier
    position = int(draw * (n_earlier + 1))
    return position if position < size else NOT_SAMPLED


def threshold(scores: ArrayLike, clicked: ArrayLike, criterion: Criterion = "f1") -> float:
    """Return the threshold s for the rule "score ≥ s means click".

    `f1` and `accuracy` maximise that measure over the lowest score and the middles between neighbouring scores; ties go
    to the smallest s. Where clicks are rare this cut is far above most scores, which favours ads whose scores vary
    least. Two criteria avoid that: `midpoint` is halfway between the mean scores of clicked and unclicked examples;
    `click_rate` solves mean 1 / (1 + e^(s − score)) = share of clicks, so that an ad with more clicks stands higher
    (for scores of the logistic loss). There no clicks count as half a click, and all clicks as half a click less.

    Args:
      scores: The scores of examples.
      clicked: 1 for a clicked example, else 0.
      criterion: `f1`, `accuracy`, `midpoint` or `click_rate`.
    """
    if criterion not in CRITERIA:
        raise InvalidInput(f"criterion = {criterion!r} is not known{nearest(criterion, CRITERIA)}")
    values, hits = finite_floats(scores, 1, "scores"), real_numbers(clicked, "clicked") > 0
    if hits.shape != values.shape or not len(values):
        raise InvalidInput(f"{hits.size} labels for {len(values)} scores; at least one of each is needed")
    n_hits = float(hits.sum())
    return _sampled_threshold(values[hits], values[~hits], n_hits, len(values) - n_hits, CRITERIA[criterion])


@kernel
def _sampled_click_rate(scores: Floats, n_clicked: int, click_weight: float, other_weight: float, rate: float) -> float:
    """Solve mean 1 / (1 + e^(s − score)) = rate for s by Newton's steps, or by bisection."""
    log_odds = np.log(rate / (1.0 - rate))
    low, high = scores.min() - log_odds, scores.max() - log_odds
    s = 0.5 * (low + high)
    for _ in range(MAX_NEWTON_STEPS):
        mean, slope, total = 0.0, 0.0, 0.0
        for position in range(len(scores)):
            weight = click_weight if position < n_clicked else other_weight
            probability = 1.0 / (1.0 + np.exp(s - scores[position]))
            mean += weight * probability
            slope += weight * probability * (1.0 - probability)
            total += weight
        gap = mean / total - rate
        low, high = (s, high) if gap > 0.0 else (low, s)
        moved = s + gap * total / slope if slope > 0.0 else low
        if not low < moved < high:
            moved = 0.5 * (low + high)
        if abs(moved - s) <= 1e-9 * (1.0 + abs(s)):
            return float(moved)
        s = moved
    return float(s)


@kernel
def _sampled_threshold(clicked: Floats, others: Floats, n_clicked: float, n_others: float, criterion: int) -> float:
    """Return the threshold of an ad from samples of its scores, each weighted by the visitors that it stands for."""
    click_weight, other_weight = n_clicked / max(len(clicked), 1), n_others / max(len(others), 1)
    if criterion == CLICK_RATE:
        rate = min(max(n_clicked, 0.5), n_clicked + n_others - 0.5) / (n_clicked + n_others)
        return _sampled_click_rate(np.concatenate((clicked, others)), len(clicked), click_weight, other_weight, rate)
    if len(others) == 0:
        return float(clicked.min())
    if criterion == MIDPOINT:
        return 0.5 * float(clicked.mean() + others.mean()) if len(clicked) else float(others.mean())
    scores = np.concatenate((clicked, others))
    order = ranking_of(scores)
    hits, taken, best, cut = 0.0, 0.0, -np.inf, len(scores) - 1
    for position in range(len(scores)):
        is_click = order[position] < len(clicked)
        hits += click_weight if is_click else 0.0
        taken += click_weight if is_click else other_weight
        last = position == len(scores) - 1
        if last or scores[order[position + 1]] < scores[order[position]]:
            quality = 2.0 * hits / (taken + n_clicked) if criterion == 0 else 2.0 * hits - taken
            if quality >= best:
                best, cut = quality, position
    if cut == len(scores) - 1:
        return float(scores[order[cut]])
    return 0.5 * float(scores[order[cut]] + scores[order[cut + 1]])


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


@kernel
def _updated(state: State, ad: int, context: Floats, click: bool, draw: float, size: StepSize, criterion: int) -> State:
    """Return the state after one visitor; the sample is copied only if the visitor enters it."""
    buffer = state.clicked.shape[1]
    weights, thresholds = state.weights.copy(), state.thresholds.copy()
    n_clicked, n_unclicked = state.n_clicked.copy(), state.n_unclicked.copy()
    clicked, unclicked = state.clicked, state.unclicked
    sample, n_sampled = (clicked, n_clicked) if click else (unclicked, n_unclicked)
    others, n_others = (unclicked, n_unclicked) if click else (clicked, n_clicked)
    sign = 1.0 if click else -1.0
    weights[ad] = stepped(weights[ad], context, others[ad, : min(n_others[ad], buffer)], sign, size)
    position = _reservoir_position(n_sampled[ad], buffer, draw)
    if position != NOT_SAMPLED:
        sample = sample.copy()
        sample[ad, position] = context
    n_sampled[ad] += 1
    clicked, unclicked = (sample, others) if click else (others, sample)
    # An ad without a click keeps threshold 0, so that it is tried.
    if n_clicked[ad] > 0 or criterion == CLICK_RATE:
        hits = scores_of(clicked[ad, : min(n_clicked[ad], buffer)], weights[ad])
        misses = scores_of(unclicked[ad, : min(n_unclicked[ad], buffer)], weights[ad])
        thresholds[ad] = _sampled_threshold(hits, misses, float(n_clicked[ad]), float(n_unclicked[ad]), criterion)
    return State(weights, thresholds, clicked, unclicked, n_clicked, n_unclicked, state.shown)


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
    learning_rate: Positive = 0.05
    regularisation: NotNegative = 1e-4
    buffer: PositiveCount = 64
    criterion: Literal["f1", "accuracy", "midpoint", "click_rate"] = "f1"
    epsilon: Probability = 0.2
    temperature: Positive | None = None

    accepts: ClassVar[tuple[type, ...]] = (Reward,)
    uses_context: ClassVar[bool] = True
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[Examples] = (
        {},
        {"loss": "hinge", "criterion": "midpoint", "buffer": 2, "epsilon": 0.0},
        {"loss": "squared_hinge", "criterion": "accuracy", "temperature": 0.5, "buffer": 3},
        {"criterion": "click_rate", "buffer": 4},
    )
    example_problem: ClassVar[Problem] = Problem(n_features=0, n_items=4, n_context=3)

    def init(self, problem: Problem) -> State:
        if problem.n_items is None or problem.n_context == 0:
            raise InvalidInput("auc_policy chooses among a fixed set (n_items) by the context (n_context above 0)")
        n_ads, n_context = problem.n_items, problem.n_context
        sample, counts = np.zeros((n_ads, self.buffer, n_context)), np.zeros(n_ads, np.int64)
        return State(
            weights=np.zeros((n_ads, n_context)),
            thresholds=np.zeros(n_ads),
            clicked=sample,
            unclicked=sample.copy(),
            n_clicked=counts,
            n_unclicked=counts.copy(),
            shown=shown_or_all(problem),
        )

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        first, draw = rng.random(2)
        ranking, log_propensity = drawn_ranking(_scores(state, query), self.epsilon, self.temperature or 0.0, first)
        return Decision(ranking, log_propensity, Receipt(float(draw)))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        is_click, (draw,) = expect(feedback, Reward).value > 0, decision.receipt
        check_receipt(0.0 <= draw < 1.0)
        size, criterion = StepSize(self.learning_rate, self.regularisation, LOSSES[self.loss]), CRITERIA[self.criterion]
        updated = _updated(state, int(decision.ranking[0]), query.context, is_click, draw, size, criterion)
        require_finite(updated.weights)
        require_finite(updated.thresholds)
        return updated

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(_scores(state, query))

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return first_log_prob(_scores(state, query), self.epsilon, self.temperature or 0.0, ranking, state.shown)


def _scores(state: State, query: Query) -> Floats:
    return scores_of(state.weights, query.context) - state.thresholds
