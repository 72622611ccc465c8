"""Explanations: what each value of an item adds to its score, by name."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.adapter import RawValues
from rankloop.core.kernels import scores_of
from rankloop.core.learner import from_layers
from rankloop.core.types import Features, Floats, Ints, Problem, Rows
from rankloop.core.weight_table import WeightTable
from rankloop.features.encoder import Column, Encoder


class Contribution(NamedTuple):
    """One value of an item, its weight, and their product."""

    name: str
    value: float
    weight: float
    contribution: float
    shares_column_with: tuple[str, ...] = ()  # other names that are hashed to the same column and share its weight


class Explanation(NamedTuple):
    """The score of an item, as the sum of its contributions, the largest first."""

    id: Any
    score: float
    contributions: list[Contribution]
    rules: tuple[str, ...] = ()  # of a service, that have pinned, left out or moved the item

    def __str__(self) -> str:
        lines = [f"{part.contribution:+9.4f}  {part.name}" for part in self.contributions]
        lines += [f"    moved  by the rule {rule}" for rule in self.rules]
        return "\n".join([f"{self.score:+9.4f}  {self.id}", *lines])


def explanation_of_weights(id: Any, weights: Mapping[str, float], values: Sequence[float]) -> Explanation:
    """Explain the score of an item with plain numeric features.

    Args:
      id: The item.
      weights: The weight of each feature by name.
      values: The item's features, in the same order.
    """
    named = zip(weights.items(), values)
    return _explanation(id, [Contribution(name, value, weight, value * weight) for (name, weight), value in named])


def explain_item(
    encoder: Encoder, table: WeightTable, id: Any, row: Mapping[str, Any], values: RawValues, trust: float = 1.0
) -> Explanation:
    """Explain the score of an item with a schema, which is encoded again from its values.

    Args:
      encoder: Encodes by the schema of the ranking.
      table: The weights.
      id: The item.
      row: Its values by name.
      values: The context and the time of the request.
      trust: The factor of the weights in the memory half of the table.
    """
    columns = encoder.columns(id, row, values.context, values.at)
    n_hashed, dense = encoder.schema.n_hashed, encoder.rows([id], [row], values.context, values.at).dense[0]
    columns += [Column(name, n_hashed + slot, float(dense[slot])) for name, slot in _dense_names(encoder)]
    weights = _weights_of(table, np.array([column.column for column in columns], np.int64), n_hashed, trust)
    sharing = _names_by_column(columns)
    parts = [
        Contribution(name, value, weight, value * weight, _others(sharing[column], name))
        for (name, column, value), weight in zip(columns, weights.tolist())
    ]
    return _explanation(id, parts)


def _weights_of(table: WeightTable, columns: Ints, n_hashed: int, trust: float) -> Floats:
    """Return the weights of columns; those in the memory half of the table count `trust` times."""
    in_memory = (n_hashed // 2 <= columns) & (columns < n_hashed)
    weights: Floats = table.at(columns)[:, 0] * np.where(in_memory, trust, 1.0)
    return weights


def linear_scores(state: Any, features: Features, problem: Problem, trust: float = 1.0) -> Floats | None:
    """Return the weighted sum of each item, or None if the state has no weight per feature.

    Args:
      state: Of a learner.
      features: Of the items.
      problem: The problem of the learner.
      trust: The factor of the weights in the memory half of the table.
    """
    if isinstance(features, Rows):
        columns = np.concatenate([features.columns, problem.n_hashed + np.arange(features.dense.shape[1])])
        return scores_of(features, _weights_of(from_layers(state, "table"), columns, problem.n_hashed, trust))
    weights = from_layers(state, "weights")
    is_linear = isinstance(weights, np.ndarray) and weights.shape == (features.shape[1],)
    return scores_of(features, weights) if is_linear else None


def named_weights(
    encoder: Encoder, table: WeightTable, requests: Iterable[tuple[Sequence[Any], RawValues]]
) -> dict[str, tuple[float, tuple[str, ...]]]:
    """Return the weight of every name in some requests, the largest first, with the names that share its column.

    Args:
      encoder: Encodes by the schema of the requests.
      table: The weights.
      requests: Item ids and their values.
    """
    columns = [Column(name, encoder.schema.n_hashed + slot, 0.0) for name, slot in _dense_names(encoder)]
    for ids, values in requests:
        for id, row in zip(ids, values.rows):
            columns += encoder.columns(id, row, values.context, values.at)
    sharing, weights = _names_by_column(columns), dict[str, tuple[float, tuple[str, ...]]]()
    for names, weight in zip(sharing.values(), table.at(np.array(list(sharing), np.int64))[:, 0].tolist()):
        weights |= {name: (weight, _others(names, name)) for name in names}
    return dict(sorted(weights.items(), key=lambda part: (-abs(part[1][0]), part[0])))


def _dense_names(encoder: Encoder) -> list[tuple[str, int]]:
    """Return the numbers of the dense block by name, with their positions."""
    names = []
    for name, kind in encoder.schema.features.items():
        first = encoder.schema.slots.get(name, 0)
        names += [(f"{name}[{i}]" if kind.size > 1 else name, first + i) for i in range(kind.size)]
    return names


def _explanation(id: Any, contributions: list[Contribution]) -> Explanation:
    contributions.sort(key=lambda part: (-abs(part.contribution), part.name))
    return Explanation(id, float(sum(part.contribution for part in contributions)), contributions)


def _names_by_column(columns: Iterable[Column]) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for name, column, _ in columns:
        if name not in names.setdefault(column, []):
            names[column].append(name)
    return names


def _others(names: list[str], name: str) -> tuple[str, ...]:
    return tuple(other for other in names if other != name)
