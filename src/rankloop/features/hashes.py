"""Hashes of names and values: the same in every process, on every machine and in every version."""

from typing import Any

import numpy as np
import xxhash

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel

SEPARATOR = "\x1f"
MISSING = SEPARATOR + "missing"  # the text that stands for a value that is not known
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio: multiplying by it spreads neighbours over all bits
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # those of splitmix64
ALL_BITS = 2**64 - 1
BY_30, BY_27, BY_31 = np.uint64(30), np.uint64(27), np.uint64(31)


def hash_of(name: str, value: str) -> int:
    """64 bits of xxHash over the name of a field and one of its values."""
    try:
        return xxhash.xxh3_64_intdigest(f"{name}{SEPARATOR}{value}".encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{name}: {value!r:.60} holds half a character, which cannot be written down") from None


@kernel
def crossed(first: Any, second: Any) -> Any:
    """One hash of two, in this order: splitmix64's finish over their sum. Both are unsigned numbers of 64 bits."""
    mixed = first * ODD + second
    mixed = (mixed ^ (mixed >> BY_30)) * FIRST
    mixed = (mixed ^ (mixed >> BY_27)) * SECOND
    return mixed ^ (mixed >> BY_31)


def python_crossed(first: int, second: int) -> int:
    """The same, in Python's own numbers."""
    mixed = (first * int(ODD) + second) & ALL_BITS
    mixed = (mixed ^ (mixed >> 30)) * int(FIRST) & ALL_BITS
    mixed = (mixed ^ (mixed >> 27)) * int(SECOND) & ALL_BITS
    return mixed ^ (mixed >> 31)
