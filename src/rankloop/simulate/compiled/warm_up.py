"""Compiles every kernel that the loop needs, so that the first round is as quick as the rest: part of `make setup`."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.registry import Spec, build, entries
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Feedback, Ints, Preferred, Problem, Query, Relevances, Reward
from rankloop.features import Encoder, Schema
from rankloop.learners.wrappers.hashed_columns import with_hashed

N_ITEMS = 4
NO_CONTEXT = np.empty(0)
FOR_FIELDS = ("click_regression", "fair_pairs", "diagonal_thompson")  # what `advise` names for them
PROBLEMS = (Problem(n_features=3, max_grade=2, depth=2), Problem(n_features=0, n_items=N_ITEMS, depth=2))


def warm() -> None:
    """Use everything registered once."""
    grades, scores = np.array([0.0, 2.0, 1.0, 0.0]), np.array([0.1, 0.4, 0.2, 0.3])
    for measure in _examples("measure"):
        measure(np.arange(N_ITEMS), grades)
        measure.of_scores(scores, grades, np.array([0, N_ITEMS]))
    for surrogate in _examples("surrogate"):
        surrogate.value_and_grad(scores, grades)
        surrogate.terms(scores, np.arange(N_ITEMS), grades)
    for risk in _examples("risk"):
        risk.of_lists(scores, grades, np.array([0, N_ITEMS]))
    for people in _examples("feedback"):
        people.observe(np.arange(N_ITEMS), grades, np.random.default_rng(0))
    encoder = Encoder(Schema({"price": "number", "size": "number(scale='log')"}, {"age": "number"}, ("age*price",), 10))
    by_name = Query("", encoder.rows(range(N_ITEMS), [{"price": i, "size": i} for i in range(N_ITEMS)], {}), NO_CONTEXT)
    for learner in _examples("learner"):
        with suppress(InvalidInput):
            _use(Session(learner, getattr(learner, "example_problem", None) or _first_fit(learner), 0))
    for kind in FOR_FIELDS:
        _use(Session(with_hashed(build(kind)), encoder.schema.problem(max_grade=2), 0), by_name)


def _examples(category: str) -> Iterator[Any]:
    for entry in entries(category):
        examples: tuple[Spec, ...] = getattr(entry.cls, "examples", ({},))
        for parameters in examples:
            with suppress(InvalidInput):
                yield entry.cls(**parameters)


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
