"""Small files in exactly the formats of the large public sets."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import numpy as np

HUGE = "1.79769313486232e+308"


def mslr_lines(queries: range, seed: int = 0, n_items: int = 6) -> str:
    """All 136 features in every line, grades 0 to 4; some are whole numbers, one is in the hundred millions."""
    rng, lines = np.random.default_rng(seed), []
    for query in queries:
        for _ in range(n_items):
            numbers = np.round(rng.gamma(1.0, 10.0, 136), 6)
            numbers[:40] = np.round(numbers[:40])
            numbers[100] = 123456789.0
            grade = min(4, int(numbers[50] // 4))
            pairs = " ".join(f"{i}:{number:.9g}" for i, number in enumerate(numbers, start=1))
            lines.append(f"{grade} qid:{query} {pairs} ")  # a blank ends each line there
    return "\n".join(lines) + "\n"


def yahoo_lines(queries: range, seed: int = 0) -> str:
    """700 features, of which a line has about a third; most are absent from a whole set."""
    rng, lines = np.random.default_rng(seed), []
    for query in queries:
        for _ in range(5):
            present = np.flatnonzero(rng.random(519) < 0.4)
            values = np.round(rng.random(len(present)), 5)
            grade = int(rng.integers(0, 5))
            pairs = " ".join(f"{1 + (700 * i) // 519}:{value:g}" for i, value in zip(present, values))
            lines.append(f"{grade} qid:{query} {pairs}")
    return "\n".join(lines) + "\n"


def istella_lines(queries: range, seed: int = 0) -> str:
    """220 features, the largest double where a value is missing."""
    rng, lines = np.random.default_rng(seed), []
    for query in queries:
        for _ in range(5):
            texts = [HUGE if rng.random() < 0.05 else f"{value:.4g}" for value in rng.random(220)]
            pairs = " ".join(f"{i}:{text}" for i, text in enumerate(texts, start=1))
            lines.append(f"{int(rng.integers(0, 5))} qid:{query} {pairs}")
    return "\n".join(lines) + "\n"


def write_mslr(folder: Path, n_folds: int = 3) -> Path:
    """Fold1 … as Microsoft ships them: train.txt, vali.txt and test.txt in each."""
    for fold in range(1, n_folds + 1):
        (folder / f"Fold{fold}").mkdir(parents=True)
        for first, part in ((0, "train"), (8, "vali"), (12, "test")):
            size = 8 if part == "train" else 4
            (folder / f"Fold{fold}" / f"{part}.txt").write_text(mslr_lines(range(first, first + size), fold))
    return folder


def write_yahoo(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for set in (1, 2):
        for first, part in ((1, "train"), (30, "valid"), (50, "test")):
            lines = yahoo_lines(range(first, first + 6), 10 * set + first)
            (folder / f"set{set}.{part}.txt").write_text(lines)
    return folder


def write_istella(folder: Path, validation: bool = True) -> Path:
    (folder / "sample").mkdir(parents=True)
    for first, part in ((1, "train"), (30, "vali"), (50, "test")):
        if validation or part != "vali":
            (folder / "sample" / f"{part}.txt").write_text(istella_lines(range(first, first + 10), first))
    return folder


def zipped(folder: Path, to: Path, root: str = "") -> Path:
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*.txt")):
            archive.write(file, root + file.relative_to(folder).as_posix())
        archive.writestr("README.html", "not a part of it")
    return to


def tarred(folder: Path, to: Path) -> Path:
    with tarfile.open(to, "w:gz") as archive:
        archive.add(folder, folder.name)
    return to
