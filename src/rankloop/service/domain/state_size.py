"""The memory that a learner starts with, measured without using much more memory than is allowed."""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import numpy as np

from rankloop.core.errors import Rejected
from rankloop.core.registry import build
from rankloop.core.saved_session import HEADER_NAME, READ_ERRORS
from rankloop.core.types import Problem
from rankloop.core.weight_table import WeightTable
from rankloop.service.errors import TooLarge

HASHED_COLUMN_BYTES = 16
SMALL_SIZE = 64


def check_file_fits(content: bytes, max_bytes: int, max_header: int) -> None:
    """Refuse a saved file whose learner would start with too much memory.

    Args:
      content: The file; a damaged one passes, because loading it reports the damage.
      max_bytes: The limit of the state.
      max_header: The limit of the file's header.
    """
    try:
        with ZipFile(BytesIO(content)) as archive:
            size = archive.getinfo(HEADER_NAME).file_size
            if max_header < size <= len(content):  # decoding it would block other requests
                raise TooLarge(f"the file has a header of {size} bytes; the limit for a body is {max_header}")
            header = {} if size > len(content) else json.loads(archive.read(HEADER_NAME))
        learner, problem = header["learner"], Problem(**header["problem"])
    except READ_ERRORS:
        return
    check_fits(learner, problem, max_bytes)


def check_fits(learner: Any, problem: Problem, max_bytes: int) -> None:
    """Refuse a learner that would start with more than `max_bytes`.

    Args:
      learner: The spec of the learner.
      problem: The problem that it starts with.
      max_bytes: The limit.
    """
    size = HASHED_COLUMN_BYTES * problem.n_features if problem.n_hashed else 0
    if size > max_bytes:
        advice = "use fewer bits, or start the service with a larger --limit state"
        raise Rejected("problem.schema.bits", f"such a table takes {size} bytes, the limit is {max_bytes}: {advice}")
    spec, largest = {"learner": learner, "problem": problem._replace(feature_names=())._asdict()}, SMALL_SIZE
    # It is built with small sizes first, then with sizes twice as large, and so on. So a state that grows with the
    # product of three sizes is refused before it takes more than eight times what is allowed.
    while True:
        smaller = _capped(spec, largest)
        if _initial_bytes(smaller["learner"], smaller["problem"]) > max_bytes:
            raise Rejected("learner", f"would start with more than {max_bytes} bytes, the limit of a state")
        if smaller == spec:
            return
        largest *= 2


def size_of(state: Any) -> float:
    """Return the bytes of the arrays in a state."""
    if isinstance(state, np.ndarray):
        return float(state.nbytes)
    if isinstance(state, WeightTable):
        return float(HASHED_COLUMN_BYTES * state.n_columns)
    return sum(map(size_of, state)) if isinstance(state, tuple) else 0.0


def _initial_bytes(learner: Any, problem: Mapping[str, Any]) -> float:
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
