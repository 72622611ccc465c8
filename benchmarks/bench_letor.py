"""Reading LETOR text without the cache, beside scikit-learn's load_svmlight_file on the same file."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.measurement import Row, in_turn, row
from rankloop.data import data_folder, read_letor

N_ITEMS, N_FEATURES, REPEATS, TARGET = 20_000, 136, 5, "≥ 10×"
REAL = "letor/mslr_sample/mslr_sample.txt.gz"


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.txt"
        made.write_bytes(_made_lines())
        rows = [_row("read_letor, synthetic", made, TARGET, "six decimals, like MQ2007")]
        packed = Path(folder) / "made.txt.gz"
        packed.write_bytes(gzip.compress(made.read_bytes(), 6))
        rows.append(_row("read_letor, synthetic, gzip", packed, "", "unpacking is most of it, for both"))
        data = data_folder()
        if data is not None and (data / REAL).exists():
            real = Path(folder) / "mslr.txt"
            real.write_bytes(gzip.decompress((data / REAL).read_bytes()))
            rows.append(_row("read_letor, MSLR-WEB sample", real, TARGET, "raw features"))
    return rows


def _row(name: str, path: Path, target: str, note: str) -> Row:
    """Both return what they read with its query ids; scikit-learn a sparse matrix, we a dense one."""
    ours, (theirs, grades, _) = read_letor(path), load_svmlight_file(str(path), query_id=True)
    if not np.array_equal(ours.features, theirs.toarray()) or not np.array_equal(ours.relevance, grades):
        raise AssertionError(f"{name}: the two sides do not read the same numbers")
    times = in_turn(lambda: read_letor(path), lambda: load_svmlight_file(str(path), query_id=True), REPEATS)
    rate = f"{path.stat().st_size / times.ours / 1e6:.0f} MB/s; {note}"
    return row(name, times, peer="scikit-learn", target=target, judged="the same numbers", note=rate)


def _made_lines() -> bytes:
    rng = np.random.default_rng(0)
    values, grades = rng.random((N_ITEMS, N_FEATURES)), rng.integers(0, 5, N_ITEMS)
    pattern = " ".join(f"{index}:%.6f" for index in range(1, N_FEATURES + 1))
    lines = [f"{grades[i]} qid:{i // 100} {pattern % tuple(values[i].tolist())}\n" for i in range(N_ITEMS)]
    return "".join(lines).encode()
