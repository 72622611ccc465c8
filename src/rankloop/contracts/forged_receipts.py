"""Have a learner learn with forged receipts, and say what went wrong.

A receipt travels through a browser. Whatever comes back in its place must be refused, or do no harm.
Kernels have no bounds checks; without compilation the same code runs as Python, where every access is checked.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import default_rng

from rankloop.contracts.cases import Case
from rankloop.contracts.contract import Broken, require
from rankloop.contracts.leaves import leaves, require_finite_state, with_leaf
from rankloop.core.errors import RankloopError
from rankloop.core.kernels import is_permutation
from rankloop.core.session import Session
from rankloop.core.types import Query

NUMBERS = (0, 1, -1, 2, -2, 7, -7, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, 10**30)


def forgeries(receipt: Any) -> Iterator[tuple[str, Any]]:
    """The receipt with one leaf replaced at a time, of the right type but with any length and size."""
    for path, value in leaves(receipt, "receipt"):
        if isinstance(value, np.ndarray):
            other = value.ravel() if value.ndim > 1 else value[:, None]
            yield f"{path} in {other.ndim} dimension(s)", with_leaf(receipt, path.split(".")[1:], other)
        for forged in _arrays(value) if isinstance(value, np.ndarray) else _numbers(value):
            shown = forged.tolist() if isinstance(forged, np.ndarray) else forged
            yield f"{path} = {shown!r:.80}", with_leaf(receipt, path.split(".")[1:], forged)


def faults(case: Case) -> Iterator[str]:
    """What goes wrong when a session of this learner learns with forged receipts."""
    rng = default_rng(20)
    session, other = (Session(case.learner, case.problem, seed=0) for _ in range(2))
    for n_items in (2, 3, 4, 5):
        query = case.query(n_items, rng)
        decision = session.rank(query)
        for feedback in case.feedbacks(decision, rng):
            for what, receipt in forgeries(decision.receipt):
                state, generator, learned, refused = session.snapshot()
                other.restore(state, generator, learned, refused)
                try:
                    other.learn(query, decision._replace(receipt=receipt), feedback)
                    _check_sane(other, query)
                    require("dimension" not in what, "a kernel is compiled for arrays of its own dimensions only")
                except RankloopError:
                    pass
                except Exception as error:
                    yield f"{case.name}: {type(feedback).__name__} with {what}: {type(error).__name__}: {error}"
            session.learn(query, decision, feedback)


def _check_sane(session: Session, query: Query) -> None:
    require_finite_state(session.state)
    for ranking in (session.rank(query).ranking, session.predict(query)):
        if not is_permutation(ranking, len(query.features)):
            raise Broken(f"afterwards it shows {ranking}")


def _arrays(value: Any) -> Iterator[Any]:
    for length in (0, 1, len(value) - 1, len(value) + 1, 50):
        if length >= 0:
            yield np.resize(value, (length, *value.shape[1:])) if value.size else np.zeros(length, value.dtype)
    if value.ndim == 2:
        yield np.resize(value, (len(value), value.shape[1] + 1))
        yield np.resize(value, (len(value), max(0, value.shape[1] - 1)))
    for number in _numbers(value.dtype.type(0).item()):
        if abs(number) < 2**63:
            for position in {0, value.size - 1} if value.size else ():
                forged = value.copy()
                forged.flat[position] = number
                yield forged


def _numbers(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value,)
    return NUMBERS if isinstance(value, int) else (*map(float, NUMBERS), 0.5, 1e308, -1e308, 5e-324)
