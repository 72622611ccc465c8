"""Sets of labelled vectors (UCI): what classifiers learn from, and simulated advertisements are chosen by."""

import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.data.compression import READ_ERRORS
from rankloop.data.folder import data_path
from research.datasets.download import read_all

FILE_NAMES = {
    "letter": ("letter.csv.gz",),
    "optdigits": ("optdigits.tra.csv.gz", "optdigits.tes.csv.gz"),
    "pendigits": ("pendigits.tra.csv.gz", "pendigits.tes.csv.gz"),
    "isolet": ("isolet.npz",),
    "movement_libras": ("movement_libras.csv.gz",),
}


class LabelledSet(NamedTuple):
    """One row per example; labels count from 0 and index class_names."""

    features: Floats
    labels: Ints
    class_names: tuple[str, ...]


def read_labelled(name: str, folder: str | Path | None = None) -> LabelledSet:
    """One of letter, optdigits, pendigits, isolet, movement_libras, all its rows in the order of its files.

    `folder` holds the files; unless given it is `uci` in the data folder.
    """
    if name not in FILE_NAMES:
        raise InvalidInput(f"no labelled set {name!r}{nearest(name, FILE_NAMES)}")
    files = [(data_path("uci") if folder is None else Path(folder)) / file for file in FILE_NAMES[name]]
    return _isolet(files[0]) if name == "isolet" else read_csv(files, label_first=name == "letter")


def read_csv(paths: list[Path], label_first: bool = False) -> LabelledSet:
    """Lines of numbers with commas between, and a label as the last entry (or the first)."""
    rows: list[list[str]] = []
    for path in paths:
        lines = read_all(path).decode("utf-8", "replace").splitlines()
        for number, line in enumerate(lines, start=1):
            entries = [entry.strip() for entry in line.split(",")]
            if line.strip() and rows and len(entries) != len(rows[0]):
                raise InvalidInput(f"{path.name}, line {number}: {len(entries)} entries, the first has {len(rows[0])}")
            if line.strip():
                rows.append(entries)
    labels = [row.pop(0 if label_first else -1) for row in rows]
    return _labelled(finite_floats(rows, 2, f"the numbers in {paths[0].name}"), labels)


def _labelled(features: Floats, labels: list[str]) -> LabelledSet:
    names = sorted(set(labels), key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))
    numbers = {name: number for number, name in enumerate(names)}
    return LabelledSet(features, np.array([numbers[label] for label in labels], dtype=np.int64), tuple(names))


def _isolet(path: Path) -> LabelledSet:
    content = io.BytesIO(read_all(path))
    try:
        with np.load(content, allow_pickle=False) as arrays:
            features, labels = arrays["X_times_10000"] / 10_000.0, arrays["y"]
    except (*READ_ERRORS, zipfile.BadZipFile, KeyError, AttributeError, TypeError) as error:
        raise InvalidInput(f"isolet.npz is cut short or damaged: {error}") from None
    return _labelled(finite_floats(features, 2, "isolet"), [str(label) for label in labels.tolist()])
