"""What can still be learned where a game is hopeless: a constant share of the best ranking's worth.

No learner of a hopeless game keeps up with the best fixed ranking. But some share α of its worth can be kept: with z
all that feedback of depth k can ever reveal of the users (the probabilities of all grades on every k items), a mixture
q of rankings earns at least α times what any ranking τ does, whoever the users are that look like z, if

    min over p ≥ 0 with M·p = z of (q·G − α·G_τ)·p ≥ 0 for every τ,

G the worth of rankings under relevances. By duality that is one linear program in q, α and a vector y_τ for each τ:
Mᵀ·y_τ ≤ q·G − α·G_τ and z·y_τ ≥ 0. Its value is the share that can be kept at z, and no learner keeps more of it in the
long run (von Neumann: the worst mixture of users who look like z is a strategy against every q). The learner explores
first, then plays q for the z that it has met; its α-regret grows as T^{2/3}.
"""

import functools
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rankloop.core.checks import check_at_least
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import seen_count
from rankloop.core.learner import expect, require_finite, shown_or_all
from rankloop.core.protocols import Measure
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.games.game import Game, measure_for
from rankloop.learners._shared.fixed_set import graded_depth, size_of_fixed_set
from rankloop.measures.kinds import NDCG

MAX_ITEMS = 4


class Kept(NamedTuple):
    """The share of the best ranking's worth that can be kept, and the mixture of rankings that keeps it."""

    factor: float
    mixture: Floats


class Ceiling(NamedTuple):
    """Users who all look alike, from some of whom no mixture of rankings earns more than `factor` of the best."""

    factor: float
    worlds: Floats  # (n_worlds, n_relevances): summing to one over all, each with the same feedback


class Sizes(NamedTuple):
    """The worth of every ranking under every relevance, and what feedback reveals of a distribution."""

    game: Game
    worth: Floats  # (n_rankings, n_relevances)
    observed: Floats  # (n_terms, n_relevances)
    needed: NDArray[np.bool_]  # (n_terms, n_items): whose grades a term is about


@functools.lru_cache(maxsize=16)
def sizes_of(measure: Measure | str, n_items: int, depth: int, max_grade: int = 1) -> Sizes:
    """Return the sizes of a game.

    Args:
      measure: A measure or its name.
      n_items: The number of items.
      depth: The number of top items whose grades come back.
      max_grade: Grades are 0, 1, … up to this.
    """
    built = measure_for(measure, max_grade)
    if n_items > MAX_ITEMS or not built.higher_is_better:
        raise InvalidInput(
            f"a share of the best is computed for at most {MAX_ITEMS} items, and measures of which more is better"
        )
    game = Game(measure=built, n_items=n_items, max_grade=max_grade)
    worth = np.array([[built(r, grades.astype(np.float64)) for grades in game.relevances] for r in game.rankings])
    observable = game.observable_terms(depth)
    needed = np.array([(game.relevances[row > 0.0] > 0).all(axis=0) for row in observable])
    return Sizes(game, np.nan_to_num(worth), observable, needed)


def kept_at(sizes: Sizes, observable: Floats) -> Kept:
    """The largest share that a mixture keeps against all users whose feedback has these probabilities."""
    (n_rankings, n_relevances), n_terms = sizes.worth.shape, len(sizes.observed)
    n_variables = n_rankings + 1 + n_rankings * n_terms
    below = np.zeros((n_rankings * n_relevances + n_rankings, n_variables))
    for ranking in range(n_rankings):
        rows = slice(ranking * n_relevances, (ranking + 1) * n_relevances)
        columns = slice(n_rankings + 1 + ranking * n_terms, n_rankings + 1 + (ranking + 1) * n_terms)
        below[rows, :n_rankings] = -sizes.worth.T
        below[rows, n_rankings] = sizes.worth[ranking]
        below[rows, columns] = sizes.observed.T
        below[n_rankings * n_relevances + ranking, columns] = -observable
    goal, total = np.zeros(n_variables), np.zeros((1, n_variables))
    goal[n_rankings], total[0, :n_rankings] = -1.0, 1.0
    limits = [(0.0, None)] * n_rankings + [(0.0, 1.0)] + [(None, None)] * (n_rankings * n_terms)
    solution = _solved(goal, A_ub=below, b_ub=np.zeros(len(below)), A_eq=total, b_eq=np.ones(1), bounds=limits)
    mixture = np.maximum(solution[:n_rankings], 0.0)
    return Kept(float(solution[n_rankings]), mixture / mixture.sum())


def ceiling(measure: Measure | str, n_items: int, depth: int, max_grade: int = 1) -> Ceiling:
    """A share that nobody can exceed: users who are alike in feedback, from whom every ranking earns little.

    The lowest over users for all rankings at once, and for the first ranking and another.
    """
    sizes = sizes_of(measure, n_items, depth, max_grade)  # type: ignore[arg-type]  # hashable
    n_rankings = len(sizes.worth)
    targets = [list(range(n_rankings)), *([0, other] for other in range(1, n_rankings))]
    return min((_lowest(sizes, chosen) for chosen in targets), key=lambda lowest: lowest.factor)


def _lowest(sizes: Sizes, targets: list[int]) -> Ceiling:
    """Minimise the most that one ranking earns from all users together, while their own rankings earn 1 together.

    Any mixture then earns at most `factor` of the best from some of them.
    """
    (n_rankings, n_relevances), n_terms, n_worlds = sizes.worth.shape, len(sizes.observed), len(targets)
    n_variables = n_worlds * n_relevances + 1
    most = np.hstack([np.tile(sizes.worth, n_worlds), -np.ones((n_rankings, 1))])
    alike = np.zeros(((n_worlds - 1) * n_terms + 1, n_variables))
    for other in range(1, n_worlds):
        rows = slice((other - 1) * n_terms, other * n_terms)
        alike[rows, :n_relevances] = sizes.observed
        alike[rows, other * n_relevances : (other + 1) * n_relevances] = -sizes.observed
    alike[-1, :-1] = sizes.worth[targets].ravel()
    right, goal = np.zeros(len(alike)), np.zeros(n_variables)
    right[-1] = goal[-1] = 1.0
    solution = _solved(goal, A_ub=most, b_ub=np.zeros(n_rankings), A_eq=alike, b_eq=right, bounds=(0.0, None))
    worlds = np.maximum(solution[:-1], 0.0).reshape(n_worlds, n_relevances)
    return Ceiling(float(solution[-1]), worlds / worlds.sum())


def check_ceiling(measure: Measure | str, n_items: int, depth: int, computed: Ceiling, max_grade: int = 1) -> None:
    """Raise `InvalidInput` unless the worlds look alike and no ranking earns more than `factor` of what is best."""
    sizes = sizes_of(measure, n_items, depth, max_grade)  # type: ignore[arg-type]  # hashable
    shown = computed.worlds @ sizes.observed.T
    if computed.worlds.min() < 0.0 or np.abs(shown - shown[0]).max() > 1e-9:
        raise InvalidInput("feedback tells these users apart")
    best = (computed.worlds @ sizes.worth.T).max(axis=1).sum()
    if (sizes.worth @ computed.worlds.sum(axis=0)).max() > (computed.factor + 1e-7) * best:
        raise InvalidInput(f"some ranking earns more than {computed.factor} of the best from these users")


def nearest_seen(sizes: Sizes, estimate: Floats) -> Floats:
    """The probabilities that users can have which are nearest to an estimate, by the sum of distances."""
    n_terms, n_relevances = sizes.observed.shape
    apart = np.hstack([sizes.observed, -np.eye(n_terms)]), np.hstack([-sizes.observed, -np.eye(n_terms)])
    goal = np.concatenate([np.zeros(n_relevances), np.ones(n_terms)])
    total = np.concatenate([np.ones(n_relevances), np.zeros(n_terms)])[None]
    limits = {"A_ub": np.vstack(apart), "b_ub": np.concatenate([estimate, -estimate])}
    users = _solved(goal, **limits, A_eq=total, b_eq=np.ones(1), bounds=(0.0, None))[:n_relevances]
    nearest: Floats = sizes.observed @ (users / users.sum())
    return nearest


def _solved(goal: Floats, **program: object) -> Floats:
    from scipy.optimize import linprog  # takes half a second, for which nobody else should wait

    result = linprog(goal, **program, method="highs")
    if result.status != 0:
        raise InvalidInput(f"the linear program of a constant share could not be solved: {result.message}")
    return np.asarray(result.x, dtype=np.float64)


class State(NamedTuple):
    """Counts of the terms whose grades were revealed and came true, and the mixture that is played afterwards."""

    revealed: Floats
    hits: Floats
    mixture: Floats
    factor: float  # the share that is promised for the users met; 0 while exploring
    rounds: int
    depth: int
    shown: int
    max_grade: int


BY_DEFAULT = NDCG()


@dataclass(frozen=True, kw_only=True)
class ConstantFactor:
    """Random rankings in the first `horizon`^{2/3} rounds, then the mixture that keeps the largest share of the best.

    For measures that cannot be learned from the grades that come back, of at most 4 items, and users who do not
    change. A reference to compare with, not in the registry.
    """

    horizon: int
    measure: Measure = BY_DEFAULT

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("factor",)

    def __post_init__(self) -> None:
        check_at_least(1, horizon=self.horizon)

    def init(self, problem: Problem) -> State:
        """Return the state before the first round."""
        n_items, depth = size_of_fixed_set(problem), graded_depth(problem)
        sizes = sizes_of(self.measure, n_items, depth, problem.max_grade)  # type: ignore[arg-type]  # hashable
        uniform = np.full(math.factorial(n_items), 1.0 / math.factorial(n_items))
        nothing = np.zeros(len(sizes.observed))
        return State(nothing, nothing, uniform, 0.0, 0, depth, shown_or_all(problem), problem.max_grade)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        """Draw a ranking."""
        chosen = int(np.searchsorted(np.cumsum(state.mixture)[:-1], rng.random(), side="right"))
        ranking = self._sizes(state, query.n_items).game.rankings[chosen].copy()
        return Decision(ranking, self.log_prob(state, query, ranking), ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        """Count the revealed grades."""
        rounds = state.rounds + 1
        if state.rounds >= self._exploring:
            return state._replace(rounds=rounds)
        items, grades = expect(feedback, Relevances)
        sizes = self._sizes(state, query.n_items)
        revealed, hits = _counted(sizes, items, np.rint(grades))
        state = state._replace(revealed=state.revealed + revealed, hits=state.hits + hits, rounds=rounds)
        if rounds < self._exploring:
            return state
        estimate = state.hits / np.maximum(state.revealed, 1.0)
        kept = kept_at(sizes, nearest_seen(sizes, estimate))
        return state._replace(mixture=require_finite(kept.mixture), factor=kept.factor)

    def predict(self, state: State, query: Query) -> Ints:
        """Return the most probable ranking."""
        best: Ints = self._sizes(state, query.n_items).game.rankings[int(np.argmax(state.mixture))].copy()
        return best

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        """Return the log-probability of a ranking."""
        rankings, n_seen = self._sizes(state, query.n_items).game.rankings, seen_count(state.shown, query.n_items)
        total = float(state.mixture[(rankings[:, :n_seen] == ranking[:n_seen]).all(axis=1)].sum())
        return math.log(total) if total > 0.0 else -math.inf

    @property
    def _exploring(self) -> int:
        return math.ceil(math.pow(self.horizon, 2 / 3))

    def _sizes(self, state: State, n_items: int) -> Sizes:
        return sizes_of(self.measure, n_items, state.depth, state.max_grade)  # type: ignore[arg-type]  # hashable


def _counted(sizes: Sizes, items: Ints, grades: Floats) -> tuple[Floats, Floats]:
    """Of each term of `Game.observable_terms`, whether its items were graded, and whether with its grades."""
    is_revealed = np.zeros(sizes.needed.shape[1], dtype=bool)
    is_revealed[items] = True
    relevance = np.zeros(len(is_revealed))
    relevance[items] = grades
    revealed = ~(sizes.needed & ~is_revealed).any(axis=1)
    here = int(np.flatnonzero((sizes.game.relevances == relevance).all(axis=1))[0])
    graded = np.asarray(revealed, dtype=np.float64)
    return graded, graded * sizes.observed[:, here]
