"""What may crash or hang is tried in a process of its own, which imports the learner's module too."""

import faulthandler
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

import rankloop
from rankloop.contracts import forged_receipts, hostile_states
from rankloop.contracts.cases import Case, cases_of
from rankloop.core.registry import Entry, lookup
from rankloop.experiments.spec.plugins import Module, import_on_worker

Trial = Literal["hostile_states", "forged_receipts"]
TOO_LONG = 60  # seconds for one case, after which it hangs
WHOLE = 600  # seconds for all of them


class TrialFindings(NamedTuple):
    """The faults of each learner that was tried to the end, and what the process said when it ended."""

    faults: dict[str, list[str]]
    code: int
    said: str

    def fault_of(self, kind: str) -> str | None:
        """The first fault of a learner, with the number of all; None where there is none."""
        if kind not in self.faults:
            return f"the process ended with {self.code} on its way here: {' '.join(self.said[-600:].split())}"
        faults = self.faults[kind]
        return f"{len(faults)} in all, first: {faults[0]}" if faults else None


def try_apart(
    trial: Trial, kinds: Sequence[str], modules: Iterable[Module] = (), interpreted: bool = True
) -> TrialFindings:
    """Try learners with hostile states or forged receipts in another process.

    Interpreted, kernels run as Python, which checks every access; else compiled, as they are used.
    """
    path = os.pathsep.join(filter(None, [str(Path(rankloop.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"NUMBA_DISABLE_JIT": str(int(interpreted)), "PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "faults"
        order = json.dumps([trial, list(kinds), [list(module) for module in modules], str(results)])
        command = [sys.executable, "-W", "ignore", "-m", "rankloop.contracts.process", order]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WHOLE)
        lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return TrialFindings(dict(json.loads(line) for line in lines), done.returncode, done.stderr)


def _try_here(trial: Trial, kinds: Sequence[str], results: Path) -> None:
    module = {"hostile_states": hostile_states, "forged_receipts": forged_receipts}[trial]
    for kind in kinds:
        found = [fault for case in _cases(trial, lookup(kind, "learner")) for fault in module.faults(case)]
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps([kind, found]) + "\n")


def _cases(trial: Trial, entry: Entry) -> Iterator[Case]:
    of_trial = hostile_states.hostile_cases if trial == "hostile_states" else cases_of
    for case in of_trial(entry.kind, entry.cls):
        print(case.name, file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(TOO_LONG, exit=True)
        yield case


if __name__ == "__main__":
    trial, kinds, modules, results = json.loads(sys.argv[1])
    np.seterr(all="ignore")
    import_on_worker(Module(name, folder) for name, folder in modules)
    _try_here(trial, kinds, Path(results))
