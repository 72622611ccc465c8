"""The leaves of a value: the arrays and numbers of a state, a decision or a receipt, to compare and to replace."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankloop.contracts.contract import Broken, require
from rankloop.core.weight_table import WeightTable


def leaves(value: Any, path: str = "state") -> Iterator[tuple[str, Any]]:
    """The arrays and numbers of a value with their dotted paths."""
    if isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        for name, part in zip(names, value, strict=True):
            yield from leaves(part, f"{path}.{name}")
    elif isinstance(value, WeightTable):
        yield f"{path}.table", value.at(np.arange(value.n_columns))
    else:
        yield path, value


def with_leaf(value: Any, path: list[str], new: Any) -> Any:
    """The value with the part at this path (as `leaves` names it, without its first word) replaced."""
    if not path:
        return new
    if isinstance(value, WeightTable):
        return WeightTable.of(value.n_columns, np.arange(value.n_columns), new)
    if hasattr(value, "_fields"):
        return value._replace(**{path[0]: with_leaf(getattr(value, path[0]), path[1:], new)})
    return tuple(with_leaf(part, path[1:], new) if str(i) == path[0] else part for i, part in enumerate(value))


def same(one: Any, other: Any) -> str:
    """The path of the first difference, bit for bit; empty when there is none."""
    ones, others = list(leaves(one)), list(leaves(other))
    if [path for path, _ in ones] != [path for path, _ in others]:
        return f"different parts: {[path for path, _ in ones]} and {[path for path, _ in others]}"
    for (path, a), (_, b) in zip(ones, others, strict=True):
        if type(a) is not type(b) or not np.array_equal(np.asarray(a), np.asarray(b), equal_nan=_is_real(a)):
            return f"{path}: {a!r} and {b!r}"
    return ""


def require_finite_state(state: Any) -> None:
    """Refuse a state that is no tuple of finite arrays and numbers."""
    require(isinstance(state, tuple), f"the state is a {type(state).__name__}")
    for path, value in leaves(state):
        require(isinstance(value, np.ndarray | int | float | bool | np.generic), f"{path} is a {type(value).__name__}")
        if not np.all(np.isfinite(value)):  # `require` would write down every array
            raise Broken(f"{path} = {value} is not finite")


def require_same(one: Any, other: Any, where: str) -> None:
    """Refuse two values that differ in a bit, with words that the path of the difference ends."""
    difference = same(one, other)
    require(not difference, f"{where} {difference}")


def _is_real(value: Any) -> bool:
    return np.asarray(value).dtype.kind == "f"
