"""The rows of a LETOR file, collected piece by piece into one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.data.dataset import Dataset
from rankloop.data.readers.letor.rows import Layout, Rows

GROWTH = 1.25


class Table:
    """Grows in place, so that a large file is in memory once."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._path, self._layout = path, layout
        self._zero_based = bool(layout.zero_based)
        self._features, self._grades = np.zeros((0, layout.n_features or 0)), np.empty(0)
        self._owners: list[Ints] = []
        self._n_rows, self._highest = 0, -1

    def append(self, rows: Rows, owner: Ints) -> None:
        """Copy a piece: its memory is used again."""
        self._fit_columns(rows)
        first, self._n_rows = self._n_rows, self._n_rows + len(rows.grades)
        if self._n_rows > len(self._grades):
            self._resize(int(GROWTH * self._n_rows))
        self._grades[first : self._n_rows] = rows.grades
        used = columns_of(rows, self._zero_based, self._features.shape[1])
        self._features[first : self._n_rows, : used.shape[1]] = used
        self._features[first : self._n_rows, used.shape[1] :] = 0.0
        self._owners.append(owner)

    def dataset(self, names: tuple[str, ...]) -> Dataset:
        """All rows, those of one query together, queries by number."""
        self._resize(self._n_rows)
        owner = np.concatenate(self._owners) if self._owners else np.empty(0, np.int64)
        offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(names))))).astype(np.int64)
        if bool((np.diff(owner) >= 0).all()):
            return Dataset(self._features, self._grades, offsets, names)
        order = np.argsort(owner, kind="stable")
        return Dataset(self._features[order], self._grades[order], offsets, names)

    def _resize(self, n_rows: int) -> None:
        try:
            self._features.resize((n_rows, self._features.shape[1]), refcheck=False)
        except MemoryError:
            raise InvalidInput(f"{self._path.name} does not fit into memory: read it with stream_letor") from None
        self._grades.resize(n_rows, refcheck=False)

    def _fit_columns(self, rows: Rows) -> None:
        """A 0 among the indices means that they count from 0; a larger index than before means more features."""
        shift = 1 if rows.lowest == 0 and not self._zero_based else 0
        self._zero_based = self._zero_based or shift == 1
        self._highest = max(self._highest, rows.highest)  # of all pieces: a shift moves the columns of earlier ones too
        known, needed = self._layout.n_features, self._highest + (1 if self._zero_based else 0)
        if known is not None and needed > known:
            raise InvalidInput(f"{self._path.name} has {needed} features, counted from 0; n_features says {known}")
        width = known or max(needed, self._features.shape[1] + shift)
        if shift or width > self._features.shape[1]:
            wider = np.zeros((len(self._features), width))
            kept = self._features[: self._n_rows, : width - shift]
            wider[: self._n_rows, shift : shift + kept.shape[1]] = kept
            self._features = wider


def columns_of(rows: Rows, zero_based: bool, n_features: int) -> Floats:
    """The columns of a piece that are features; missing ones at the end are missing here too."""
    return rows.features[:, 0 if zero_based else 1 :][:, :n_features]
