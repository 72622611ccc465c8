"""Parsed pieces of a LETOR file: rows of features and grades, with the names of their queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.data.compressed import BLOCK_BYTES, Block, line_blocks
from rankloop.data.readers.letor import parser
from rankloop.data.readers.letor.names import KIND, LINE, NAME_END, NAME_START, name_runs

FIRST_WIDTH = 64
SCRATCH_BYTES = 1 << 20  # stays in the processor's cache
HARD_ROOM = 1 << 12
MAX_QUOTE_LENGTH = 40


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
    def of_width(cls, width: int) -> Scratch:
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
    lines = queries[:, LINE] + (n_lines + 1)
    for row, column, start, end in scratch.hard[: found.n_hard].tolist():
        value = float(block.raw[start:end])
        if not np.isfinite(value):
            line = n_lines + found.n_lines + 1 if row == n_rows else lines[row]
            raise InvalidInput(f"{path.name}, line {line}: {_quote(block, start)} is too large for a number")
        if row < n_rows:
            (grades if column < 0 else features[:, column])[row] = value
    starts = name_runs(block.buffer, queries)
    names = [_name(block, *span) for span in queries[starts, NAME_START : NAME_END + 1].tolist()]
    return Rows(features, grades, queries[:, KIND], lines, starts, names, found.lowest, found.highest), found


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
