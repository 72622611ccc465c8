"""Words of a line in a byte buffer: where they end, and a feature's index."""

from __future__ import annotations

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.data.readers.letor.numbers import NINE, ZERO, Bytes

NEWLINE, TAB, RETURN, SPACE, COMMENT, COLON = 10, 9, 13, 32, 35, 58
ROOM_FOR_INDEX = 2**40  # larger ones are all the same: too large


@kernel
def _is_space(byte: int) -> bool:
    return byte in (SPACE, TAB, RETURN)


@kernel
def ends_token(buffer: Bytes, i: int, stop: int) -> bool:
    return i >= stop or _is_space(buffer[i]) or buffer[i] == NEWLINE or buffer[i] == COMMENT


@kernel
def skip_spaces(buffer: Bytes, i: int, stop: int) -> int:
    while i < stop and _is_space(buffer[i]):
        i += 1
    return i


@kernel
def line_end(buffer: Bytes, i: int, stop: int) -> int:
    while i < stop and buffer[i] != NEWLINE:
        i += 1
    return i


@kernel
def parse_index(buffer: Bytes, i: int, stop: int) -> tuple[int, int]:
    """(index, position of its colon); −1 when there is none."""
    first, index = i, 0
    while i < stop and ZERO <= buffer[i] <= NINE:
        index = min(index * 10 + (np.int64(buffer[i]) - ZERO), ROOM_FOR_INDEX)  # type: ignore[assignment]
        i += 1
    return index, i if i > first and i < stop and buffer[i] == COLON else -1
