"""Where a line of a LETOR file names its query: behind `qid:`, or as the number in its comment."""

from __future__ import annotations

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Ints
from rankloop.data.readers.letor.numbers import NINE, ZERO, Bytes
from rankloop.data.readers.letor.tokens import COLON, COMMENT, NEWLINE, ends_token, line_end, skip_spaces

LETTER_Q, LETTER_I, LETTER_D = 113, 105, 100

# Where a line names its query.
NOWHERE, IN_QID, IN_COMMENT = range(3)
# What is noted of the name.
KIND, NAME_START, NAME_END, LINE = range(4)


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
