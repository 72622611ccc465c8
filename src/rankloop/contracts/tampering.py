"""Receipts and saved states that were tampered with: a session refuses them, or goes on without harm.

A receipt travels through a browser, and a saved file may come from anywhere. Compiled kernels do not check the bounds
of arrays; with NUMBA_DISABLE_JIT=1 the same code runs as Python, where every access is checked.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import default_rng

from rankloop.contracts.cases import Case, accepts, cases_of, play_history
from rankloop.contracts.contract import ContractViolation, require
from rankloop.contracts.leaves import leaves, require_finite_state, with_leaf
from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.kernels import is_permutation
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session
from rankloop.core.types import Query

HOSTILE_INTS = (0, 1, -1, 2, 3, 7, -7, 2**31, -(2**31), 2**53, 2**62, -(2**62), 2**63 - 1, 10**30)
HOSTILE_FLOATS = (0.0, 0.5, -1.0, 7.0, 1e30, 1e150, 1e308, -1e308, 5e-324)
OTHER_LENGTHS = (0, 1, 50)


def tampered(value: Any, name: str = "state", resized: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield a receipt or a state with one of its numbers or arrays replaced by another of the same type.

    Args:
      value: A tuple of arrays and numbers.
      name: The first word of every description.
      resized: Whether arrays get other lengths and dimensions too; without it only empty arrays do.

    Yields:
      The description of a change, and the changed value.
    """
    for path, leaf in leaves(value, name):
        for change, replacement in (
            _other_arrays(leaf, resized) if isinstance(leaf, np.ndarray) else _other_numbers(leaf)
        ):
            with contextlib.suppress(ValueError):  # of a table, which cannot have other columns than values
                yield f"{path} {change}", with_leaf(value, path.split(".")[1:], replacement)


def forged_receipts(case: Case) -> Iterator[str]:
    """Yield what goes wrong when a session of this learner learns with receipts that were tampered with."""
    rng = default_rng(20)
    session, other = (Session(case.learner, case.problem, seed=0) for _ in range(2))
    for n_items in (2, 3, 4, 5):
        query = case.query(n_items, rng)
        decision = session.rank(query)
        for feedback in case.feedbacks(decision, rng):
            for change, receipt in tampered(decision.receipt, "receipt", resized=True):
                state, generator, learned, refused = session.snapshot()
                other.restore(state, generator, learned, refused)
                try:
                    other.learn(query, decision._replace(receipt=receipt), feedback)
                    _require_sane(other, query)
                    require("dimension" not in change, "a kernel is compiled for arrays of its own dimensions only")
                except RankloopError:
                    pass
                except Exception as error:
                    yield f"{case.name}: {type(feedback).__name__} with {change}: {type(error).__name__}: {error}"
            session.learn(query, decision, feedback)


def hostile_states(case: Case) -> Iterator[str]:
    """Yield what goes wrong when a session of this learner is loaded with a state that was tampered with."""
    state = play_history(case).states[-1]
    for change, hostile in tampered(state):
        try:
            session = loads(_saved(case, hostile))
        except InvalidInput:
            continue
        try:
            _continue(case, session)
        except Exception as error:
            yield f"{case.name} with {change}: {type(error).__name__}: {error}"
    _continue(case, loads(_saved(case, state)))


def hostile_cases(kind: str, cls: type) -> list[Case]:
    """Return the cases of a learner that see all items, and the first of them without features.

    Args:
      kind: The registered name.
      cls: The learner's class.
    """
    cases = [case for case in cases_of(kind, cls) if case.name.endswith("plain")]
    first = cases[0]
    bare = first._replace(name=f"{first.name}-bare", problem=first.problem._replace(n_features=0))
    return [*cases, bare] if first.problem.n_features and accepts(bare.learner, bare.problem) else cases


def _saved(case: Case, state: Any) -> bytes:
    session = Session(case.learner, case.problem)
    _, generator, learned, refused = session.snapshot()
    session.restore(state, generator, learned, refused)
    return dumps(session)


def _continue(case: Case, session: Session) -> None:
    """Rank and learn for two rounds; the session may refuse with an error of the package."""
    rng = default_rng(3)
    for n_items in (5, 2):
        query = case.query(n_items, rng)
        try:
            decision = _require_sane(session, query)
            session.log_prob(query, session.predict(query))
        except RankloopError:
            return
        for feedback in case.feedbacks(decision, rng):
            with contextlib.suppress(RankloopError):
                session.learn(query, decision, feedback)
        require_finite_state(session.state)


def _require_sane(session: Session, query: Query) -> Any:
    """Return a decision of the session, whose rankings and state must be valid."""
    require_finite_state(session.state)
    decision = session.rank(query)
    for ranking in (decision.ranking, session.predict(query)):
        if not is_permutation(ranking, len(query.features)):
            raise ContractViolation(f"afterwards it shows {ranking}")
    return decision


def _other_arrays(array: Any, resized: bool) -> Iterator[tuple[str, Any]]:
    """Yield arrays of other dimensions and lengths, and with other numbers in one or all entries."""
    if resized:
        other = array.ravel() if array.ndim > 1 else array[:, None]
        yield f"in {other.ndim} dimension(s)", other
    for axis, size in enumerate(array.shape):
        for length in {*OTHER_LENGTHS, size - 1, size + 1} - {-1, size} if resized or size == 0 else ():
            shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
            yield f"of shape {shape}", np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
    for change, number in _other_numbers(array.dtype.type(0).item()) if array.size else ():
        if abs(number) < 2**63 or array.dtype.kind == "f":
            yield f"all {change}", np.full_like(array, number)
            for position in {0, array.size - 1} if array.size > 1 else ():
                changed = array.copy()
                changed.flat[position] = number
                yield f"{change} at {position}", changed


def _other_numbers(value: Any) -> Iterator[tuple[str, Any]]:
    numbers = (not value,) if isinstance(value, bool) else HOSTILE_INTS if isinstance(value, int) else HOSTILE_FLOATS
    for number in numbers:
        yield f"= {number}", number
