"""Run as a program: load states that were tampered with, go on with them, and print what went wrong.

A saved file may come from anywhere. Whatever numbers stand in its state must be refused, or do nothing worse than rank
badly. With NUMBA_DISABLE_JIT=1 the kernels run as Python, where every access is checked; without, as they are used.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import default_rng
from tests.contracts.cases import Case, accepts, assert_finite, cases_of, leaves, play_past, with_leaf

from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.kernels import is_permutation
from rankloop.core.registry import Entry, entries
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session

INTS = (-(10**9), -1, 3, 10**9, 2**53, 2**62)
FLOATS = (1e308, -1e308, 1e150, 5e-324, 0.0, -1.0)
TOO_LONG = 60  # seconds for one case, after which it hangs


def tampered(state: Any) -> Iterator[tuple[str, Any]]:
    """The state with one leaf changed at a time: a number, one or all entries of an array, its empty dimensions."""
    for path, value in leaves(state):
        for what, hostile in _arrays(value) if isinstance(value, np.ndarray) else _numbers(value):
            yield f"{path} {what}", with_leaf(state, path.split(".")[1:], hostile)


def faults(case: Case) -> Iterator[str]:
    """What goes wrong when a session of this learner goes on from a tampered state."""
    state = play_past(case).states[-1]
    for what, hostile in tampered(state):
        try:
            session = loads(_saved(case, hostile))
        except InvalidInput:
            continue
        try:
            _go_on(case, session)
        except Exception as error:
            yield f"{case.name} with {what}: {type(error).__name__}: {error}"
    _go_on(case, loads(_saved(case, state)))


def _saved(case: Case, state: Any) -> bytes:
    session = Session(case.learner, case.problem)
    session.restore(state, *session.snapshot()[1:])
    return dumps(session)


def _go_on(case: Case, session: Session) -> None:
    """Rank and learn a few rounds; a session may refuse to, in its own words."""
    rng = default_rng(3)
    for n_items in (5, 2):
        query = case.query(n_items, rng)
        try:
            decision = session.rank(query)
            best = session.predict(query)
            session.log_prob(query, best)
        except RankloopError:
            return
        for ranking in (decision.ranking, best):
            assert is_permutation(ranking, len(query.features)), f"it shows {ranking}"
        for feedback in case.feedbacks(decision, rng):
            with contextlib.suppress(RankloopError):
                session.learn(query, decision, feedback)
        assert_finite(session.state)


def _arrays(value: Any) -> Iterator[tuple[str, Any]]:
    for axis in np.flatnonzero(np.array(value.shape) == 0):
        shape = list(value.shape)
        shape[axis] = 3
        yield f"of shape {shape}", np.zeros(shape, value.dtype)
    for number in (INTS if value.dtype.kind in "iu" else FLOATS) if value.size else ():
        yield f"all {number}", np.full_like(value, number)
        if value.size > 1:
            hostile = value.copy()
            hostile.flat[-1] = number
            yield f"{number} at its end", hostile


def _numbers(value: Any) -> Iterator[tuple[str, Any]]:
    for number in (not value,) if isinstance(value, bool) else INTS if isinstance(value, int) else FLOATS:
        yield f"= {number}", number


def _without_features(cases: list[Case]) -> list[Case]:
    """The same learners where the items have no features, so that arrays are empty."""
    bare = [c._replace(name=f"{c.name}-bare", problem=c.problem._replace(n_features=0)) for c in cases]
    return [c for c, other in zip(bare, cases) if other.problem.n_features and accepts(c.learner, c.problem)]


def _cases(entry: Entry) -> Iterator[Case]:
    cases = [case for case in cases_of(entry.kind, entry.cls) if case.name.endswith("plain")]
    for case in cases + _without_features(cases[:1]):
        print(case.name, file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(TOO_LONG, exit=True)
        yield case


if __name__ == "__main__":
    np.seterr(all="ignore")
    for entry in entries("learner"):
        if not sys.argv[1:] or entry.kind in sys.argv[1:]:
            print(json.dumps([entry.kind, [fault for case in _cases(entry) for fault in faults(case)]]), flush=True)
