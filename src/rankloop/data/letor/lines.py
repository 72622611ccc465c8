"""The parser of lines of `grade qid:id index:value …` in a byte buffer: a few hundred megabytes a second.

The query of a line is named after `qid:`, or by the number in its comment. Numbers are read exactly as by float().
"""

from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.data.compression import Bytes

NEWLINE, TAB, RETURN, SPACE, COMMENT, COLON = 10, 9, 13, 32, 35, 58
MAX_INDEX = 2**40  # larger ones are cut to it, and then refused
PLUS, MINUS, POINT, ZERO, NINE, BIG_E, SMALL_E = 43, 45, 46, 48, 57, 69, 101
EXACT_POWERS = np.array([float(10**power) for power in range(23)])  # doubles without error: one operation rounds once
EXACT_MANTISSA = 2**53
MAX_DIGITS = 18  # more might not fit 64 bits
MAX_EXPONENT = 10**6  # larger ones are cut to it
NO_INDEX = 2**41
LETTER_Q, LETTER_I, LETTER_D = 113, 105, 100

# Problems of a line.
FINE, BAD_GRADE, BAD_QUERY, BAD_PAIR, BAD_VALUE, TWICE, TOO_SMALL, TOO_LARGE = range(8)
# Places where a line names its query.
NOWHERE, IN_QID, IN_COMMENT = range(3)
# Columns of a query's name.
KIND, NAME_START, NAME_END, LINE = range(4)


class LineScratch(NamedTuple):
    """The memory into which every piece of a file is parsed."""

    features: Floats  # (rows, width); the column is the feature's index
    grades: Floats
    queries: Ints  # (rows, 4): kind, start, end and line of the query's name
    hard: Ints  # (…, 4): row, column (−1: the grade), start and end of numbers that need exact reading
    last_row: Ints  # (width,): the row in which each index occurred last


class ParsedLines(NamedTuple):
    """The outcome of one call of `parse_lines`."""

    position: int  # the first byte that was not read
    n_rows: int
    n_lines: int  # complete lines, blank ones and comments included
    n_hard: int
    lowest: int  # feature indices
    highest: int
    problem: int
    token: int  # where the offending token begins


@kernel
def _is_space(byte: int) -> bool:
    """Return true for a space, a tab or a carriage return."""
    return byte in (SPACE, TAB, RETURN)


@kernel
def _ends_token(buffer: Bytes, i: int, stop: int) -> bool:
    """Return true if no token continues at byte i."""
    return i >= stop or _is_space(buffer[i]) or buffer[i] == NEWLINE or buffer[i] == COMMENT


@kernel
def _skip_spaces(buffer: Bytes, i: int, stop: int) -> int:
    """Return the first byte from i on that is no space."""
    while i < stop and _is_space(buffer[i]):
        i += 1
    return i


@kernel
def _line_end(buffer: Bytes, i: int, stop: int) -> int:
    """Return the position of the next line feed, or `stop`."""
    while i < stop and buffer[i] != NEWLINE:
        i += 1
    return i


@kernel
def _parse_index(buffer: Bytes, i: int, stop: int) -> tuple[int, int]:
    """Return the index and the position of its colon, −1 if there is none."""
    first, index = i, 0
    while i < stop and ZERO <= buffer[i] <= NINE:
        index = min(index * 10 + (np.int64(buffer[i]) - ZERO), MAX_INDEX)  # type: ignore[assignment]
        i += 1
    return index, i if i > first and i < stop and buffer[i] == COLON else -1


@kernel
def _parse_number(buffer: Bytes, i: int, stop: int) -> tuple[float, int, bool, bool]:
    """Read the decimal number at i; return its value, its end, if it is one, and if float() must read it."""
    # A mantissa below 2^53 times or divided by a power of ten up to 10^22 is rounded once, so the result is the nearest
    # double. Other numbers are left to float().
    negative, i = _sign(buffer, i, stop)
    mantissa, n_digits, point = 0, 0, -1
    while i < stop:
        digit = np.int64(buffer[i]) - ZERO
        if 0 <= digit <= 9:
            if n_digits < MAX_DIGITS:
                mantissa = mantissa * 10 + digit  # type: ignore[assignment]
            n_digits += 1
        elif digit == POINT - ZERO and point < 0:
            point = i
        else:
            break
        i += 1
    exponent = point + 1 - i if point >= 0 else 0
    if n_digits == 0:
        return 0.0, i, False, False
    if i < stop and (buffer[i] == BIG_E or buffer[i] == SMALL_E):
        is_below_one, first = _sign(buffer, i + 1, stop)
        power, i = 0, first
        while i < stop and ZERO <= buffer[i] <= NINE:
            power = min(power * 10 + (np.int64(buffer[i]) - ZERO), MAX_EXPONENT)  # type: ignore[assignment]
            i += 1
        exponent += -power if is_below_one else power
        if i == first:
            return 0.0, i, False, False
    if n_digits > MAX_DIGITS or mantissa > EXACT_MANTISSA or exponent < -22 or exponent > 22:
        return 0.0, i, True, True
    value = mantissa / EXACT_POWERS[-exponent] if exponent < 0 else mantissa * EXACT_POWERS[exponent]
    return -value if negative else value, i, True, False


@kernel
def _sign(buffer: Bytes, i: int, stop: int) -> tuple[bool, int]:
    """Return true if there is a minus, and the position after the sign."""
    if i < stop and (buffer[i] == MINUS or buffer[i] == PLUS):
        return buffer[i] == MINUS, i + 1
    return False, i


@kernel
def parse_lines(buffer: Bytes, position: int, stop: int, least: int, scratch: LineScratch) -> ParsedLines:
    """Read lines into rows until the buffer ends, or the rows or the list of hard numbers are full.

    Args:
      buffer: The bytes, complete lines.
      position: The first byte.
      stop: The end of the buffer.
      least: The lowest index that is allowed.
      scratch: The memory for the rows; its `last_row` must be filled with −1.
    """
    features, grades, queries, hard, _ = scratch
    n_rows, n_lines, n_hard, lowest, highest = 0, 0, 0, NO_INDEX, -1
    room = min(len(grades), len(features), len(queries))
    while position < stop and n_rows < room and n_hard + features.shape[1] + 1 <= len(hard):
        i = _skip_spaces(buffer, position, stop)
        if not (i >= stop or buffer[i] == NEWLINE or buffer[i] == COMMENT):
            token = i
            grades[n_rows], i, is_number, is_hard = _parse_number(buffer, i, stop)
            if not is_number or not _ends_token(buffer, i, stop):
                return ParsedLines(position, n_rows, n_lines, n_hard, lowest, highest, BAD_GRADE, token)
            if is_hard:
                n_hard = _note_hard(hard, n_hard, n_rows, -1, token, i)
            i = token = _skip_spaces(buffer, i, stop)
            i, is_fine = _note_query(buffer, i, stop, n_rows, queries)
            if not is_fine:
                return ParsedLines(position, n_rows, n_lines, n_hard, lowest, highest, BAD_QUERY, token)
            i, n_hard, low, high, problem = _parse_pairs(buffer, i, stop, least, scratch, n_rows, n_hard)
            lowest, highest = min(lowest, low), max(highest, high)
            if problem != FINE:
                return ParsedLines(position, n_rows, n_lines, n_hard, lowest, highest, problem, i)
            i = _note_comment(buffer, i, stop, n_rows, queries)
            queries[n_rows, LINE] = n_lines
            n_rows += 1
        n_lines += 1
        position = _line_end(buffer, i, stop) + 1
    return ParsedLines(min(position, stop), n_rows, n_lines, n_hard, lowest, highest, FINE, 0)


@kernel
def _parse_pairs(
    buffer: Bytes, i: int, stop: int, least: int, scratch: LineScratch, row: int, n_hard: int
) -> tuple[int, int, int, int, int]:
    """Read `index:value` pairs; return position, n_hard, lowest index, highest index and problem."""
    lowest, highest, features = NO_INDEX, -1, scratch.features
    features[row] = 0.0
    while True:
        i = _skip_spaces(buffer, i, stop)
        if _ends_token(buffer, i, stop):
            return i, n_hard, lowest, highest, FINE
        index, colon = _parse_index(buffer, i, stop)
        if colon < 0:
            return i, n_hard, lowest, highest, BAD_PAIR
        value, end, is_number, is_hard = _parse_number(buffer, colon + 1, stop)
        if not is_number or not _ends_token(buffer, end, stop):
            return i, n_hard, lowest, highest, BAD_VALUE
        if index < least:
            return i, n_hard, lowest, highest, TOO_SMALL
        if index >= features.shape[1]:
            return i, n_hard, lowest, index, TOO_LARGE
        if scratch.last_row[index] == row:
            return i, n_hard, lowest, highest, TWICE
        scratch.last_row[index] = row
        lowest, highest = min(lowest, index), max(highest, index)
        features[row, index] = value
        if is_hard:
            n_hard = _note_hard(scratch.hard, n_hard, row, index, colon + 1, end)
        i = end


@kernel
def _note_hard(hard: Ints, n_hard: int, row: int, column: int, start: int, end: int) -> int:
    """Append the place of a number that float() must read, and return how many there are."""
    hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2], hard[n_hard, 3] = row, column, start, end
    return n_hard + 1


@kernel
def _note_query(buffer: Bytes, i: int, stop: int, row: int, queries: Ints) -> tuple[int, bool]:
    """Note an optional `qid:name`; return the position after it, and false for a `qid:` without a name."""
    queries[row, KIND], queries[row, NAME_START], queries[row, NAME_END] = NOWHERE, 0, 0
    if i + 4 > stop or buffer[i] != LETTER_Q or buffer[i + 1] != LETTER_I:
        return i, True
    if buffer[i + 2] != LETTER_D or buffer[i + 3] != COLON:
        return i, True
    start = i + 4
    i = start
    while not _ends_token(buffer, i, stop):
        i += 1
    queries[row, KIND], queries[row, NAME_START], queries[row, NAME_END] = IN_QID, start, i
    return i, i > start


@kernel
def _note_comment(buffer: Bytes, i: int, stop: int, row: int, queries: Ints) -> int:
    """Return the end of the line; a comment that is one whole number names the query of a line without qid."""
    if i < stop and buffer[i] == COMMENT and queries[row, KIND] == NOWHERE:
        start = _skip_spaces(buffer, i + 1, stop)
        end = start
        while end < stop and ZERO <= buffer[end] <= NINE:
            end += 1
        after = _skip_spaces(buffer, end, stop)
        if start < end and (after >= stop or buffer[after] == NEWLINE):
            queries[row, KIND], queries[row, NAME_START], queries[row, NAME_END] = IN_COMMENT, start, end
    return _line_end(buffer, i, stop)


@kernel
def name_runs(buffer: Bytes, queries: Ints) -> Ints:
    """Return the rows at which another query's name begins.

    Args:
      buffer: The bytes.
      queries: (n_rows, 4), the noted names.
    """
    n_rows, n_runs = len(queries), 0
    starts = np.empty(n_rows, np.int64)
    for row in range(n_rows):
        start, last = queries[row, NAME_START], queries[row - 1, NAME_START]
        length = queries[row, NAME_END] - start
        is_same = row > 0 and queries[row, KIND] == queries[row - 1, KIND]
        is_same = is_same and length == queries[row - 1, NAME_END] - last
        i = 0
        while is_same and i < length:
            is_same = buffer[start + i] == buffer[last + i]
            i += 1
        if not is_same:
            starts[n_runs] = row
            n_runs += 1
    return starts[:n_runs].copy()
