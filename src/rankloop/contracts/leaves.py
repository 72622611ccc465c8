"""The arrays and numbers of a state, a decision or a receipt: list, compare and replace them."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankloop.contracts.contract import ContractViolation, require
from rankloop.core.weight_table import WeightTable


def leaves(value: Any, path: str = "state") -> Iterator[tuple[str, Any]]:
    """Yield the arrays and numbers of a nested tuple with their dotted paths.

    Args:
      value: The tuple, array or number.
      path: The path of the value itself.
    """
    if isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        for name, part in zip(names, value, strict=True):
            yield from leaves(part, f"{path}.{name}")
    elif isinstance(value, WeightTable):
        yield f"{path}.table", value.at(np.arange(value.n_columns))
    else:
        yield path, value


def with_leaf(value: Any, path: list[str], leaf: Any) -> Any:
    """Return the value with one leaf replaced.

    Args:
      value: A nested tuple.
      path: The path of the leaf as `leaves` names it, without its first word.
      leaf: The new array or number.
    """
    if not path:
        return leaf
    if isinstance(value, WeightTable):
        return WeightTable.of(value.n_columns, np.arange(value.n_columns), leaf)
    if hasattr(value, "_fields"):
        return value._replace(**{path[0]: with_leaf(getattr(value, path[0]), path[1:], leaf)})
    return tuple(with_leaf(part, path[1:], leaf) if str(i) == path[0] else part for i, part in enumerate(value))


def _first_difference(first: Any, second: Any) -> str:
    """Return the path and the values of the first difference, bit for bit; empty when there is none."""
    leaves_of_first, leaves_of_second = list(leaves(first)), list(leaves(second))
    paths, other_paths = ([path for path, _ in pairs] for pairs in (leaves_of_first, leaves_of_second))
    if paths != other_paths:
        return f"different parts: {paths} and {other_paths}"
    for (path, a), (_, b) in zip(leaves_of_first, leaves_of_second, strict=True):
        is_float = np.asarray(a).dtype.kind == "f"
        if type(a) is not type(b) or not np.array_equal(np.asarray(a), np.asarray(b), equal_nan=is_float):
            return f"{path}: {a!r} and {b!r}"
    return ""


def require_same(first: Any, second: Any, message: str) -> None:
    """Raise `ContractViolation` if two values differ in a bit.

    Args:
      first: A nested tuple.
      second: Another.
      message: The beginning of the error's message; the path of the difference follows.

    Raises:
      ContractViolation: If the values differ.
    """
    difference = _first_difference(first, second)
    require(not difference, f"{message} {difference}")


def require_finite_state(state: Any) -> None:
    """Raise `ContractViolation` unless the state is a tuple of finite arrays and numbers."""
    require(isinstance(state, tuple), f"the state is a {type(state).__name__}")
    for path, value in leaves(state):
        require(isinstance(value, np.ndarray | int | float | bool | np.generic), f"{path} is a {type(value).__name__}")
        if not np.all(np.isfinite(value)):  # `require` would format every array.
            raise ContractViolation(f"{path} = {value} is not finite")
