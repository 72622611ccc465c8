"""The constants of a pass, for docs/cluster.md: python -m benchmarks.pass_costs

What a core works through and parses, and what a pass costs that computes next to nothing: on each engine, for each
worker and for each partition. Processor time where one process does it, the best of several otherwise.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.big_letor import N_FEATURES, stored, write_letor
from benchmarks.measurement import best_of
from rankloop.core.types import Floats
from rankloop.engine import Cluster, Here, LocalProcesses, SummingEngine
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import objective_on

TEXT_BYTES, MANY_WORKERS, MANY_PARTITIONS, REPEATS = 100_000_000, 9, 2000, 15


def slope(partition: int, argument: Floats) -> Floats:
    """As large as the answer of a real partition, and computed in no time."""
    return argument + partition


def seconds_of_nothing(engine: SummingEngine, n_partitions: int) -> float:
    """A pass over so many partitions of nothing."""
    argument = np.zeros(N_FEATURES + 1)
    with engine.sum_over(range(n_partitions), slope) as total:
        return best_of(lambda: total(argument), REPEATS)


def processor_seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    value = action()
    return time.process_time() - begin, value


def measure() -> dict[str, float]:
    """By the names that the page has for them; in seconds, bytes per second for s and r."""
    costs: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RANKLOOP_CACHE"] = str(Path(folder) / "cache")
        write_letor(Path(folder) / "first", TEXT_BYTES // 40)
        stored(Path(folder) / "first", Here())  # compiles
        paths = write_letor(Path(folder) / "parts", TEXT_BYTES)
        seconds, data = processor_seconds(lambda: stored(Path(folder) / "parts", Here()))
        costs["r"] = sum(path.stat().st_size for path in paths) / seconds
        weights = np.full(N_FEATURES, 1e-3)
        with objective_on(data, risk_of("ordinal"), Here()) as objective:  # from the page cache
            objective(weights)
            n_bytes = 8 * int(data.offsets[-1]) * N_FEATURES
            costs["s"] = n_bytes / min(processor_seconds(lambda: objective(weights))[0] for _ in range(9))
    for name, engine in (("here", Here), ("local", LocalProcesses), ("cluster", Cluster)):
        started = engine() if engine is Here else engine(workers=1)
        costs[f"a, {name}"] = few = seconds_of_nothing(started, 1)
        costs[f"p, {name}"] = (seconds_of_nothing(started, MANY_PARTITIONS) - few) / (MANY_PARTITIONS - 1)
        if engine is not Here:
            many = seconds_of_nothing(engine(workers=MANY_WORKERS), MANY_WORKERS)
            costs[f"w, {name}"] = (many - few) / (MANY_WORKERS - 1)
    return costs


def main() -> None:
    for name, value in measure().items():
        said = f"{value / 1e9:.3g} GB/s" if name in ("r", "s") else f"{value * 1e6:,.0f} µs"
        print(f"{name:<12} {said}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
