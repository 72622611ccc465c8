"""Lines of `grade qid:id index:value …` in a byte buffer, turned into arrays at a few hundred megabytes a second.

The query of a line is named behind `qid:`, or as the number in its comment.
"""

from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.data.compression import Bytes
from rankloop.data.readers.letor.tokens import (
    COLON,
    COMMENT,
    NEWLINE,
    NINE,
    ZERO,
    ends_token,
    line_end,
    parse_index,
    parse_number,
    skip_spaces,
)

NO_INDEX = 2**41
LETTER_Q, LETTER_I, LETTER_D = 113, 105, 100

# What may be wrong with a line.
FINE, BAD_GRADE, BAD_QUERY, BAD_PAIR, BAD_VALUE, TWICE, TOO_SMALL, TOO_LARGE = range(8)
# What is noted of a number that needs exact reading.
ROW, COLUMN, NUMBER_START, NUMBER_END = range(4)
# Where a line names its query.
NOWHERE, IN_QID, IN_COMMENT = range(3)
# What is noted of the name.
KIND, NAME_START, NAME_END, LINE = range(4)


class Found(NamedTuple):
    """What one call of `parse_lines` came across."""

    position: int  # the first byte that was not read
    n_rows: int
    n_lines: int  # complete lines, blank ones and comments included
    n_hard: int
    lowest: int  # feature indices
    highest: int
    problem: int
    token: int  # where the offending token begins


@kernel
def parse_lines(
    buffer: Bytes,
    position: int,
    stop: int,
    least: int,
    features: Floats,
    grades: Floats,
    queries: Ints,
    hard: Ints,
    rows_seen: Ints,
) -> Found:
    """Read whole lines into rows until the buffer, the rows or the room for hard numbers runs out.

    Indices below `least` are refused. features has shape (rows, width); the column is the feature's index. queries
    (rows, 4) receives the kind, start, end and line of the query's name; hard (…, 4) the row, column (−1: the grade),
    start and end of numbers that need exact reading; rows_seen (width) is scratch filled with −1.
    """
    n_rows, n_lines, n_hard, lowest, highest = 0, 0, 0, NO_INDEX, -1
    room = min(len(grades), len(features), len(queries))
    while position < stop and n_rows < room and n_hard + features.shape[1] + 1 <= len(hard):
        i = skip_spaces(buffer, position, stop)
        if not (i >= stop or buffer[i] == NEWLINE or buffer[i] == COMMENT):
            token = i
            grades[n_rows], i, is_number, is_hard = parse_number(buffer, i, stop)
            if not is_number or not ends_token(buffer, i, stop):
                return Found(position, n_rows, n_lines, n_hard, lowest, highest, BAD_GRADE, token)
            if is_hard:
                n_hard = _note_hard(hard, n_hard, n_rows, -1, token, i)
            i = token = skip_spaces(buffer, i, stop)
            i, is_fine = note_query(buffer, i, stop, n_rows, queries)
            if not is_fine:
                return Found(position, n_rows, n_lines, n_hard, lowest, highest, BAD_QUERY, token)
            i, n_hard, low, high, problem = _parse_pairs(
                buffer, i, stop, n_rows, least, features, hard, n_hard, rows_seen
            )
            lowest, highest = min(lowest, low), max(highest, high)
            if problem != FINE:
                return Found(position, n_rows, n_lines, n_hard, lowest, highest, problem, i)
            i = note_comment(buffer, i, stop, n_rows, queries)
            queries[n_rows, LINE] = n_lines
            n_rows += 1
        n_lines += 1
        position = line_end(buffer, i, stop) + 1
    return Found(min(position, stop), n_rows, n_lines, n_hard, lowest, highest, FINE, 0)


@kernel
def _parse_pairs(
    buffer: Bytes, i: int, stop: int, row: int, least: int, features: Floats, hard: Ints, n_hard: int, rows_seen: Ints
) -> tuple[int, int, int, int, int]:
    """(position, n_hard, lowest index, highest index, problem) after the `index:value` pairs at i."""
    lowest, highest = NO_INDEX, -1
    features[row] = 0.0
    while True:
        i = skip_spaces(buffer, i, stop)
        if ends_token(buffer, i, stop):
            return i, n_hard, lowest, highest, FINE
        index, colon = parse_index(buffer, i, stop)
        if colon < 0:
            return i, n_hard, lowest, highest, BAD_PAIR
        value, end, is_number, is_hard = parse_number(buffer, colon + 1, stop)
        if not is_number or not ends_token(buffer, end, stop):
            return i, n_hard, lowest, highest, BAD_VALUE
        if index < least:
            return i, n_hard, lowest, highest, TOO_SMALL
        if index >= features.shape[1]:
            return i, n_hard, lowest, index, TOO_LARGE
        if rows_seen[index] == row:
            return i, n_hard, lowest, highest, TWICE
        rows_seen[index] = row
        lowest, highest = min(lowest, index), max(highest, index)
        features[row, index] = value
        if is_hard:
            n_hard = _note_hard(hard, n_hard, row, index, colon + 1, end)
        i = end


@kernel
def _note_hard(hard: Ints, n_hard: int, row: int, column: int, start: int, end: int) -> int:
    hard[n_hard, ROW], hard[n_hard, COLUMN] = row, column
    hard[n_hard, NUMBER_START], hard[n_hard, NUMBER_END] = start, end
    return n_hard + 1


@kernel
def _names_query(buffer: Bytes, i: int, stop: int) -> bool:
    return (
        i + 4 <= stop
        and buffer[i] == LETTER_Q
        and buffer[i + 1] == LETTER_I
        and buffer[i + 2] == LETTER_D
        and buffer[i + 3] == COLON
    )


@kernel
def _lone_number(buffer: Bytes, i: int, stop: int) -> tuple[int, int]:
    """Start and end of the comment at i, when it is one whole number and nothing else; else start = end."""
    start = skip_spaces(buffer, i + 1, stop)
    end = start
    while end < stop and ZERO <= buffer[end] <= NINE:
        end += 1
    rest = skip_spaces(buffer, end, stop)
    if rest < stop and buffer[rest] != NEWLINE:
        return start, start
    return start, end


@kernel
def note_query(buffer: Bytes, i: int, stop: int, row: int, queries: Ints) -> tuple[int, bool]:
    """(position, is fine) after the optional `qid:name` at i: a `qid:` without a name is not."""
    queries[row, KIND], queries[row, NAME_START], queries[row, NAME_END] = NOWHERE, 0, 0
    if not _names_query(buffer, i, stop):
        return i, True
    start = i + 4
    i = start
    while not ends_token(buffer, i, stop):
        i += 1
    queries[row, KIND], queries[row, NAME_START], queries[row, NAME_END] = IN_QID, start, i
    return i, i > start


@kernel
def note_comment(buffer: Bytes, i: int, stop: int, row: int, queries: Ints) -> int:
    """The end of the line; a comment that is just a number names the query of a line without qid."""
    if i < stop and buffer[i] == COMMENT and queries[row, KIND] == NOWHERE:
        start, end = _lone_number(buffer, i, stop)
        if start < end:
            queries[row, KIND], queries[row, NAME_START], queries[row, NAME_END] = IN_COMMENT, start, end
    return line_end(buffer, i, stop)


@kernel
def name_runs(buffer: Bytes, queries: Ints) -> Ints:
    """The rows whose query's name differs from that of the row before."""
    n_rows, n_runs = len(queries), 0
    starts = np.empty(n_rows, np.int64)
    for row in range(n_rows):
        if row == 0 or not _same_name(buffer, queries, row - 1, row):
            starts[n_runs] = row
            n_runs += 1
    return starts[:n_runs].copy()


@kernel
def _same_name(buffer: Bytes, queries: Ints, a: int, b: int) -> bool:
    length = queries[a, NAME_END] - queries[a, NAME_START]
    if queries[a, KIND] != queries[b, KIND] or length != queries[b, NAME_END] - queries[b, NAME_START]:
        return False
    for i in range(length):
        if buffer[queries[a, NAME_START] + i] != buffer[queries[b, NAME_START] + i]:
            return False
    return True
