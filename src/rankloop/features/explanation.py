"""Explanations: what each value of an item adds to its score, by name."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.adapter import RawValues
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.learner import from_layers
from rankloop.core.session import row_in_range
from rankloop.core.types import Features, Floats, Ints, Problem, Rows
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


class LearnedWeights(NamedTuple):
    """The weights in a state: of features by name or, with a schema, of the values that share its columns."""

    state: Any
    problem: Problem
    trust: float = 1.0  # the factor of the weights in the memory half of a table

    def by_feature(self) -> dict[str, float]:
        """Return the weight of each plain feature, or raise `InvalidInput` if the learner has none."""
        weights, names = from_layers(self.state, "weights", ()), self.problem.feature_names
        if not len(weights) or len(weights) != self.problem.n_features:
            reason = "this learner has no weight per feature, so its scores cannot be explained by contributions"
            raise InvalidInput(reason)
        return dict(zip(names or [f"feature_{i}" for i in range(len(weights))], map(float, weights)))

    def by_value(
        self, encoder: Encoder, requests: Iterable[tuple[Sequence[Any], RawValues]]
    ) -> dict[str, tuple[float, tuple[str, ...]]]:
        """Return the weight of every name in requests (ids and values), with the names that share its column.

        The largest weight is the first.
        """
        columns = [Column(name, encoder.schema.n_hashed + slot, 0.0) for name, slot in _dense_names(encoder)]
        for ids, values in requests:
            for id, row in zip(ids, values.rows):
                columns += encoder.columns(id, row, values.context, values.at)
        sharing, weights = _names_by_column(columns), dict[str, tuple[float, tuple[str, ...]]]()
        table = from_layers(self.state, "table").at(np.array(list(sharing), np.int64))
        for names, weight in zip(sharing.values(), table[:, 0].tolist()):
            weights |= {name: (weight, _others(names, name)) for name in names}
        return dict(sorted(weights.items(), key=lambda part: (-abs(part[1][0]), part[0])))

    def explanation(self, id: Any, features: Floats) -> Explanation:
        """Explain the score of an item with plain numeric features."""
        named = zip(self.by_feature().items(), row_in_range(self.state, features).tolist())
        return _explanation(id, [Contribution(name, value, weight, value * weight) for (name, weight), value in named])

    def explanation_of_values(
        self, encoder: Encoder, id: Any, row: Mapping[str, Any], values: RawValues
    ) -> Explanation:
        """Explain the score of an item by its values, which are encoded again with context and time of its request."""
        columns = encoder.columns(id, row, values.context, values.at)
        n_hashed, dense = encoder.schema.n_hashed, encoder.rows([id], [row], values.context, values.at).dense[0]
        columns += [Column(name, n_hashed + slot, float(dense[slot])) for name, slot in _dense_names(encoder)]
        weights = self._of_columns(np.array([column.column for column in columns], np.int64), n_hashed)
        sharing = _names_by_column(columns)
        parts = [
            Contribution(name, value, weight, value * weight, _others(sharing[column], name))
            for (name, column, value), weight in zip(columns, weights.tolist())
        ]
        return _explanation(id, parts)

    def scores(self, features: Features) -> Floats | None:
        """Return the weighted sum of each item, or None if the state has no weight per feature."""
        if isinstance(features, Rows):
            n_hashed = self.problem.n_hashed
            columns = np.concatenate([features.columns, n_hashed + np.arange(features.dense.shape[1])])
            return scores_of(features, self._of_columns(columns, n_hashed))
        weights = from_layers(self.state, "weights")
        is_linear = isinstance(weights, np.ndarray) and weights.shape == (features.shape[1],)
        return scores_of(features, weights) if is_linear else None

    def _of_columns(self, columns: Ints, n_hashed: int) -> Floats:
        """Return the weights of columns; those in the memory half of the table count `trust` times."""
        in_memory = (n_hashed // 2 <= columns) & (columns < n_hashed)
        weights: Floats = from_layers(self.state, "table").at(columns)[:, 0] * np.where(in_memory, self.trust, 1.0)
        return weights


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
