"""A saved state back from its parts: only what learning can have led to, because kernels trust what a state holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import CheckedState
from rankloop.core.types import Problem

MAX_COUNT = 2**53  # no round, click or item is ever counted so far


def restored_state(outline: Any, example: Any, array: Callable[[Any], Any], where: str = "state") -> Any:
    """The state of which `example` is the initial one; anything that cannot have grown out of it is refused.

    Fields, types and shapes are the example's; a table that has no rows there may have got some. Numbers are finite,
    what the problem says stays as it is, and whole numbers count up from where they began. A state that knows more
    about itself says so (`reachable`).
    """
    if hasattr(example, "_fields"):
        return _named(outline, example, array, where)
    if isinstance(example, tuple):
        return tuple(restored_state(part, like, array, where) for part, like in zip(outline, example, strict=True))
    if isinstance(example, np.ndarray):
        return _array(array(outline["array"]), example, where)
    return _number(outline, example, where)


def _named(outline: Any, example: Any, array: Callable[[Any], Any], where: str) -> Any:
    if set(outline) != set(example._fields):
        raise InvalidInput(f"{where} does not have the fields {', '.join(example._fields)}")
    parts = zip(example._fields, example)
    state = type(example)(*(restored_state(outline[name], part, array, f"{where}.{name}") for name, part in parts))
    if isinstance(state, CheckedState) and not state.reachable(example):
        raise InvalidInput(f"{where} is one that no learning leads to: its parts do not fit each other")
    return state


def _array(loaded: Any, example: Any, where: str) -> Any:
    may_grow = example.ndim > 1 and len(example) == 0 and all(example.shape[1:])
    wanted = (len(loaded), *example.shape[1:]) if may_grow and loaded.ndim else example.shape
    if loaded.dtype != example.dtype or loaded.shape != wanted:
        raise InvalidInput(f"{where} is {loaded.dtype}{loaded.shape}, the learner needs {example.dtype}{example.shape}")
    if not np.all(np.isfinite(loaded)):
        raise InvalidInput(f"{where} holds a number that is not finite")
    if loaded.dtype.kind in "iu":
        _check_counts(loaded, example, where)
    return np.ascontiguousarray(loaded)


def _number(value: Any, example: Any, where: str) -> Any:
    if type(value) is not type(example) and not (type(example) is float and type(value) is int):
        raise InvalidInput(f"{where} must be of type {type(example).__name__}, got {value!r:.60}")
    if where.rpartition(".")[2] in Problem._fields and value != example:
        raise InvalidInput(f"{where} is {value!r:.60}, by the problem it is {example!r}")
    if type(example) is int:
        _check_counts(value, example, where)
    return type(example)(value)


def _check_counts(values: Any, example: Any, where: str) -> None:
    least = int(np.min(example)) if np.size(example) else -MAX_COUNT
    if np.size(values) and not least <= int(np.min(values)) <= int(np.max(values)) <= MAX_COUNT:
        raise InvalidInput(f"{where} holds a number that is too small or too large: it counts from {least}, to 2^53")
