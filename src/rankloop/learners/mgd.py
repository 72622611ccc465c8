"""MGD: compares itself with many random neighbours at once."""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.learner_parts import best_ranking, check_finite, check_positive, shown_or_all, start_weights
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Feedback, Ints, Problem, Query
from rankloop.interleaving.base import Interleaving
from rankloop.interleaving.team_draft import TeamDraft
from rankloop.learners._shared.duel import Receipt, State, duel, follow_winners


@register("mgd")
class Mgd:
    """Multileave gradient descent: like `dbgd`, but with many candidates in one list, and a step to their mean.

    Of `candidates` directions u on the unit sphere, those whose ranker w + `spread` · u earned more clicks than w win,
    and w ← w + `learning_rate` · `spread` · (mean of the winning u). All rankings are multileaved into one list.

    Use it where `dbgd` is wanted and lists are long enough to compare many rankers.
    Reference: Schuth, Oosterhuis, Whiteson and de Rijke (2016), Multileave Gradient Descent for Fast Online Learning
    to Rank.
    """

    candidates: int = 9
    learning_rate: float = 0.01
    spread: float = 1.0
    interleaving: Interleaving = TeamDraft()
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"interleaving": "probabilistic", "candidates": 3})

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise InvalidInput(f"candidates = {self.candidates}: there must be at least 1")
        check_positive("learning_rate", self.learning_rate)
        check_positive("spread", self.spread)
        check_finite("start", self.start)

    def init(self, problem: Problem) -> State:
        return State(start_weights(self.start, problem.n_features), shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        return duel(state, query, rng, self.candidates, self.spread, self.interleaving)

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        return follow_winners(state, decision, feedback, self.learning_rate * self.spread, self.interleaving)

    def predict(self, state: State, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return float("nan")
