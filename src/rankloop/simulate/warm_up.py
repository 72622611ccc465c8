"""Compiles every kernel that the loop needs, so that the first round is as quick as the rest: part of `make setup`."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache, partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.registry import Spec, build, entries
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Feedback, Ints, Preferred, Problem, Query, Relevances, Reward
from rankloop.features import Encoder, Schema
from rankloop.learners.wrappers.hashed_columns import with_hashed

N_ITEMS = 4
MAX_PROCESSES = 4
NO_CONTEXT, ONE_LIST = np.empty(0), np.array([0, N_ITEMS])
GRADES, SCORES = np.array([0.0, 2.0, 1.0, 0.0]), np.array([0.1, 0.4, 0.2, 0.3])
FOR_FIELDS = ("click_regression", "fair_pairs", "diagonal_thompson")  # what `advise` names for them
PROBLEMS = (Problem(n_features=3, max_grade=2, depth=2), Problem(n_features=0, n_items=N_ITEMS, depth=2))


def warm() -> None:
    """Use everything registered once, on all cores: what one process has compiled the others find on disk."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, MAX_PROCESSES), get_context("spawn")) as pool:
        list(pool.map(_use_number, range(len(_uses()))))


def _use_number(number: int) -> None:
    with suppress(InvalidInput):
        _uses()[number]()


@cache
def _uses() -> list[Callable[[], None]]:
    """The dearest first, so that no core is left alone with one of them."""
    in_turn = {
        "learner": _use_learner,
        "feedback": _use_people,
        "risk": _use_risk,
        "surrogate": _use_surrogate,
        "measure": _use_measure,
    }
    return [
        *(partial(_use_fields, kind) for kind in FOR_FIELDS),
        *(
            partial(_use_example, use, entry.cls, parameters)
            for category, use in in_turn.items()
            for entry in entries(category)
            for parameters in _examples(entry.cls)
        ),
    ]


def _examples(cls: type) -> tuple[Spec, ...]:
    return getattr(cls, "examples", ({},))


def _use_example(use: Callable[[Any], None], cls: type, parameters: Spec) -> None:
    use(cls(**parameters))


def _use_measure(measure: Any) -> None:
    measure(np.arange(N_ITEMS), GRADES)
    measure.of_scores(SCORES, GRADES, ONE_LIST)


def _use_surrogate(surrogate: Any) -> None:
    surrogate.value_and_grad(SCORES, GRADES)
    surrogate.terms(SCORES, np.arange(N_ITEMS), GRADES)


def _use_risk(risk: Any) -> None:
    risk.of_lists(SCORES, GRADES, ONE_LIST)


def _use_people(people: Any) -> None:
    people.observe(np.arange(N_ITEMS), GRADES, np.random.default_rng(0))


def _use_learner(learner: Any) -> None:
    with suppress(InvalidInput):
        _use(Session(learner, getattr(learner, "example_problem", None) or _first_fit(learner), 0))


def _use_fields(kind: str) -> None:
    encoder = Encoder(Schema({"price": "number", "size": "number(scale='log')"}, {"age": "number"}, ("age*price",), 10))
    rows = encoder.rows(range(N_ITEMS), [{"price": i, "size": i} for i in range(N_ITEMS)], {})
    _use(Session(with_hashed(build(kind)), encoder.schema.problem(max_grade=2), 0), Query("", rows, NO_CONTEXT))


def _first_fit(learner: Any) -> Problem:
    for problem in PROBLEMS[:-1]:
        with suppress(InvalidInput):
            learner.init(problem)
            return problem
    return PROBLEMS[-1]


def _use(session: Session, query: Query | None = None) -> None:
    problem = session.problem
    rng = np.random.default_rng(0)
    if query is None:
        query = Query.of(rng.random((problem.n_items or N_ITEMS, problem.n_features)), rng.random(problem.n_context))
    for _ in range(3):
        decision = session.rank(query)
        session.log_prob(query, session.predict(query))
        for kind in session.learner.accepts:
            with suppress(UnstableUpdate):
                session.learn(query, decision, _feedback(kind, decision.ranking, problem))


def _feedback(kind: type, ranking: Ints, problem: Problem) -> Feedback:
    if kind is Relevances:
        items = ranking[: problem.depth].copy()
        return Relevances(items, np.ones(len(items)))
    if kind is Clicks:
        return Clicks(ranking[1:2].copy(), np.ones(1))
    return Preferred(ranking[::-1].copy()) if kind is Preferred else Reward(1.0)


if __name__ == "__main__":
    warm()
