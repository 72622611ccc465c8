"""LETOR files of any size, made from a seed, and what training on them takes: memory, seconds and bytes of a pass.

python -m benchmarks.big_letor --gb 5 --out FOLDER        writes parts, the same from the same seed
python -m benchmarks.big_letor --out FOLDER --measure local  trains on them, and prints what it took
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.data.parts.catalogue import HASH_END, PartOptions, StoredDataset, copy_of
from rankloop.engine import Cluster, Here, LocalProcesses, SummingEngine, Threads, kept
from rankloop.training.folds import catalogue_of, listing_of
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import SolverSettings, fit, objective_on

N_FEATURES, ITEMS = 136, 120  # as in MSLR
PART_BYTES = 100_000_000


def write_letor(folder: Path, n_bytes: int, seed: int = 0, part_bytes: int = PART_BYTES) -> list[Path]:
    """Parts of at most `part_bytes`, together about so many; part and seed decide the content."""
    folder.mkdir(parents=True, exist_ok=True)
    n_parts = max(1, -(-n_bytes // part_bytes))
    paths = [folder / f"part-{number:05d}.txt" for number in range(n_parts)]
    for number, path in enumerate(paths):
        if path.exists():
            continue
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            for text in queries(seed, number):
                file.write(text)
                if file.tell() >= n_bytes / n_parts:
                    break
        unfinished.rename(path)
    return paths


def queries(seed: int, part: int) -> Iterator[bytes]:
    """Queries without end: features of four digits, and grades from 0 to 4 that follow from a hidden weighting."""
    hidden = np.random.default_rng(seed).normal(size=N_FEATURES) / np.sqrt(N_FEATURES)
    rng = np.random.default_rng([seed, part])
    digits = np.array([f"{number / 10_000:.4f}" for number in range(10_000)])
    names = [f" {number}:" for number in range(1, N_FEATURES + 1)]
    number = 0
    while True:
        values = rng.integers(0, 10_000, size=(ITEMS, N_FEATURES))
        scores = (values / 10_000 - 0.5) @ hidden * 3.5 + 0.6 * rng.normal(size=ITEMS)
        grades = np.clip(np.floor(scores + 1.2), 0, 4).astype(int)
        cells = np.char.add(names, digits[values])
        rows = ["".join(row) for row in cells.tolist()]
        yield "".join(f"{grade} qid:{part}-{number}{row}\n" for grade, row in zip(grades.tolist(), rows)).encode()
        number += 1


def stored(folder: Path, engine: SummingEngine, n_parts: int | None = None) -> StoredDataset:
    """All parts, or the first ones."""
    catalogue = catalogue_of(listing_of(str(folder)).sources[:n_parts], PartOptions(), engine)
    return catalogue.within([(0, HASH_END)])


class Pass(NamedTuple):
    """Seconds of one evaluation of the loss and its slope, and of reading the same bytes and throwing them away."""

    warm: float  # from the page cache
    cold: float  # from the disk
    plain: float  # from the disk, without computing


def seconds_of_a_pass(data: StoredDataset, engine: SummingEngine, repeats: int = 3) -> Pass:
    """The best of several each, in turn, after one that starts the workers."""
    weights = np.full(data.n_features, 1e-3)
    with objective_on(data, risk_of("ordinal"), engine) as objective:
        objective(weights)
        turns = []
        for number in range(repeats):
            warm = _seconds(lambda: objective(weights))
            turns.append((warm, *cold_seconds(data, lambda: objective(weights), plain_first=number % 2 == 1)))
            objective(weights)
    return Pass(*(min(times) for times in zip(*turns)))


def cold_seconds(data: StoredDataset, action: Callable[[], object], plain_first: bool) -> tuple[float, float]:
    """Seconds of an action and of a plain read, both from the disk; whatever is behind the disk may help the second."""
    steps = [action, lambda: read_plainly(data)]
    seconds = []
    for step in reversed(steps) if plain_first else steps:
        forget(data)
        seconds.append(_seconds(step))
    return (seconds[1], seconds[0]) if plain_first else (seconds[0], seconds[1])


def seconds_of_warm_passes(address: str, engine: SummingEngine, repeats: int = 5) -> float:
    """The best of several, where perhaps only the workers see the data."""
    with kept(engine) as where:
        catalogue = catalogue_of(where.map([address], listing_of)[0].sources, PartOptions(), where)
        data = catalogue.within([(0, HASH_END)])
        weights = np.full(data.n_features, 1e-3)
        with objective_on(data, risk_of("ordinal"), where) as objective:
            objective(weights)
            return min(_seconds(lambda: objective(weights)) for _ in range(repeats))


def _seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def forget(data: StoredDataset) -> int:
    """Take the columns out of the page cache, so that the next pass of this process comes from the disk; their bytes.

    Pages that other processes have mapped stay.
    """
    copy_of.cache_clear()
    total = 0
    for path in _files(data):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        total += path.stat().st_size
    return total


def read_plainly(data: StoredDataset) -> None:
    """The same files from front to back, 8 MB at a time."""
    room = bytearray(8 << 20)
    for path in _files(data):
        with path.open("rb", buffering=0) as file:
            while file.readinto(room):
                pass


def _files(data: StoredDataset) -> list[Path]:
    sources = dict.fromkeys(part.source for part in data.between(0, data.n_queries).parts)
    options = data.between(0, data.n_queries).options
    return [copy_of(source, options).folder / "features.npy" for source in sources]


class Peak:
    """The largest resident memory of this process and of those that it started, while the block lasts, in MB."""

    def __enter__(self) -> Peak:
        self.driver, self.worker, self.running = 0.0, 0.0, True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.running = False
        self._thread.join()

    def _watch(self) -> None:
        while self.running:
            self.driver = max(self.driver, resident(os.getpid()))
            self.worker = max([self.worker, *map(resident, descendants(os.getpid()))])
            time.sleep(0.05)


def resident(pid: int) -> float:
    """What stands in memory and is not a mapped file or shared with others, in MB; 0 when the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def descendants(pid: int) -> list[int]:
    pids: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        pids += [each for child in children for each in (child, *descendants(child))]
    return pids


ENGINES: dict[str, SummingEngine] = {
    "here": Here(),
    "threads": Threads(workers=2),
    "local": LocalProcesses(workers=2),
    "cluster": Cluster(workers=2),
}


def measure(folder: Path, name: str, n_parts: int | None, regularisation: float, tolerance: float) -> dict[str, Any]:
    """Some passes and one training, on the engine of this name."""
    with Peak() as peak, kept(ENGINES[name]) as engine:
        begin = time.perf_counter()
        data = stored(folder, engine, n_parts)
        read = time.perf_counter() - begin
        n_bytes = forget(data)
        seconds = seconds_of_a_pass(data, engine)
        begin = time.perf_counter()
        settings = SolverSettings(tolerance=tolerance, engine=engine)
        solution = fit(data, risk_of("ordinal"), regularisation, settings=settings).solution
        trained = time.perf_counter() - begin
    return {
        "engine": name,
        "rows": int(data.offsets[-1]),
        "GB of columns": round(n_bytes / 1e9, 3),
        "seconds to read the parts": round(read, 2),
        "seconds of a pass": {key: round(value, 3) for key, value in seconds._asdict().items()},
        "share of the disk's speed": round(seconds.plain / seconds.cold, 2),
        "seconds of training": round(trained, 2),
        "evaluations": solution.evaluations,
        "gap": round(solution.gap, 6),
        "peak MB of the driver": round(peak.driver),
        "peak MB of a worker": round(peak.worker),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=0.0, help="how much to write")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure", choices=ENGINES, action="append", help="train with this engine")
    parser.add_argument("--passes", choices=ENGINES, help="print the seconds of a pass on this engine, and no more")
    parser.add_argument("--parts", type=int, help="on so many of the parts only")
    parser.add_argument("--regularisation", type=float, default=1e-3)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    options = parser.parse_args()
    if options.gb:
        paths = write_letor(options.out, int(options.gb * 1e9), options.seed)
        print(f"{sum(path.stat().st_size for path in paths) / 1e9:.2f} GB in {len(paths)} parts in {options.out}")
    if options.passes:
        print(f"seconds: {seconds_of_warm_passes(str(options.out), ENGINES[options.passes])}")
    for name in options.measure or ():
        result = measure(options.out, name, options.parts, options.regularisation, options.tolerance)
        print(json.dumps(result, indent=2), flush=True)


if __name__ == "__main__":
    main()
