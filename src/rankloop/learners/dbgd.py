"""DBGD: compares itself with one random neighbour at a time."""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from rankloop.core.learner_parts import best_ranking, check_finite, check_positive, shown_or_all, start_weights
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Feedback, Ints, Problem, Query
from rankloop.interleaving.base import Interleaving
from rankloop.interleaving.team_draft import TeamDraft
from rankloop.learners._shared.duel import Receipt, State, duel, follow_winners


@register("dbgd")
class Dbgd:
    """Duelling bandit gradient descent: w ← w + `learning_rate` · `spread` · u when people prefer w + `spread` · u.

    The direction u is uniform on the unit sphere; the two rankings are interleaved and the clicks say who won.

    Use it as the classical baseline of online learning to rank; `pdgd` and `3pr` learn much faster.
    Reference: Yue and Joachims (2009), Interactively Optimizing Information Retrieval Systems as a Dueling Bandits
    Problem.
    """

    learning_rate: float = 0.01
    spread: float = 1.0
    interleaving: Interleaving = TeamDraft()
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"interleaving": "probabilistic"}, {"interleaving": "balanced"})

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_positive("spread", self.spread)
        check_finite("start", self.start)

    def init(self, problem: Problem) -> State:
        return State(start_weights(self.start, problem.n_features), shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        return duel(state, query, rng, 1, self.spread, self.interleaving)

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        return follow_winners(state, decision, feedback, self.learning_rate * self.spread, self.interleaving)

    def predict(self, state: State, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return float("nan")
