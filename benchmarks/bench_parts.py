"""Passes over data that stay on disks: one process, local processes, and three hosts with a Ray cluster."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.big_letor import cold_seconds, seconds_of_warm_passes, stored, write_letor
from benchmarks.measurement import Row, alone, in_turn, row, timed
from rankloop.data.parts.catalogue import StoredDataset
from rankloop.engine import Here, LocalProcesses, SummingEngine, kept
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import objective_on
from tests.engine.machines import PARTS, three_machines
from tests.hosts import why_no_hosts

TEXT_BYTES, PART_BYTES, REPEATS = 200_000_000, 20_000_000, 9
SCRIPT = Path(__file__).parent / "big_letor.py"


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        parts = Path(folder) / "parts"
        os.environ["RANKLOOP_CACHE"] = str(Path(folder) / "cache")
        write_letor(parts, TEXT_BYTES, part_bytes=PART_BYTES)
        local = LocalProcesses(workers=2)
        rows = [_in_memory(stored(parts, Here()))]
        rows += [_from_disk(parts, "one process", Here())]  # pages that workers have mapped cannot be dropped
        rows += [_from_cache("one process", seconds_of_warm_passes(str(parts), Here()))]
        rows += [_from_cache("2 local processes", seconds_of_warm_passes(str(parts), local))]
        return [*rows, *_three_hosts(parts, Path(folder))]


def _in_memory(data: StoredDataset) -> Row:
    """Beside the two products that no pass can do without, by BLAS on one thread."""
    dataset, weights = data.load(), np.full(data.n_features, 1e-3)

    def products() -> None:
        (dataset.features @ weights) @ dataset.features

    with objective_on(dataset, risk_of("ordinal"), Here()) as objective:
        times = in_turn(lambda: objective(weights), products, REPEATS)
    note = "peer: numpy's products with the weights and with the slopes, without a loss"
    return row(f"a pass, {_size(data)}: one process, in memory", times, note=note)


def _from_disk(parts: Path, name: str, engine: SummingEngine) -> Row:
    with kept(engine) as where:
        data = stored(parts, where)
        weights = np.full(data.n_features, 1e-3)
        with objective_on(data, risk_of("ordinal"), where) as objective:
            objective(weights)
            times = [cold_seconds(data, lambda: objective(weights), turn % 2 == 1) for turn in range(REPEATS)]
    note = "peer: the same files read from the disk and thrown away"
    return row(f"a pass, {_size(data)}: {name}, from the disk", timed(times), target="≥ 0.6×", note=note)


def _from_cache(name: str, seconds: float) -> Row:
    return alone(f"a pass, {TEXT_BYTES // 10**6} MB of text in the page cache: {name}", seconds)


def _three_hosts(parts: Path, folder: Path) -> list[Row]:
    """The command beside the head, two workers with a core each on hosts of their own, which alone see the parts."""
    why = why_no_hosts()
    if why is not None:
        print(f"no row for three hosts: {why}")
        return []
    (folder / "machines").mkdir()
    with three_machines(folder / "machines", parts) as machines:
        command = machines.command(SCRIPT, "--out", PARTS, "--passes", "cluster")
        printed = command.communicate(timeout=300)[0]
    match = re.search(r"seconds: ([0-9.e-]+)", printed)
    if match is None:
        raise AssertionError(printed)
    return [_from_cache("three hosts, 2 workers (Ray)", float(match[1]))]


def _size(data: StoredDataset) -> str:
    return f"{int(data.offsets[-1]) * data.n_features * 8 / 1e6:.0f} MB of columns"
