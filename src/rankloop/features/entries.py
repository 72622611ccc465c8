"""From the hashes of values to the entries of `Rows`: crosses and columns are made in compiled code."""

from typing import Any, NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.features.hashes import crossed
from rankloop.features.schema import FIELDS_IN_CROSS, Schema

NONE = -1  # in a cross: no third field
Mask = Any  # np.ndarray of bool
Hashes = Any  # np.ndarray of uint64


class Plan(NamedTuple):
    """What the kernel goes by."""

    memory: Mask  # by field of the items: whether its columns are memory
    crosses: Ints  # (n_crosses, 3): fields of the items from 0, of the context from n_features on, NONE for no field
    cross_memory: Mask
    half: int  # columns of each half of the table


class Tokens(NamedTuple):
    """Hashes and values, by item and field: field f of item i owns those from bounds[i, f] to bounds[i, f + 1]."""

    hashes: Hashes
    values: Floats
    bounds: Ints
    main: Mask  # (n_items, n_fields): whether the field's tokens are columns by themselves; else in crosses only


@kernel
def count_entries(items: Tokens, chosen: Ints, context: Tokens, plan: Plan) -> Ints:
    """How many entries each of the chosen items will have."""
    counts = np.zeros(len(chosen), np.int64)
    bounds, asked, main, n_fields = items.bounds, context.bounds, items.main, items.bounds.shape[1] - 1
    for i in range(len(chosen)):
        item = chosen[i]
        for field in range(n_fields):
            if main[item, field]:
                counts[i] += bounds[item, field + 1] - bounds[item, field]
        for c in range(len(plan.crosses)):
            product = 1
            for field in plan.crosses[c]:
                if field >= n_fields:
                    product *= asked[0, field - n_fields + 1] - asked[0, field - n_fields]
                elif field != NONE:
                    product *= bounds[item, field + 1] - bounds[item, field]
            counts[i] += product
    return counts


@kernel
def encode(items: Tokens, chosen: Ints, context: Tokens, plan: Plan, counts: Ints) -> tuple[Ints, Ints, Floats, Ints]:
    """Starts, positions, values and columns of `Rows`."""
    starts = np.zeros(len(chosen) + 1, np.int64)
    starts[1:] = np.cumsum(counts)
    all_columns, values = np.empty(starts[-1], np.int64), np.empty(starts[-1])
    # the tokens of one item and of the context side by side, so that a cross need not ask where its fields come from
    n_own, n_fields, half = 0, items.bounds.shape[1] - 1, plan.half
    for item in chosen:
        n_own = max(n_own, items.bounds[item, n_fields] - items.bounds[item, 0])
    n_asked = len(context.hashes)
    hashes, weights = np.empty(n_asked + n_own, np.uint64), np.empty(n_asked + n_own)
    hashes[:n_asked], weights[:n_asked] = context.hashes, context.values
    bounds = np.zeros((n_fields + context.bounds.shape[1], 2), np.int64)  # the last is that of no field
    for field in range(context.bounds.shape[1] - 1):
        bounds[n_fields + field, 0] = context.bounds[0, field]
        bounds[n_fields + field, 1] = context.bounds[0, field + 1]
    mask, e = np.uint64(half - 1), 0
    for item in chosen:
        shift = n_asked - items.bounds[item, 0]
        for at in range(items.bounds[item, 0], items.bounds[item, n_fields]):
            hashes[at + shift], weights[at + shift] = items.hashes[at], items.values[at]
        for field in range(n_fields):
            start, end = items.bounds[item, field] + shift, items.bounds[item, field + 1] + shift
            bounds[field, 0], bounds[field, 1] = start, end
            if items.main[item, field]:
                above = half if plan.memory[field] else 0
                for at in range(start, end):
                    all_columns[e], values[e] = np.int64(hashes[at] & mask) + above, weights[at]
                    e += 1
        for c in range(len(plan.crosses)):
            one, two, three = plan.crosses[c, 0], plan.crosses[c, 1], plan.crosses[c, 2]
            above = half if plan.cross_memory[c] else 0
            for a in range(bounds[one, 0], bounds[one, 1]):
                for b in range(bounds[two, 0], bounds[two, 1]):
                    pair, value = crossed(hashes[a], hashes[b]), weights[a] * weights[b]
                    if three == NONE:
                        all_columns[e], values[e] = np.int64(pair & mask) + above, value
                        e += 1
                        continue
                    for t in range(bounds[three, 0], bounds[three, 1]):
                        all_columns[e] = np.int64(crossed(pair, hashes[t]) & mask) + above
                        values[e] = value * weights[t]
                        e += 1
    positions, columns = _distinct(all_columns)
    return starts, positions, values, columns


@kernel
def _distinct(all_columns: Ints) -> tuple[Ints, Ints]:
    """Where each stands among the different ones, and these, in the order in which they come."""
    size = 16
    while size < 2 * len(all_columns):
        size *= 2
    numbers = np.full(size, -1, np.int32)
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


def plan_of(schema: Schema) -> Plan:
    """What a schema says to the kernel."""
    numbers = {name: i for i, name in enumerate([*schema.features, *schema.context])}
    kinds = dict(schema.features) | dict(schema.context)
    crosses = np.full((len(schema.crosses), FIELDS_IN_CROSS), NONE, np.int64)
    for c, cross in enumerate(schema.crosses):
        names = sorted(cross.split("*"))  # "a*b" is the same as "b*a"
        crosses[c, : len(names)] = [numbers[name] for name in names]
    return Plan(
        np.array([kind.memory for kind in schema.features.values()], np.bool_),
        crosses,
        np.array([any(kinds[name].memory for name in cross.split("*")) for cross in schema.crosses], np.bool_),
        schema.n_hashed // 2,
    )
