"""The rows of a LETOR file: parsed piece by piece, and collected into one table."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.data.compression import BLOCK_BYTES, Block, line_blocks
from rankloop.data.dataset import Dataset
from rankloop.data.readers.letor import parser

FIRST_WIDTH = 64
SCRATCH_BYTES = 1 << 20  # stays in the processor's cache
HARD_ROOM = 1 << 12
MAX_QUOTE_LENGTH = 40
GROWTH = 1.25  # of a table
MISSING = re.compile(rb"1\.79769313486232e\+?308|1\.7976931348623157E308")  # the largest double, as Istella writes it


class Layout(NamedTuple):
    """What is known of a file beforehand."""

    n_features: int | None = None
    zero_based: bool | None = None
    max_features: int = 10_000

    @property
    def first_index(self) -> int:
        """The lowest index that may occur."""
        return 1 if self.zero_based is False else 0

    @property
    def end_index(self) -> int:
        """Above the highest index that may occur."""
        return (self.n_features or self.max_features) + (0 if self.zero_based else 1)


class Scratch(NamedTuple):
    """Memory that every piece of a file is parsed into."""

    features: Floats
    grades: Floats
    queries: Ints
    hard: Ints
    rows_seen: Ints

    @classmethod
    def of_width(cls, width: int) -> "Scratch":
        n_rows = max(1, SCRATCH_BYTES // (8 * width))
        hard = np.empty((HARD_ROOM + width + 1, 4), np.int64)
        queries, rows_seen = np.empty((n_rows, 4), np.int64), np.empty(width, np.int64)
        return cls(np.empty((n_rows, width)), np.empty(n_rows), queries, hard, rows_seen)


class Rows(NamedTuple):
    """A piece of a file: column = feature index as printed there. Valid until the next piece is asked for."""

    features: Floats
    grades: Floats
    kinds: Ints  # where each row names its query
    lines: Ints  # counted from 1
    run_starts: Ints  # the rows at which another query's name begins
    run_names: list[str]
    lowest: int
    highest: int


def pieces(path: Path, layout: Layout, block_bytes: int = BLOCK_BYTES) -> Iterator[Rows]:
    """The rows of a file, piece by piece; a broken line is refused by its number."""
    scratch, n_lines = Scratch.of_width(min(FIRST_WIDTH, layout.end_index)), 0
    for block in line_blocks(path, block_bytes):
        position = block.start
        while position < block.stop:
            rows, found = _parse(block, position, scratch, layout, n_lines, path)
            if found.problem == parser.TOO_LARGE and found.highest < layout.end_index:
                width = max(2 * scratch.features.shape[1], found.highest + 1)
                scratch = Scratch.of_width(min(layout.end_index, width))
            elif found.problem != parser.FINE:
                raise InvalidInput(_complaint(block, found, layout, f"{path.name}, line {n_lines + found.n_lines + 1}"))
            position, n_lines = found.position, n_lines + found.n_lines
            if found.n_rows:
                yield rows


def _parse(
    block: Block, position: int, scratch: Scratch, layout: Layout, n_lines: int, path: Path
) -> tuple[Rows, parser.Found]:
    scratch.rows_seen.fill(-1)
    found = parser.Found(*parser.parse_lines(block.buffer, position, block.stop, layout.first_index, *scratch))
    n_rows = found.n_rows
    features, grades, queries = scratch.features[:n_rows], scratch.grades[:n_rows], scratch.queries[:n_rows]
    lines = queries[:, parser.LINE] + (n_lines + 1)
    for row, column, start, end in scratch.hard[: found.n_hard].tolist():
        text = block.raw[start:end]
        value = 0.0 if column >= 0 and MISSING.fullmatch(text) else float(text)
        if not np.isfinite(value):
            line = n_lines + found.n_lines + 1 if row == n_rows else lines[row]
            raise InvalidInput(f"{path.name}, line {line}: {_quote(block, start)} is too large for a number")
        if row < n_rows:
            (grades if column < 0 else features[:, column])[row] = value
    starts = parser.name_runs(block.buffer, queries)
    names = [_name(block, *span) for span in queries[starts, parser.NAME_START : parser.NAME_END + 1].tolist()]
    return Rows(features, grades, queries[:, parser.KIND], lines, starts, names, found.lowest, found.highest), found


def _name(block: Block, start: int, end: int) -> str:
    return block.raw[start:end].decode("utf-8", "backslashreplace")


def _quote(block: Block, start: int) -> str:
    """The token that begins here, as far as it fits a message."""
    text = block.raw[start : min(block.stop, start + 4 * MAX_QUOTE_LENGTH)].decode("utf-8", "replace")
    token = (text.split() or [""])[0]
    return repr(token if len(token) <= MAX_QUOTE_LENGTH else token[:MAX_QUOTE_LENGTH] + "…")


def _complaint(block: Block, found: parser.Found, layout: Layout, position: str) -> str:
    token = _quote(block, found.token)
    limit = layout.end_index - 1
    reasons = {
        parser.BAD_GRADE: f"{token} is no grade; a line begins with a finite number, as in '2 qid:7 1:0.5 2:3'",
        parser.BAD_QUERY: f"{token} lacks the query's name, as in 'qid:7'",
        parser.BAD_PAIR: f"{token} is no feature; 'index:value' was expected, as in '3:0.5' "
        "(index a whole number from 0)",
        parser.BAD_VALUE: f"{token} does not have a finite number behind the colon, as in '3:0.5'",
        parser.TWICE: f"the index of {token} occurs twice in this line",
        parser.TOO_SMALL: f"{token} has the index 0 in a file whose indices begin with 1 (zero_based = False)",
        parser.TOO_LARGE: f"the index of {token} is above {limit}; "
        + ("n_features says so" if layout.n_features else "raise max_features if the file really has so many"),
    }
    return f"{position}: {reasons[found.problem]}"


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
            used = self._features[: self._n_rows, : width - shift]
            wider[: self._n_rows, shift : shift + used.shape[1]] = used
            self._features = wider


def columns_of(rows: Rows, zero_based: bool, n_features: int) -> Floats:
    """The columns of a piece that are features; missing ones at the end are missing here too."""
    return rows.features[:, 0 if zero_based else 1 :][:, :n_features]
