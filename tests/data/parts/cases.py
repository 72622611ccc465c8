"""Small data sets in parts, with what is in them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

N_FEATURES = 5
TRUE_WEIGHTS = np.array([1.0, -1.0, 0.0, 0.0, 0.5])


def lines_of(part: int, n_queries: int = 12, n_items: int = 10) -> list[str]:
    """LETOR lines whose grades follow from the features, with some noise; queries are `PART-NUMBER`."""
    rng = np.random.default_rng(part)
    lines = []
    for query in range(n_queries):
        for features in rng.normal(size=(n_items, N_FEATURES)):
            grade = int(np.clip(round(features @ TRUE_WEIGHTS + rng.normal()), 0, 2))
            pairs = " ".join(f"{number}:{value:.6g}" for number, value in enumerate(features, start=1))
            lines.append(f"{grade} qid:{part}-{query} {pairs}")
    return lines


def write_parts(folder: Path, n_parts: int = 4, **sizes: int) -> Path:
    """A folder of LETOR parts; the last is packed."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(n_parts):
        text = "\n".join(lines_of(part, **sizes)) + "\n"
        if part == n_parts - 1:
            (folder / f"part-{part}.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        else:
            (folder / f"part-{part}.txt").write_text(text)
    return folder
