"""Run as a program: a Python that has imported rankloop and all below it, and runs each script in a fork of itself.

No script finds anything that another one did, as in a process of its own, but none waits for the imports.
A line of standard input says which script, in which folder, and where its output goes; a line answers how it ended.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from pathlib import Path

import numba
import scipy.optimize
import scipy.stats  # noqa: F401

from rankloop.core.registry import entries

ROOT = Path(__file__).parents[2]
PATIENCE = 300  # seconds for one script, after which it is ended


def scripts() -> str:
    """Wait for scripts and fork; in the forks, return the path of the one to run."""
    for line in sys.stdin:
        script, folder, printed, said = json.loads(line)
        child = os.fork()
        if not child:
            _prepare(script, folder, printed, said)
            return str(script)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    sys.exit()


def _prepare(script: str, folder: str, printed: str, said: str) -> None:
    for path, number in ((os.devnull, 0), (printed, 1), (said, 2)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    sys.argv, sys.path[0] = [script], os.path.dirname(script)
    sys.path.append(str(ROOT))  # pages on theory use `research`, which a clone has
    signal.alarm(PATIENCE)


if __name__ == "__main__":
    entries()  # first, because it says for which processor: other kernels than those of the cache would be compiled
    numba.njit("float64(float64)")(lambda number: number)  # the compiler is ready
    runpy.run_path(scripts(), run_name="__main__")
