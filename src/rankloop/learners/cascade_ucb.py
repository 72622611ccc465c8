"""CascadeUCB: rank a fixed set of items by the upper confidence bounds of their attraction."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import Positive
from rankloop.core.kernels import kernel, ranking_of, seen_count
from rankloop.core.learner import expect, point_log_prob, shown_or_all
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.fixed_set import size_of_fixed_set


class State(NamedTuple):
    """The counts of a fixed set of items."""

    looks: Floats  # How often each item was examined.
    clicks: Floats  # How often each item was clicked.
    rounds: int  # The number of rounds learned.
    shown: int  # The number of positions that are seen, −1 for all.

    @property
    def click_rate(self) -> float:
        """Clicks per examination, of all items together."""
        return float(self.clicks.sum() / max(self.looks.sum(), 1.0))


@kernel
def _optimistic(examinations: Floats, clicks: Floats, allowance: float) -> Ints:
    """Return the items by their upper confidence bounds; items that were never examined come first."""
    bounds = np.full(len(examinations), np.inf)
    for item in range(len(examinations)):
        n = examinations[item]
        if n > 0:
            bounds[item] = clicks[item] / n + np.sqrt(allowance / n)
    return ranking_of(bounds)


@kernel
def _after_clicks(
    examinations: Floats, clicks: Floats, ranking: Ints, shown: int, items: Ints, weights: Floats
) -> tuple[Floats, Floats]:
    """Count the items down to the first click as examined; without a click, all that were shown."""
    new_examinations, new_clicks = examinations.copy(), clicks.copy()
    clicked = np.zeros(len(ranking), np.bool_)
    for i in range(len(items)):
        clicked[items[i]] = weights[i] > 0.0
    for position in range(seen_count(shown, len(ranking))):
        new_examinations[ranking[position]] += 1.0
        if clicked[ranking[position]]:
            new_clicks[ranking[position]] += 1.0
            break
    return new_examinations, new_clicks


@register("cascade_ucb")
class CascadeUcb:
    """Rank a fixed set of items by upper confidence bounds of their attraction, for users who follow the cascade model.

    Items are sorted in round t by

      clicks / looks + √(`exploration` · log t / looks).

    Users look from the top until their first click: the items down to it were examined (one look more each), and the
    item there was clicked.

    Use it for one list of items without features, such as the teasers of a start page. `top_rank` assumes less about
    users, and `3pr` and `pdgd` use features.

    Args:
      exploration: The factor of the confidence term.

    References:
      Kveton, Szepesvári, Wen and Ashkan (2015), Cascading Bandits: Learning to Rank in the Cascade Model, Algorithm 1.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> stream = "flipped_relevance(n_items=6, n_relevant=2)"
      >>> round(play_mean("cascade_ucb", stream, "cascade(max_grade=1)", "nDCG@5"), 3)
      0.919
    """

    exploration: Positive = 1.5

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    reports: ClassVar[tuple[str, ...]] = ("click_rate",)

    def init(self, problem: Problem) -> State:
        n_items = size_of_fixed_set(problem)
        return State(np.zeros(n_items), np.zeros(n_items), 0, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        return Decision(self._ranking(state), 0.0, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, weights = expect(feedback, Clicks)
        examinations, clicks = _after_clicks(state.looks, state.clicks, decision.ranking, state.shown, items, weights)
        return State(examinations, clicks, state.rounds + 1, state.shown)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(state.clicks / np.maximum(state.looks, 1.0))

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(self._ranking(state), ranking, state.shown)

    def _ranking(self, state: State) -> Ints:
        return _optimistic(state.looks, state.clicks, self.exploration * math.log(max(state.rounds, 1)))
