"""Hashed columns: field values become 64-bit hashes, crosses combine hashes, and hashes become columns of `Rows`.

The hashes are the same in every process, on every machine and in every version.
"""

from typing import Any, NamedTuple

import numpy as np
import xxhash

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Bools, Floats, Ints

MAX_CROSS_FIELDS = 3
NO_FIELD = -1  # fills the last place of a cross of two fields
NAME_SEPARATOR = "\x1f"  # between the name of a field and its value
MISSING_VALUE = NAME_SEPARATOR + "missing"  # is hashed in place of a value that is missing
GOLDEN_RATIO_BITS = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio spreads neighbouring numbers over all bits
# The multipliers and shifts of splitmix64's last step.
MIX_FACTOR_1, MIX_FACTOR_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFT_30, SHIFT_27, SHIFT_31 = np.uint64(30), np.uint64(27), np.uint64(31)
Hashes = Any  # np.ndarray of uint64


class ColumnPlan(NamedTuple):
    """The parts of a schema that the kernels need."""

    in_memory: Bools  # by item field: its columns are in the half of the table that is for memory
    crosses: Ints  # (n_crosses, 3): item fields count from 0, context fields go on from there; or NO_FIELD
    cross_in_memory: Bools
    half: int  # the number of columns in each half of the table


class Tokens(NamedTuple):
    """The tokens of many items and of one context, in the same arrays, so that a cross treats both alike."""

    hashes: Hashes
    values: Floats
    bounds: Ints  # (n_items, n_fields + 1): those of field f of item i stand from bounds[i, f] to bounds[i, f + 1]
    main: Bools  # (n_items, n_fields): the tokens have columns outside of crosses, too
    context_bounds: Ints  # (n_context_fields + 1,)


def hash_of(name: str, value: str) -> int:
    """Return the 64-bit xxHash of a field's name and one of its values.

    Args:
      name: The name of the field.
      value: The value as text.
    """
    try:
        return xxhash.xxh3_64_intdigest(f"{name}{NAME_SEPARATOR}{value}".encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{name}: {value!r:.60} has an unpaired surrogate; give valid Unicode text") from None


@kernel
def _cross_hashes(first: Any, second: Any) -> Any:
    """Return one hash of two, by the last step of splitmix64 over their sum; the order matters."""
    mixed = first * GOLDEN_RATIO_BITS + second
    mixed = (mixed ^ (mixed >> SHIFT_30)) * MIX_FACTOR_1
    mixed = (mixed ^ (mixed >> SHIFT_27)) * MIX_FACTOR_2
    return mixed ^ (mixed >> SHIFT_31)


@kernel
def _context_spans(tokens: Tokens) -> Ints:
    """Return where the tokens of each field begin and end; the last row is that of NO_FIELD, which has one."""
    n_fields, n_context = tokens.main.shape[1], len(tokens.context_bounds) - 1
    spans = np.zeros((n_fields + n_context + 1, 2), np.int64)
    spans[-1, 1] = 1
    for field in range(n_context):
        spans[n_fields + field, 0] = tokens.context_bounds[field]
        spans[n_fields + field, 1] = tokens.context_bounds[field + 1]
    return spans


@kernel
def _set_item_spans(spans: Ints, tokens: Tokens, item: int) -> None:
    """Write where the tokens of each field of an item begin and end."""
    for field in range(tokens.main.shape[1]):
        spans[field, 0], spans[field, 1] = tokens.bounds[item, field], tokens.bounds[item, field + 1]


@kernel
def count_entries(tokens: Tokens, chosen: Ints, plan: ColumnPlan) -> Ints:
    """Count the entries that each of the chosen items will have.

    Args:
      tokens: The tokens of many items and of the context.
      chosen: The numbers of the items to encode.
      plan: The fields and crosses.
    """
    counts, spans = np.zeros(len(chosen), np.int64), _context_spans(tokens)
    for i in range(len(chosen)):
        _set_item_spans(spans, tokens, chosen[i])
        for field in range(tokens.main.shape[1]):
            if tokens.main[chosen[i], field]:
                counts[i] += spans[field, 1] - spans[field, 0]
        for c in range(len(plan.crosses)):
            product = 1
            for field in plan.crosses[c]:
                product *= spans[field, 1] - spans[field, 0]
            counts[i] += product
    return counts


@kernel
def encode(tokens: Tokens, chosen: Ints, plan: ColumnPlan, counts: Ints) -> tuple[Ints, Ints, Floats, Ints]:
    """Return the starts, positions, values and columns of `Rows`.

    Args:
      tokens: The tokens of many items and of the context.
      chosen: The numbers of the items to encode.
      plan: The fields and crosses.
      counts: The result of `count_entries`.
    """
    starts = np.zeros(len(chosen) + 1, np.int64)
    for i in range(len(chosen)):  # loops, since assigning to a slice compiles numba's formatting of error messages
        starts[i + 1] = starts[i] + counts[i]
    all_columns, values = np.empty(starts[-1], np.int64), np.empty(starts[-1])
    hashes, weights, spans = tokens.hashes, tokens.values, _context_spans(tokens)
    mask, e = np.uint64(plan.half - 1), 0
    for item in chosen:
        _set_item_spans(spans, tokens, item)
        for field in range(tokens.main.shape[1]):
            if tokens.main[item, field]:
                offset = plan.half if plan.in_memory[field] else 0
                for token in range(spans[field, 0], spans[field, 1]):
                    all_columns[e], values[e] = np.int64(hashes[token] & mask) + offset, weights[token]
                    e += 1
        for c in range(len(plan.crosses)):
            first, second, third = plan.crosses[c, 0], plan.crosses[c, 1], plan.crosses[c, 2]
            offset = plan.half if plan.cross_in_memory[c] else 0
            for a in range(spans[first, 0], spans[first, 1]):
                for b in range(spans[second, 0], spans[second, 1]):
                    pair, value = _cross_hashes(hashes[a], hashes[b]), weights[a] * weights[b]
                    if third == NO_FIELD:
                        all_columns[e], values[e] = np.int64(pair & mask) + offset, value
                        e += 1
                        continue
                    for t in range(spans[third, 0], spans[third, 1]):
                        all_columns[e] = np.int64(_cross_hashes(pair, hashes[t]) & mask) + offset
                        values[e] = value * weights[t]
                        e += 1
    positions, columns = _distinct(all_columns)
    return starts, positions, values, columns


@kernel
def _distinct(all_columns: Ints) -> tuple[Ints, Ints]:
    """Return the position of each column among the distinct ones, and these in order of first occurrence."""
    size = 16
    while size < 2 * len(all_columns):
        size *= 2
    numbers = np.full(size, -1, np.int32)  # an open-addressing hash table
    positions, columns, count = np.empty(len(all_columns), np.int64), np.empty(len(all_columns), np.int64), 0
    for e in range(len(all_columns)):
        column = all_columns[e]
        slot = (column * 0x9E3779B1) >> 7 & (size - 1)
        while numbers[slot] >= 0 and columns[numbers[slot]] != column:
            slot = (slot + 1) & (size - 1)
        if numbers[slot] < 0:
            numbers[slot] = count
            columns[count] = column
            count += 1
        positions[e] = numbers[slot]
    return positions, columns[:count].copy()
