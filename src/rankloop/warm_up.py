"""Compilation of all kernels ahead of time, by using everything registered once: `python -m rankloop.warm_up`."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache, partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from rankloop.contracts.cases import Case, accepted_problem
from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.registry import Spec, build, entries
from rankloop.core.session import Session
from rankloop.core.types import Query
from rankloop.features import Encoder, Schema
from rankloop.learners.wrappers.hashed_weights import with_hashed

N_ITEMS = 4
MAX_PROCESSES = 4
ONE_LIST = np.array([0, N_ITEMS])
GRADES, SCORES = np.array([0.0, 2.0, 1.0, 0.0]), np.array([0.1, 0.4, 0.2, 0.3])
FIELD_LEARNERS = ("click_regression", "fair_pairs", "diagonal_thompson", "3pr")  # those that `advise` and pages name


def warm() -> None:
    """Use everything registered once, on all cores; processes share compiled kernels on disk."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, MAX_PROCESSES), get_context("spawn")) as pool:
        list(pool.map(_use_number, range(len(_uses()))))


def _use_number(number: int) -> None:
    with suppress(InvalidInput):
        _uses()[number]()


@cache
def _uses() -> list[Callable[[], None]]:
    """Return the uses, the slowest first, so that all cores end at about the same time."""
    uses: list[Callable[[], None]] = [partial(_use_fields, kind) for kind in FIELD_LEARNERS]
    for category, use in USES.items():
        for entry in entries(category):
            examples: tuple[Spec, ...] = getattr(entry.cls, "examples", ({},))
            uses += [partial(use, entry.cls(**parameters)) for parameters in examples]
    return uses


def _use_learner(learner: Any) -> None:
    case = Case("", learner, getattr(learner, "example_problem", None) or accepted_problem(learner))
    _use_rounds(case, case.query(N_ITEMS, np.random.default_rng(0)))


def _use_fields(kind: str) -> None:
    encoder = Encoder(Schema({"price": "number", "size": "number(scale='log')"}, {"age": "number"}, ("age*price",), 10))
    rows = encoder.rows(range(N_ITEMS), [{"price": i, "size": i} for i in range(N_ITEMS)], {})
    case = Case("", with_hashed(build(kind)), encoder.schema.problem(max_grade=2))
    _use_rounds(case, Query("", rows, np.empty(0)))


def _use_rounds(case: Case, query: Query) -> None:
    session, rng = Session(case.learner, case.problem, 0), np.random.default_rng(0)
    for _ in range(3):
        decision = session.rank(query)
        session.log_prob(query, session.predict(query))
        for feedback in case.feedbacks(decision, rng):
            with suppress(UnstableUpdate):
                session.learn(query, decision, feedback)


ITEMS = np.arange(N_ITEMS)
USES: dict[str, Callable[[Any], Any]] = {
    "risk": lambda risk: risk.of_lists(SCORES, GRADES, ONE_LIST),
    "learner": _use_learner,
    "feedback": lambda users: users.observe(ITEMS, GRADES, np.random.default_rng(0)),
    "surrogate": lambda each: (each.value_and_grad(SCORES, GRADES), each.terms(SCORES, ITEMS, GRADES)),
    "measure": lambda measure: (measure(ITEMS, GRADES), measure.of_scores(SCORES, GRADES, ONE_LIST)),
}

if __name__ == "__main__":
    warm()
