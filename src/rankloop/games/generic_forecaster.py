"""The generic forecaster of partial monitoring: exponential weights on all rankings of a small set."""

import functools
import math
from itertools import combinations
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import PositiveCount
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, seen_count
from rankloop.core.learner import check_receipt, expect, require_finite, shown_or_all
from rankloop.core.protocols import Measure
from rankloop.core.registry import register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.games.game import Game
from rankloop.learners._shared.fixed_set import graded_depth, size_of_fixed_set
from rankloop.measures.kinds import DCG

MAX_ITEMS = 5
MAX_RELEVANCES = 1024


class EstimateTable(NamedTuple):
    """Estimates that turn what a shown ranking reveals into losses of all rankings.

    Rankings with the same first `depth` items reveal the same and form a group. estimates[i, group, signal] averages,
    over groups that are drawn with probability P(group) and divided by it, to the loss of ranking i up to a number that
    is the same for all rankings.
    """

    rankings: Ints  # (n_rankings, n_items)
    groups: Ints  # of each ranking
    members: Ints  # (n_groups, depth): the items that a group reveals, ascending
    estimates: Floats  # (n_rankings, n_groups, n_signals)
    largest: float  # |estimate|
    spread: float  # of the losses for one relevance


@functools.lru_cache(maxsize=16)
def _table_of(measure: Measure, n_items: int, depth: int, max_grade: int) -> EstimateTable:
    """Solve estimates · signals = losses with the smallest numbers."""
    game = Game(measure=measure, n_items=n_items, max_grade=max_grade)
    members = np.array(list(combinations(range(n_items), depth)), dtype=np.int64)
    number = {group: i for i, group in enumerate(map(tuple, members.tolist()))}
    groups = np.array([number[tuple(sorted(row[:depth]))] for row in game.rankings.tolist()], dtype=np.int64)
    n_signals = (max_grade + 1) ** depth
    signal_numbers = game.relevances[:, members] @ (max_grade + 1) ** np.arange(depth)  # (n_relevances, n_groups)
    signals = (signal_numbers[:, :, None] == np.arange(n_signals)).reshape(len(signal_numbers), -1).astype(np.float64)
    losses = game.loss - game.loss.mean(axis=0)
    solution = np.linalg.lstsq(signals, losses.T, rcond=None)[0]
    if np.abs(signals @ solution - losses.T).max() > 1e-9 * max(1.0, np.abs(losses).max()):
        raise InvalidInput(f"{measure} of {n_items} items cannot be learned from the grades of the first {depth}; "
                           "`rankloop advise` lists alternatives")  # fmt: skip
    estimates = np.ascontiguousarray(solution.T).reshape(len(losses), len(members), n_signals)
    spread = float((game.loss.max(axis=0) - game.loss.min(axis=0)).max())
    return EstimateTable(game.rankings, groups, members, estimates, float(np.abs(estimates).max()), spread)


@kernel
def _probabilities(losses: Floats, rate: float, exploration: float) -> Floats:
    """Return (1 − γ) · exp(−rate · loss) / Σ exp(−rate · loss) + γ / N of each of the N actions."""
    weights = np.exp(-rate * (losses - losses.min()))
    mixed: Floats = (1.0 - exploration) * weights / weights.sum() + exploration / len(losses)
    return mixed


class State(NamedTuple):
    """Estimated losses of all rankings."""

    losses: Floats
    rounds: int
    depth: int
    shown: int
    max_grade: int


class Receipt(NamedTuple):
    """Group of items that was revealed, and the probability of revealing it."""

    group: int
    probability: float


@register("generic_forecaster")
class GenericForecaster:
    """The generic forecaster for any learnable measure and depth: weights on all m! rankings, so at most 5 items.

    p = (1 − γ)·softmax(−η·L̂) + γ/N over the N = m! rankings; after group g of k items was revealed with signal s,
    L̂_i += v(i, g, s) / P(g), where v solves loss = Σ_g v(·, g, signal of g). With V the largest |v|, G the number of
    groups and B the spread of losses: γ = (V·G/B)^{2/3}·(ln N / T)^{1/3} and η = √(γ·ln N / T) / (V·G), T being the
    `horizon`, or the round without one. Regret O(T^{2/3}) for measures such as DCG, whatever the grades. Use it as the
    reference that efficient learners are compared with, and for measures that have none. `log_prob` is exact.
    Cesa-Bianchi, Lugosi and Stoltz (2006), "Regret minimization under partial monitoring"; rankings that reveal the
    same items share their estimates here, which lowers the constant.
    """

    horizon: PositiveCount | None = None
    measure: Measure = DCG()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ()

    def init(self, problem: Problem) -> State:
        n_items = size_of_fixed_set(problem)
        if n_items > MAX_ITEMS or (problem.max_grade + 1) ** n_items > MAX_RELEVANCES:
            limits = f"it takes at most {MAX_ITEMS} items and {MAX_RELEVANCES:,} relevances"
            size = f"{n_items} items with grades 0..{problem.max_grade}"
            advice = f"got {size}: use rtopk (DCG, SumLoss, P@n) or precision_bandit (P@n)"
            raise InvalidInput(f"generic_forecaster enumerates all rankings and relevances, so {limits}; {advice}")
        losses, shown = np.zeros(math.factorial(n_items)), shown_or_all(problem)
        state = State(losses, 0, graded_depth(problem), shown, problem.max_grade)
        self._table(state, n_items)
        return state

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        table = self._table(state, len(query.features))
        probabilities = self._probabilities(state, table)
        action = int(np.searchsorted(np.cumsum(probabilities)[:-1], rng.random(), side="right"))
        ranking, group = table.rankings[action].copy(), int(table.groups[action])
        probability = float(probabilities[table.groups == group].sum())
        return Decision(ranking, self.log_prob(state, query, ranking), Receipt(group, probability))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        table = self._table(state, len(query.features))
        items, grades = expect(feedback, Relevances)
        group, probability = decision.receipt
        check_receipt(0 <= group < len(table.members) and probability > 0.0)
        ascending = np.clip(np.rint(grades[np.argsort(items)]), 0, state.max_grade).astype(np.int64)
        signal = int(np.sum(ascending * (state.max_grade + 1) ** np.arange(state.depth)))
        losses = state.losses + table.estimates[:, group, signal] / probability
        return state._replace(losses=require_finite(losses), rounds=state.rounds + 1)

    def predict(self, state: State, query: Query) -> Ints:
        best: Ints = self._table(state, len(query.features)).rankings[int(np.argmin(state.losses))].copy()
        return best

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        table, n_visible = self._table(state, len(ranking)), seen_count(state.shown, len(ranking))
        looks_alike = (table.rankings[:, :n_visible] == ranking[:n_visible]).all(axis=1)
        return math.log(float(self._probabilities(state, table)[looks_alike].sum()))

    def _table(self, state: State, n_items: int) -> EstimateTable:
        return _table_of(self.measure, n_items, state.depth, state.max_grade)  # type: ignore[arg-type]  # hashable

    def _probabilities(self, state: State, table: EstimateTable) -> Floats:
        if table.spread == 0.0 or len(state.losses) == 1:
            return _probabilities(state.losses, 0.0, 1.0)
        rounds = self.horizon or state.rounds + 1
        size, log_actions = table.largest * len(table.members), math.log(len(state.losses))
        exploration = min(1.0, (size / table.spread) ** (2 / 3) * (log_actions / rounds) ** (1 / 3))
        return _probabilities(state.losses, math.sqrt(exploration * log_actions / rounds) / size, exploration)
