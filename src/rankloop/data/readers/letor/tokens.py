"""Words of a line in a byte buffer: where they end, and numbers, read exactly as Python's float() reads them."""

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.data.compression import Bytes

NEWLINE, TAB, RETURN, SPACE, COMMENT, COLON = 10, 9, 13, 32, 35, 58
ROOM_FOR_INDEX = 2**40  # larger ones are all the same: too large
PLUS, MINUS, POINT, ZERO, NINE, BIG_E, SMALL_E = 43, 45, 46, 48, 57, 69, 101
EXACT_POWERS = np.array([float(10**power) for power in range(23)])  # doubles without error: one operation rounds once
EXACT_MANTISSA = 2**53
MAX_DIGITS = 18  # more might not fit 64 bits
HUGE = 10**6  # any exponent of more digits


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


@kernel
def parse_number(buffer: Bytes, i: int, stop: int) -> tuple[float, int, bool, bool]:
    """(value, end, is a number, needs a slower exact reading) of the decimal number that begins at i.

    A mantissa below 2^53 times or divided by a power of ten up to 10^22 is one rounding away from the truth, so it is
    the nearest double. What does not fit is left to float().
    """
    negative, i = _sign(buffer, i, stop)
    mantissa, n_digits, exponent, i = _mantissa(buffer, i, stop)
    if n_digits == 0:
        return 0.0, i, False, False
    if i < stop and (buffer[i] == BIG_E or buffer[i] == SMALL_E):
        power, i, is_whole = _exponent(buffer, i + 1, stop)
        exponent += power
        if not is_whole:
            return 0.0, i, False, False
    if n_digits > MAX_DIGITS or mantissa > EXACT_MANTISSA or exponent < -22 or exponent > 22:
        return 0.0, i, True, True
    value = mantissa / EXACT_POWERS[-exponent] if exponent < 0 else mantissa * EXACT_POWERS[exponent]
    return -value if negative else value, i, True, False


@kernel
def _sign(buffer: Bytes, i: int, stop: int) -> tuple[bool, int]:
    """(is there a minus, position behind the sign)."""
    if i < stop and (buffer[i] == MINUS or buffer[i] == PLUS):
        return buffer[i] == MINUS, i + 1
    return False, i


@kernel
def _mantissa(buffer: Bytes, i: int, stop: int) -> tuple[int, int, int, int]:
    """(mantissa, number of digits, exponent, end): one loop over digits and point, the fastest of those tried."""
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
    return mantissa, n_digits, point + 1 - i if point >= 0 else 0, i


@kernel
def _exponent(buffer: Bytes, i: int, stop: int) -> tuple[int, int, bool]:
    """(power, end, is one) of the digits behind an e."""
    negative, first = _sign(buffer, i, stop)
    power, i = 0, first
    while i < stop and ZERO <= buffer[i] <= NINE:
        power = min(power * 10 + (np.int64(buffer[i]) - ZERO), HUGE)  # type: ignore[assignment]
        i += 1
    return -power if negative else power, i, i > first
