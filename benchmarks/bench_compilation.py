"""Compilation: kernels for the x86-64-v3 level beside kernels for this very processor, and the dearest compilations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import llvmlite.binding

from benchmarks.measurement import Timed, timed

LEARNERS = ("newton_pairs", "click_regression", "pdgd", "topk_gradient")
REPEATS = 5
N_DEAREST = 10
ROUNDS = """
import json, sys
from time import process_time
from benchmarks.bench_play import Repeated
from rankloop import build, play
users = {"topk_gradient": "top_k"}
seconds = {}
for kind in sys.argv[1:]:
    arguments = build(kind, "learner"), Repeated(), build(users.get(kind, "noisy_reader"), "feedback")
    for _ in play(*arguments, horizon=50, seed=0): pass
    start = process_time()
    for _ in play(*arguments, horizon=5_000, seed=0): pass
    seconds[kind] = process_time() - start
print(json.dumps(seconds))
"""
FIVE_LINES = """
import json
from collections import Counter
from time import process_time
from numba.core import event

class Listener(event.Listener):
    def __init__(self):
        self.open, self.seconds, self.total = [], Counter(), 0.0
    def on_start(self, started):
        self.open.append([process_time(), 0.0])
    def on_end(self, ended):
        start, inner = self.open.pop()
        duration = process_time() - start
        function = ended.data["dispatcher"].py_func
        self.seconds[f"{function.__module__}.{function.__qualname__}"] += duration - inner
        if self.open:
            self.open[-1][1] += duration
        else:
            self.total += duration

listener = Listener()
event.register("numba:compile", listener)
from rankloop import Ranker
ranker = Ranker("click_regression", features={"price": "number", "brand": "category", "title": "words"})
products = {"a": {"price": 1999, "brand": "Acme", "title": "Red shoes"}, "b": {"price": 700, "title": "Wool socks"}}
ranker.learn(ranker.rank(products), clicks=["b"])
print(json.dumps({"total": listener.total, "dearest": listener.seconds.most_common()}))
"""


def run() -> list[dict[str, Any]]:
    """Return one row per learner, and one for the compilation of the README's five lines."""
    with tempfile.TemporaryDirectory() as folder:
        level, host, empty = (f"{folder}/{name}" for name in ("level", "host", "empty"))
        pairs = [(_rounds(level, {}), _rounds(host, _host_target())) for _ in range(REPEATS + 1)][1:]
        compiled = _output(FIVE_LINES, empty, {})
    rows = [
        _row(kind, timed([(for_level[kind], for_host[kind]) for for_level, for_host in pairs])) for kind in LEARNERS
    ]
    dearest = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in compiled["dearest"][:N_DEAREST])
    total = {"name": "compiling the README's five lines", "ours_seconds": compiled["total"], "peer_seconds": None}
    return [*rows, total | {"ratio": None, "target": None, "note": f"dearest: {dearest}"}]


def _row(kind: str, times: Timed) -> dict[str, Any]:
    return {
        "name": f"{kind}, kernels for x86-64-v3",
        "ours_seconds": times.ours,
        "peer_seconds": times.peer,
        "ratio": times.ratio,
        "spread": times.spread,
        "target": "≥ 0.97",
        "note": "beside kernels for this very processor",
    }


def _rounds(cache: str, target: dict[str, str]) -> dict[str, float]:
    return _output(ROUNDS, cache, target, *LEARNERS)


def _host_target() -> dict[str, str]:
    features = llvmlite.binding.get_host_cpu_features()
    return {
        "NUMBA_CPU_NAME": llvmlite.binding.get_host_cpu_name(),
        "NUMBA_CPU_FEATURES": ",".join(f"{'+' if available else '-'}{name}" for name, available in features.items()),
    }


def _output(code: str, cache: str, target: dict[str, str], *arguments: str) -> Any:
    environment = os.environ | target | {"NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", code, *arguments]
    return json.loads(subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout)
