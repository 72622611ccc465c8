"""The memory that a learner starts with, measured without using much more memory than is allowed."""

from typing import Any

import numpy as np

from rankloop.core.registry import build
from rankloop.core.types import Problem

SMALL_SIZE = 64


def starts_within(learner: Any, problem: Problem, max_bytes: int) -> bool:
    """Return True if the arrays that a learner starts with take at most `max_bytes`; a weight table does not count.

    It is built with small sizes first, then with sizes twice as large, and so on. So a state that grows with the
    product of three sizes is refused before it takes more than eight times what is allowed.

    Args:
      learner: The spec of the learner.
      problem: The problem that it starts with.
      max_bytes: The limit.
    """
    spec, largest = {"learner": learner, "problem": problem._replace(feature_names=())._asdict()}, SMALL_SIZE
    while True:
        smaller = _capped(spec, largest)
        if _initial_bytes(**smaller) > max_bytes:
            return False
        if smaller == spec:
            return True
        largest *= 2


def size_of(state: Any) -> float:
    """Return the bytes of the arrays in a state."""
    if isinstance(state, np.ndarray):
        return float(state.nbytes)
    return sum(map(size_of, state)) if isinstance(state, tuple) else 0.0


def _initial_bytes(learner: Any, problem: dict[str, Any]) -> float:
    """Return the bytes that a learner starts with; 0 if it cannot be built with such sizes."""
    try:
        return size_of(build(learner, "learner").init(Problem(**problem)))
    except MemoryError:
        return float("inf")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return 0.0


def _capped(spec: Any, largest: int) -> Any:
    """Return a spec in which no integer is larger."""
    if isinstance(spec, dict):
        return {name: _capped(part, largest) for name, part in spec.items()}
    return min(spec, largest) if type(spec) is int else spec
