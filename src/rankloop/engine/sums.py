"""Sums over partitions of data that stay where they are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from rankloop.core.types import Floats
from rankloop.engine.base import Engine

Function = Callable[[Any, Any], Floats]  # of a partition and an argument; importable, as are its results
Total = Callable[[Any], Floats]


class SummingEngine(Engine, Protocol):
    """An engine that also adds: the same sum on every engine, to the last bit, because the order is that of the list.

    Workers keep their partitions between calls; what travels is the argument and the answers. A worker that died is
    replaced and given its partitions again.
    """

    def sum_over(self, partitions: Sequence[Any], function: Function) -> AbstractContextManager[Total]:
        """While open: argument ↦ Σ over the partitions of function(partition, argument), in their order."""


def added(answers: Sequence[Floats]) -> Floats:
    """The answers one after the other."""
    total = answers[0].copy()
    for answer in answers[1:]:
        total += answer
    return total
