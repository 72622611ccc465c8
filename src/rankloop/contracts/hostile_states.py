"""Load states that were tampered with, go on with them, and say what went wrong.

A saved file may come from anywhere. Whatever numbers stand in its state must be refused, or do nothing worse than rank
badly. With NUMBA_DISABLE_JIT=1 the kernels run as Python, where every access is checked; without, as they are used.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import default_rng

from rankloop.contracts.cases import Case, accepts, cases_of, play_past
from rankloop.contracts.contract import Broken
from rankloop.contracts.leaves import leaves, require_finite_state, with_leaf
from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.kernels import is_permutation
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session

INTS = (-(10**9), -1, 3, 10**9, 2**53, 2**62)
FLOATS = (1e308, -1e308, 1e150, 5e-324, 0.0, -1.0)


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
    _, generator, learned, refused = session.snapshot()
    session.restore(state, generator, learned, refused)
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
            if not is_permutation(ranking, len(query.features)):
                raise Broken(f"it shows {ranking}")
        for feedback in case.feedbacks(decision, rng):
            with contextlib.suppress(RankloopError):
                session.learn(query, decision, feedback)
        require_finite_state(session.state)


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


def hostile_cases(kind: str, cls: type) -> list[Case]:
    """The plain cases of a learner, and the first one without features."""
    cases = [case for case in cases_of(kind, cls) if case.name.endswith("plain")]
    return cases + _without_features(cases[:1])


def _without_features(cases: list[Case]) -> list[Case]:
    """The same learners where the items have no features, so that arrays are empty."""
    bare = [c._replace(name=f"{c.name}-bare", problem=c.problem._replace(n_features=0)) for c in cases]
    return [c for c, other in zip(bare, cases) if other.problem.n_features and accepts(c.learner, c.problem)]
