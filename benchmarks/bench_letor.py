"""Reading LETOR text without the cache, beside scikit-learn's load_svmlight_file on the same file."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from rankloop.data import data_folder, read_letor

N_ITEMS, N_FEATURES, REPEATS, TARGET = 20_000, 136, 5, 10.0
REAL = "letor/mslr_sample/mslr_sample.txt.gz"


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.txt"
        made.write_bytes(_made_lines())
        rows = [_row("read_letor, made", made, TARGET, "six decimals, like MQ2007")]
        packed = Path(folder) / "made.txt.gz"
        packed.write_bytes(gzip.compress(made.read_bytes(), 6))
        rows.append(_row("read_letor, made, gzip", packed, None, "unpacking is most of it, for both"))
        found = data_folder()
        if found is not None and (found / REAL).exists():
            real = Path(folder) / "mslr.txt"
            real.write_bytes(gzip.decompress((found / REAL).read_bytes()))
            rows.append(_row("read_letor, MSLR-WEB sample", real, TARGET, "raw features"))
    return rows


def _row(name: str, path: Path, target: float | None, note: str) -> dict[str, Any]:
    """The best of several alternating measurements; both return what they read with its query ids."""
    ours, peer = [], []
    read_letor(path, cache=False)  # compiles
    for _ in range(REPEATS):
        ours.append(_seconds(lambda: read_letor(path, cache=False)))
        peer.append(_seconds(lambda: load_svmlight_file(str(path), query_id=True)))
    rate = f"{path.stat().st_size / min(ours) / 1e6:.0f} MB/s; {note}"
    return {
        "name": name,
        "ours_seconds": min(ours),
        "peer_seconds": min(peer),
        "ratio": min(peer) / min(ours),
        "target": target,
        "note": rate,
    }


def _seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _made_lines() -> bytes:
    rng = np.random.default_rng(0)
    values, grades = rng.random((N_ITEMS, N_FEATURES)), rng.integers(0, 5, N_ITEMS)
    pattern = " ".join(f"{index}:%.6f" for index in range(1, N_FEATURES + 1))
    lines = [f"{grades[i]} qid:{i // 100} {pattern % tuple(values[i].tolist())}\n" for i in range(N_ITEMS)]
    return "".join(lines).encode()
