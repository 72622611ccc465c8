"""Checks that may crash or hang run in another process, which imports the learner's module too."""

import faulthandler
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

import rankloop
from rankloop.contracts.cases import cases_of
from rankloop.contracts.tampering import forged_receipts, hostile_cases, hostile_states
from rankloop.core.registry import lookup
from rankloop.experiments.spec.plugins import Module, import_on_worker

Trial = Literal["hostile_states", "forged_receipts"]
CASE_SECONDS = 60  # A case that takes longer hangs.
TRIAL_SECONDS = 600


class TrialResult(NamedTuple):
    """The result of a process.

    Attributes:
      failures: The failures of each learner that was tried to the end.
      exit_code: The exit code of the process.
      stderr: The text that it wrote to its standard error.
    """

    failures: dict[str, list[str]]
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


def _run_here(trial: Trial, kinds: Sequence[str], results: Path) -> None:
    cases, check = (hostile_cases, hostile_states) if trial == "hostile_states" else (cases_of, forged_receipts)
    for kind in kinds:
        failures = []
        for case in cases(kind, lookup(kind, "learner").cls):
            print(case.name, file=sys.stderr, flush=True)
            faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)
            failures += list(check(case))
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps([kind, failures]) + "\n")


if __name__ == "__main__":
    trial, kinds, modules, results = json.loads(sys.argv[1])
    np.seterr(all="ignore")
    import_on_worker(Module(name, folder) for name, folder in modules)
    _run_here(trial, kinds, Path(results))
