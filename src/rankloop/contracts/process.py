"""Checks that may crash or hang run in another process, which imports the learner's module too."""

import contextlib
import faulthandler
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import default_rng

import rankloop
from rankloop.contracts.cases import Case, ContractViolation, cases_of, leaves, require_finite_state
from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.kernels import is_permutation
from rankloop.core.registry import Entry, lookup
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session
from rankloop.core.types import Query
from rankloop.core.weight_table import WeightTable
from rankloop.experiments.spec.plugins import Module, import_on_worker

HOSTILE_INTS = (0, 1, -1, 2, 3, 7, -7, 2**31, -(2**31), 2**53, 2**62, -(2**62), 2**63 - 1, 10**30)
HOSTILE_FLOATS = (0.0, 0.5, -1.0, 7.0, 1e30, 1e150, 1e308, -1e308, 5e-324)
OTHER_LENGTHS = (0, 1, 50)


def _tampered(value: Any, name: str = "state", resized: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield a receipt or a state with one of its numbers or arrays replaced by another of the same type."""
    for path, leaf in leaves(value, name):
        others = _other_arrays(leaf, resized) if isinstance(leaf, np.ndarray) else _other_numbers(leaf)
        for change, replacement in others:
            with contextlib.suppress(ValueError):  # of a table, which cannot have other columns than values
                yield f"{path} {change}", _with_leaf(value, path.split(".")[1:], replacement)


def _forged_receipts(case: Case) -> Iterator[str]:
    """Yield what goes wrong when a session of this learner learns with receipts that were tampered with."""
    rng = default_rng(20)
    session, other = (Session(case.learner, case.problem, seed=0) for _ in range(2))
    for n_items in (2, 3, 4, 5):
        query = case.query(n_items, rng)
        decision = session.rank(query)
        for feedback in case.feedbacks(decision, rng):
            for change, receipt in _tampered(decision.receipt, "receipt", resized=True):
                state, generator, learned, refused = session.snapshot()
                other.restore(state, generator, learned, refused)
                try:
                    other.learn(query, decision._replace(receipt=receipt), feedback)
                    _require_sane(other, query)
                    if "dimension" in change:
                        raise ContractViolation("a kernel is compiled for arrays of its own dimensions only")
                except RankloopError:
                    pass
                except Exception as error:
                    yield f"{case.name}: {type(feedback).__name__} with {change}: {type(error).__name__}: {error}"
            session.learn(query, decision, feedback)


def _hostile_states(case: Case) -> Iterator[str]:
    """Yield what goes wrong when a session of this learner is loaded with a state that was tampered with."""
    state = case.play().states[-1]
    for change, hostile in _tampered(state):
        try:
            session = _restored(case, hostile)
        except InvalidInput:
            continue
        try:
            _continue(case, session)
        except Exception as error:
            yield f"{case.name} with {change}: {type(error).__name__}: {error}"
    _continue(case, _restored(case, state))


def _with_leaf(value: Any, path: list[str], leaf: Any) -> Any:
    """Return a nested tuple with the leaf of a path, without its first word, replaced."""
    if not path:
        return leaf
    if isinstance(value, WeightTable):
        return WeightTable.of(value.n_columns, np.arange(value.n_columns), leaf)
    if hasattr(value, "_fields"):
        return value._replace(**{path[0]: _with_leaf(getattr(value, path[0]), path[1:], leaf)})
    return tuple(_with_leaf(part, path[1:], leaf) if str(i) == path[0] else part for i, part in enumerate(value))


def _hostile_cases(entry: Entry) -> list[Case]:
    """Return the cases of a learner that see all items, and the first of them without features."""
    cases = [case for case in cases_of(entry) if case.name.endswith("plain")]
    first = cases[0]
    bare = first._replace(name=f"{first.name}-bare", problem=first.problem._replace(n_features=0))
    return [*cases, bare] if first.problem.n_features and bare.is_accepted else cases


def _restored(case: Case, state: Any) -> Session:
    """Return a session that was saved with this state and loaded again."""
    return loads(dumps(Session(case.learner, case.problem).continued(case.learner, case.problem, state)))


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


Trial = Literal["hostile_states", "forged_receipts"]
CASE_SECONDS = 60  # A case that takes longer hangs.
TRIAL_SECONDS = 600


class TrialResult(NamedTuple):
    """The result of a process."""

    failures: dict[str, list[str]]  # of each learner that was tried to the end
    exit_code: int
    stderr: str

    def failure_of(self, kind: str) -> str | None:
        """Return the first failure of a learner with the number of all; None where there is none."""
        if kind not in self.failures:
            return f"the process ended with {self.exit_code} before it finished: {' '.join(self.stderr[-600:].split())}"
        failures = self.failures[kind]
        return f"{len(failures)} in all, first: {failures[0]}" if failures else None


def run_isolated(
    trial: Trial, kinds: Sequence[str], modules: Iterable[Module] = (), interpreted: bool = True
) -> TrialResult:
    """Try learners with tampered states or receipts in another process.

    Args:
      trial: The check.
      kinds: The registered names of the learners.
      modules: Modules that the process imports first, because they register the learners.
      interpreted: If true, kernels run as Python, which checks every access; else compiled, as they are used.
    """
    path = os.pathsep.join(filter(None, [str(Path(rankloop.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"NUMBA_DISABLE_JIT": str(int(interpreted)), "PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "failures"
        order = json.dumps([trial, list(kinds), [list(module) for module in modules], str(results)])
        command = [sys.executable, "-W", "ignore", "-m", "rankloop.contracts.process", order]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TRIAL_SECONDS)
        lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return TrialResult(dict(json.loads(line) for line in lines), done.returncode, done.stderr)


if __name__ == "__main__":
    trial, kinds, modules, results = json.loads(sys.argv[1])
    np.seterr(all="ignore")
    import_on_worker(Module(name, folder) for name, folder in modules)
    subjects, check = (_hostile_cases, _hostile_states) if trial == "hostile_states" else (cases_of, _forged_receipts)
    for kind in kinds:
        failures = []
        for case in subjects(lookup(kind, "learner")):
            print(case.name, file=sys.stderr, flush=True)
            faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)
            failures += list(check(case))
        with open(results, "a", encoding="utf-8") as file:
            file.write(json.dumps([kind, failures]) + "\n")
