"""Why an item stands where it does: what each of its values adds to its score, by name."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.adapter import RawValues
from rankloop.core.types import Rows
from rankloop.core.weight_table import WeightTable
from rankloop.features.encoder import Encoder


class Contribution(NamedTuple):
    """A value of an item, what it counts for, and what it adds: value · weight."""

    name: str
    value: float
    weight: float
    contribution: float
    shares_column_with: tuple[str, ...] = ()  # other names that fell into the same column: they share its weight


class Explanation(NamedTuple):
    """The score of an item, as the sum of its contributions, the largest first."""

    id: Any
    score: float
    contributions: list[Contribution]

    def __str__(self) -> str:
        lines = [f"{part.contribution:+9.4f}  {part.name}" for part in self.contributions]
        return "\n".join([f"{self.score:+9.4f}  {self.id}", *lines])


def explained(
    encoder: Encoder,
    table: WeightTable,
    id: Any,
    row: Mapping[str, Any],
    context: Mapping[str, Any],
    at: float,
    trust: float = 1.0,
) -> Explanation:
    """The contributions of one item, encoded again from its values; those of memory count by its `trust`."""
    named = encoder.columns(id, row, context, at)
    rows: Rows = encoder.rows([id], [row], context, at)
    names = [(column.name, column.column, column.value) for column in named]
    names += [(name, encoder.schema.n_hashed + slot, float(rows.dense[0, slot])) for name, slot in dense_names(encoder)]
    columns, n_hashed = np.array([column for _, column, _ in names], dtype=np.int64), encoder.schema.n_hashed
    in_memory = (n_hashed // 2 <= columns) & (columns < n_hashed)
    weights = table.at(columns)[:, 0] * np.where(in_memory, trust, 1.0)
    sharing: dict[int, list[str]] = {}
    for name, column, _ in names:
        sharing.setdefault(column, []).append(name)
    parts = [
        Contribution(name, value, float(weight), value * float(weight), _others(sharing[column], name))
        for (name, column, value), weight in zip(names, weights)
    ]
    parts.sort(key=lambda part: (-abs(part.contribution), part.name))
    return Explanation(id, float(sum(part.contribution for part in parts)), parts)


def named_weights(
    encoder: Encoder, table: WeightTable, requests: Iterable[tuple[Sequence[Any], RawValues]]
) -> dict[str, tuple[float, tuple[str, ...]]]:
    """The weight of every name in these requests (ids and their values), and the names that share its column."""
    sharing: dict[int, dict[str, None]] = {}
    for ids, values in requests:
        for id, row in zip(ids, values.rows):
            for column in encoder.columns(id, row, values.context, values.at):
                sharing.setdefault(column.column, {})[column.name] = None
    for name, slot in dense_names(encoder):
        sharing[encoder.schema.n_hashed + slot] = {name: None}
    weights = table.at(np.array(list(sharing), dtype=np.int64))[:, 0].tolist()
    found = {
        name: (weight, _others(list(names), name)) for names, weight in zip(sharing.values(), weights) for name in names
    }
    return dict(sorted(found.items(), key=lambda part: (-abs(part[1][0]), part[0])))


def dense_names(encoder: Encoder) -> list[tuple[str, int]]:
    """The numbers of the dense block by name, and where they stand in it."""
    found = []
    for name, kind in encoder.schema.features.items():
        first = encoder.schema.slots.get(name, 0)
        found += [(f"{name}[{i}]" if kind.size > 1 else name, first + i) for i in range(kind.size)]
    return found


def _others(names: list[str], name: str) -> tuple[str, ...]:
    return tuple(other for other in names if other != name)
