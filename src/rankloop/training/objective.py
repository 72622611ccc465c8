"""The mean loss over the queries of a data set as a function of the weights, computed by an engine."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, cast

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of, weighted_rows
from rankloop.core.types import Floats
from rankloop.data.dataset import Dataset
from rankloop.data.parts.catalogue import StoredDataset, StoredQueries
from rankloop.data.sparse_dataset import SparseDataset
from rankloop.engine import SummingEngine
from rankloop.training.risks.base import Risk, StructuredRisk

ROWS_PER_PART, MAX_PARTS = 4096, 64
PART_BYTES = 64 << 20  # more parts than MAX_PARTS where they would be larger than this
MAX_ANSWER_NUMBERS = 4_000_000  # in the answers of all parts together, over hashed columns
InMemory = Dataset | SparseDataset
Queries = InMemory | StoredDataset


class Part(NamedTuple):
    """Some of the queries, and the loss to compute on them."""

    risk: Risk
    dataset: InMemory


class PartQuestion(NamedTuple):
    """A question to every part: its loss with the slope in the weights, or the distance of its anchors from ideal."""

    of: Literal["loss", "shift"]
    weights: Floats


def answer(part: Part, question: PartQuestion) -> Floats:
    """Answer a question about a part.

    Args:
      part: The queries and the loss.
      question: For the loss, or for the shift of a tighter bound.

    Returns:
      Slope and loss in one array, or the shift; sums over the queries.
    """
    dataset = part.dataset
    scores = scores_of(dataset.features, question.weights)
    if isinstance(dataset, SparseDataset):
        scores += dataset.base
    if question.of == "loss":
        value, grad = part.risk.of_lists(scores, dataset.relevance, dataset.offsets)
        return np.append(weighted_rows(dataset.features, grad), value)
    risk = cast(StructuredRisk, part.risk)
    ideal = risk.ideal_anchors(dataset.relevance, dataset.offsets)
    return weighted_rows(dataset.features, ideal - risk.anchors(scores, dataset.relevance, dataset.offsets))


class StoredPart(NamedTuple):
    """A part whose queries stay on disk."""

    risk: Risk
    queries: StoredQueries

    def load(self) -> Part:
        """Return the part with its rows in memory."""
        return Part(self.risk, self.queries.load())

    def __str__(self) -> str:
        return str(self.queries)


def parts_of(dataset: Queries, risk: Risk) -> list[Part] | list[StoredPart]:
    """Cut a data set into parts of consecutive queries with about equally many rows.

    The cuts depend on the data only, so that sums are equal on every engine.

    Args:
      dataset: In memory or on disk.
      risk: The loss of the parts.

    Returns:
      The parts.
    """
    cuts = itertools.pairwise(_borders_of(dataset))
    if isinstance(dataset, StoredDataset):
        return [StoredPart(risk, dataset.between(first, end)) for first, end in cuts]
    return [Part(risk, dataset.subset(range(first, end))) for first, end in cuts]


def _borders_of(dataset: Queries) -> list[int]:
    """Return the queries at which parts begin, and their end; no part is much larger than PART_BYTES."""
    n_rows = int(dataset.offsets[-1])
    n_parts = min(n_rows // ROWS_PER_PART, MAX_PARTS)
    if isinstance(dataset, SparseDataset):
        n_parts = min(n_parts, MAX_ANSWER_NUMBERS // dataset.n_features)
    else:
        n_parts = max(n_parts, 8 * n_rows * dataset.n_features // PART_BYTES)
    n_parts = max(1, min(n_parts, dataset.n_queries))
    cuts = np.searchsorted(dataset.offsets, np.arange(1, n_parts) * (n_rows / n_parts))
    borders: list[int] = np.unique(np.concatenate(([0], cuts, [dataset.n_queries]))).tolist()
    return borders


class Objective:
    """The function weights ↦ (1/Q) Σ_q loss with its slope, Q being the number of queries or another divisor."""

    def __init__(self, total: Callable[[PartQuestion], Floats], n_queries: float, shift: Floats | None = None) -> None:
        self._total, self._n_queries, self._shift = total, n_queries, shift

    def __call__(self, weights: Floats) -> tuple[float, Floats]:
        """Return the mean loss and its slope."""
        total = self._total(PartQuestion("loss", weights)) / self._n_queries
        value, slope = float(total[-1]), total[:-1]
        if self._shift is not None:
            value += float(np.sum(self._shift * weights))
            slope = slope + self._shift
        return value, slope

    def shifted(self, weights: Floats) -> "Objective":
        """Return the convex bound on the tighter loss that touches it at these weights.

        max_π F(π), which the tighter loss subtracts, is bounded from below by the F of the ranking that these weights
        predict. That is linear in the weights, with the slope Σ_q Xᵀ(ideal anchors − predicted anchors).
        """
        shift = self._total(PartQuestion("shift", weights)) / self._n_queries
        return Objective(self._total, self._n_queries, shift)


@contextmanager
def objective_on(dataset: Queries, risk: Risk, engine: SummingEngine, per: float | None = None) -> Iterator[Objective]:
    """Yield the objective, while the workers of the engine keep the parts of the data.

    Args:
      dataset: In memory or on disk.
      risk: The loss of a list.
      engine: Computes the sums.
      per: Q; the number of queries unless given.

    Yields:
      The objective.

    Raises:
      InvalidInput: If there is no query or no feature.
    """
    if dataset.n_queries == 0 or dataset.n_features == 0:
        raise InvalidInput(f"nothing to train on: {dataset.n_queries} queries, {dataset.n_features} features")
    with engine.sum_over(parts_of(dataset, risk), answer) as total:
        yield Objective(total, per or dataset.n_queries)
