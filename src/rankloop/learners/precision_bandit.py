"""A bandit for Precision@n: the order inside the first n places is free, so it is used to find out grades."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, require_finite
from rankloop.core.learner_parts import check_horizon, check_positive, check_receipt, expect
from rankloop.core.rankings import ranking_of
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners._shared.fixed_set import graded_depth, size_of_fixed_set
from rankloop.learners._shared.item_sets import drawn_first, inclusion_probabilities
from rankloop.learners._shared.linear_measure import CAPPED, gain_of


@kernel
def _decide(losses: Floats, rate: float, n: int, revealed: int, uniforms: Floats) -> tuple[Ints, Floats]:
    """The ranking, and for each item in a revealed place the chance with which it came to be revealed."""
    best_first = ranking_of(-losses)
    chances = inclusion_probabilities(losses, best_first, rate, n)
    ranking = drawn_first(chances, best_first, n, uniforms)
    return ranking, chances[ranking[:revealed]] * revealed / n


@kernel
def _with_estimates(losses: Floats, ranking: Ints, grade_of: Floats, chances: Floats, start: float) -> Floats:
    """Add (1 − relevant) / chance for each revealed item: on average, 1 − relevant for every item."""
    new = losses.copy()
    for position in range(len(chances)):
        item = ranking[position]
        new[item] += (1.0 - gain_of(grade_of[item], CAPPED, start)) / chances[position]
    return new


@kernel
def _whole_run(
    losses: Floats, rates: Floats, n: int, revealed: int, start: float, relevance: Floats, uniforms: Floats
) -> tuple[Floats, Ints]:
    rankings = np.empty(relevance.shape, np.int64)
    for t in range(len(rankings)):
        rankings[t], chances = _decide(losses, rates[t], n, revealed, uniforms[t])
        losses = _with_estimates(losses, rankings[t], relevance[t], chances, start)
    return losses, rankings


class State(NamedTuple):
    """Estimated losses: how often each item would have been irrelevant so far."""

    losses: Floats
    rounds: int
    rate: float  # η; without a horizon, η of the first round
    revealed: int  # places among the first n that are graded

    def reachable(self, initial: State) -> bool:
        return self.revealed == initial.revealed


class Receipt(NamedTuple):
    """The chances with which the revealed items came to be revealed."""

    chances: Floats


@register("precision_bandit")
@dataclass(frozen=True, kw_only=True)
class PrecisionBandit:
    """A bandit for Precision@n: √T regret from the grades of the first k items only, for every k ≥ 1.

    x_i = min(1, c·exp(−η·L_i)) with Σ x = n, a set of n items drawn with exactly these chances and shown first in
    random order; then L_i += (1 − R_i)·n / (k·x_i) for each revealed item, R_i = [grade ≥ relevant_from], which is
    unbiased (k at most n here). Unless `learning_rate` is given η = √(2·k·ln(m/n) / (m·horizon)), and
    √(k·ln(m/n) / (m·t)) without a horizon. Regret in Precision@n, times n, is at most n·√(2·m·T·ln(m/n) / k) for any
    sequence of grades; O(m log m) a round. Use it when n places are shown, all count the same, and few are graded:
    `rtopk` has only T^{2/3}. `log_prob` is nan (systematic sampling); the chances of single items are exact.
    Entropic regularisation over sets as in Koolen, Warmuth and Kivinen (2010), "Hedging structured concepts".
    """

    n: int = 5
    horizon: int | None = None
    relevant_from: float = 1.0
    learning_rate: float | None = None

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Spec, ...]] = ({"n": 2}, {"n": 5, "horizon": 50})

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InvalidInput(f"n = {self.n} must be at least 1")
        check_horizon(self.horizon)
        check_positive("relevant_from", self.relevant_from)
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)

    @property
    def _falls(self) -> bool:
        return self.horizon is None and self.learning_rate is None

    @functools.cached_property
    def _start(self) -> float:
        return math.ceil(self.relevant_from) - 1.0

    def init(self, problem: Problem) -> State:
        n_items = size_of_fixed_set(problem)
        revealed = min(self.n, graded_depth(problem))
        spread = max(math.log(n_items / self.n), 0.0)
        theory = math.sqrt((1.0 if self._falls else 2.0 / (self.horizon or 1)) * revealed * spread / n_items)
        return State(np.zeros(n_items), 0, self.learning_rate or theory, revealed)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        n_items = len(state.losses)
        uniforms = rng.random(self.doubles(n_items))
        ranking, chances = _decide(state.losses, self._rate(state), min(self.n, n_items), state.revealed, uniforms)
        return Decision(ranking, math.nan, Receipt(chances))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        chances = decision.receipt.chances
        check_receipt(chances.shape == (state.revealed,) and chances.min() > 0.0)
        grade_of = np.zeros(len(state.losses))
        grade_of[items] = grades
        losses = _with_estimates(state.losses, decision.ranking, grade_of, chances, self._start)
        return state._replace(losses=require_finite(losses), rounds=state.rounds + 1)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(-state.losses)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return math.nan

    def doubles(self, n_items: int) -> int:
        """How many doubles `rank` takes."""
        return 1 + n_items + min(self.n, n_items)

    def many_rounds(self, state: State, relevance: Floats, draws: Floats) -> tuple[State, Ints]:
        """`rank` and `learn` in turn, one round for each row of relevance and draws: the last state, all rankings."""
        rounds = np.arange(state.rounds + 1.0, state.rounds + len(draws) + 1.0)
        rates = state.rate / np.sqrt(rounds) if self._falls else np.full(len(draws), state.rate)
        n = min(self.n, len(state.losses))
        losses, rankings = _whole_run(state.losses, rates, n, state.revealed, self._start, relevance, draws)
        return state._replace(losses=require_finite(losses), rounds=state.rounds + len(draws)), rankings

    def _rate(self, state: State) -> float:
        return state.rate / math.sqrt(state.rounds + 1) if self._falls else state.rate
