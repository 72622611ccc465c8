"""The contracts for `rank`, `predict` and `log_prob`."""

import inspect
import math
from itertools import permutations
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, default_rng

from rankloop.contracts import cases
from rankloop.contracts.cases import Case, ContractViolation, contract, require
from rankloop.core.kernels import is_permutation
from rankloop.core.registry import build
from rankloop.core.types import Ints, Limit, Query

MAX_STANDARD_ERRORS = 5.0
N_RANKINGS = 3000
N_RANKINGS_WITHOUT_LOG_PROB = 100


class CountingGenerator(Generator):
    """A generator that counts its doubles and offers nothing but `random`."""

    def __init__(self, seed: int) -> None:
        super().__init__(PCG64(seed))
        self.n_drawn = 0

    def random(self, size: Any = None, *args: Any, **options: Any) -> Any:
        """Draw doubles and count them."""
        self.n_drawn += 1 if size is None else int(np.prod(size))
        return super().random(size, *args, **options)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in {"random", "n_drawn"}:
            raise ContractViolation(f"rank calls rng.{name}, not only rng.random for a fixed number of doubles")
        return super().__getattribute__(name)


@contract("return what `ranking_of(scores)` gives: all items, int64")
def check_rankings(case: Case) -> None:
    """`rank` and `predict` give permutations of the items, also for one item, ties and equal rows."""
    state, rng = case.play().states[-1], default_rng(5)
    for n_items in (1, 2, 5, 60):
        first, second = case.query(n_items, rng), case.query(n_items, rng)
        for query in (first, second._replace(features=np.zeros_like(second.features))):
            for present in (case.learner.init(case.problem), state):
                decision = case.learner.rank(present, query, rng)
                for name, ranking in (("rank", decision.ranking), ("predict", case.learner.predict(present, query))):
                    require(ranking.dtype == np.int64, f"{name} returns {ranking.dtype}, not int64")
                    require(is_permutation(ranking, len(query.features)), f"{name} returns {ranking}, no permutation")


@contract("look for a division by n − 1 or a comparison with a second item")
def check_single_item(case: Case) -> None:
    """A single item has one ranking with probability 1, and learning from it leaves a finite state."""
    case = case if case.featured else case._replace(problem=case.problem._replace(n_items=1))
    history = case.play(rounds=2)
    rng = default_rng(0)
    query = case.query(1, rng)
    decision = case.learner.rank(history.states[-1], query, rng)
    require(decision.ranking.tolist() == [0], f"one item is ranked {decision.ranking.tolist()}")
    log_prob = case.learner.log_prob(history.states[-1], query, decision.ranking)
    require(math.isnan(log_prob) or abs(log_prob) < 1e-9, f"the only ranking has log_prob {log_prob}, not 0")
    for feedback in case.feedbacks(decision, rng):
        cases.require_finite_state(case.learner.learn(history.states[-1], query, decision, feedback))


@contract("draw from the `rng` that `rank` is given, never from np.random or a generator of your own")
def check_seeding(case: Case) -> None:
    """Equal seeds give equal rankings, whatever numpy's global generator does."""
    first = case.play()
    np.random.seed(7)  # noqa: NPY002 - a side effect of other code, which must not matter
    cases.require_same(tuple(first.arrivals), tuple(case.play().arrivals), "two runs with the same seed differ at")


@contract("take `rng.random(n)` once, whichever branch it goes, with an n that follows from the number of items")
def check_fixed_draws(case: Case) -> None:
    """`rank` takes a number of doubles that depends on the query's shape only, and nothing but doubles."""
    history, rng, counts = case.play(), default_rng(4), set()
    for state in (*history.states[:3], history.states[-1]):
        for seed in range(8):
            draws = CountingGenerator(seed)
            case.learner.rank(state, case.query(4, rng), draws)
            counts.add(draws.n_drawn)
    message = f"rank takes {sorted(counts)} doubles for queries of the same shape; it must be one number"
    require(len(counts) == 1, message)


@contract("follow the draws of `rank`, over the seen part only (`seen_count`); nan where there is no closed form")
def check_log_prob(case: Case) -> None:
    """exp(log_prob) is the probability of the seen part: it sums to 1 and matches how often `rank` shows it."""
    history, rng = case.play(), default_rng(6)
    for state in (history.states[0], history.states[-1]):
        query = case.query(3 if case.problem.shown is None else 4, rng)
        log_probs = _log_probs(case, state, query)
        unknown = [log_prob for log_prob in log_probs.values() if math.isnan(log_prob)]
        require(len(unknown) in (0, len(log_probs)), f"log_prob is nan for some: {log_probs}")
        counts = dict.fromkeys(log_probs, 0)
        for _ in range(N_RANKINGS_WITHOUT_LOG_PROB if unknown else N_RANKINGS):
            decision = case.learner.rank(state, query, rng)
            part = _seen_part(case, decision.ranking)
            _require_close(decision.log_propensity, log_probs[part], "the decision's log_propensity and log_prob")
            counts[part] += 1
        if unknown:
            continue
        probabilities = {part: math.exp(log_prob) for part, log_prob in log_probs.items()}
        total = sum(probabilities.values())
        require(abs(total - 1) < 1e-9, f"probabilities sum to {total}: {probabilities}")
        for part, probability in probabilities.items():
            error = math.sqrt(probability * (1 - probability) / N_RANKINGS) + 1e-9
            share = counts[part] / N_RANKINGS
            message = f"{part} is shown {share:.4f} of the time, not {probability:.4f}"
            require(abs(share - probability) <= MAX_STANDARD_ERRORS * error, message)


@contract("score by features alone (`scores_of`), not by an item's number")
def check_renaming(case: Case) -> None:
    """Renumbered items are renumbered in `predict` and leave `log_prob` as it is, except for ties."""
    if not case.featured:
        return
    state, rng = case.play(rounds=20).states[-1], default_rng(8)
    queries = [case.query(5, rng) for _ in range(4)]
    if all(np.array_equal(case.learner.predict(state, query), np.arange(5)) for query in queries):
        return  # All items are tied, and ties are sorted by item number.
    for query in queries:
        for _ in range(5):
            new_of = rng.permutation(5)  # Item i gets the number new_of[i].
            renamed = query._replace(features=query.features[np.argsort(new_of)])
            best, renamed_best = case.learner.predict(state, query), case.learner.predict(state, renamed)
            expected = new_of[best]
            require(np.array_equal(expected, renamed_best), f"items {best} become {renamed_best}, not {expected}")
            ranking = rng.permutation(5)
            log_prob = case.learner.log_prob(state, query, ranking)
            renamed_log_prob = case.learner.log_prob(state, renamed, new_of[ranking])
            _require_close(log_prob, renamed_log_prob, "log_prob before and after renaming")


@contract("sort with `ranking_of`: it is stable, and ties go by item number")
def check_equal_rows(case: Case) -> None:
    """Items with equal features are neighbours in `predict`, in the order of their numbers."""
    if not case.featured:
        return
    rng = default_rng(9)
    for state in case.play().states[-3:]:
        query = case.query(2, rng)
        rows = np.array([0, 1, 0, 1, 1, 0])
        ranking = case.learner.predict(state, query._replace(features=query.features[rows].copy()))
        expected = ([0, 2, 5, 1, 3, 4], [1, 3, 4, 0, 2, 5], [0, 1, 2, 3, 4, 5])
        require(ranking.tolist() in expected, f"rows {rows.tolist()} are ranked {ranking.tolist()}")


@contract(
    "draw position by position, one double each, among the items that `due_item` and the limit leave; so in `log_prob`"
)
def check_limit(case: Case) -> None:
    """A `limit` of `rank` is kept: no item moves further, and `log_prob` stays exact."""
    if "limit" not in inspect.signature(case.learner.rank).parameters:
        return
    for limit in (Limit(1), Limit(2, keep_first=True)):
        places = {"places": limit.positions, "keep_first": limit.keep_first}
        limited = case._replace(learner=build({"kind": "explore_at_most", "inner": case.learner} | places, "learner"))
        check_fixed_draws.check(limited)
        check_log_prob.check(limited)
        state, rng = limited.play().states[-1], default_rng(14)
        for _ in range(50):
            query = limited.query(5, rng)
            shown, best = limited.learner.rank(state, query, rng).ranking, limited.learner.predict(state, query)
            moves = np.abs(np.argsort(shown) - np.argsort(best))
            kept = moves.max() <= limit.positions and (shown[0] == best[0] or not limit.keep_first)
            require(bool(kept), f"{best} is shown as {shown}, which {limit} does not allow")


def _seen_part(case: Case, ranking: Ints) -> tuple[int, ...]:
    return tuple(ranking[: case.problem.shown].tolist())


def _log_probs(case: Case, state: Any, query: Query) -> dict[tuple[int, ...], float]:
    """Return `log_prob` of each seen part, which must not depend on the items below."""
    log_probs: dict[tuple[int, ...], float] = {}
    for order in map(np.array, permutations(range(len(query.features)))):
        log_prob = case.learner.log_prob(state, query, order)
        require(isinstance(log_prob, float), f"log_prob is a {type(log_prob).__name__}, not a float")
        part = _seen_part(case, order)
        first = log_probs.setdefault(part, log_prob)
        _require_close(math.exp(first), math.exp(log_prob), f"two lists that begin with {part}")
    return log_probs


def _require_close(first: float, second: float, message: str) -> None:
    if not (first == second or abs(first - second) < 1e-9 or (math.isnan(first) and math.isnan(second))):
        raise ContractViolation(f"{message}: {first} and {second}")
