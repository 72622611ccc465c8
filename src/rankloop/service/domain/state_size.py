"""How much memory a learner begins with, found without taking much more of it than is allowed."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import numpy as np

from rankloop.core.errors import Rejected
from rankloop.core.registry import build
from rankloop.core.saved_session import HEADER, UNREADABLE
from rankloop.core.types import Problem
from rankloop.core.weight_table import WeightTable
from rankloop.service.errors import TooLarge

CELL = 16  # bytes of a hashed column
SMALL = 64  # sizes up to here stay as they are


def check_file_fits(content: bytes, most: int, max_header: int) -> None:
    """Refuse a saved file whose learner would; what is wrong with it otherwise is found by those who load it."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            size = archive.getinfo(HEADER).file_size
            if max_header < size <= len(content):  # reading it would hold up everybody
                raise TooLarge(f"the file has a header of {size} bytes; the limit for a body is {max_header}")
            header = {} if size > len(content) else json.loads(archive.read(HEADER))
        learner, problem = header["learner"], Problem(**header["problem"])
    except UNREADABLE:
        return
    check_fits(learner, problem, most)


def check_fits(learner: Any, problem: Problem, most: int) -> None:
    """Refuse a learner, by its spec, that would begin with more than `most` bytes.

    It is tried with a small share of every size first, then with twice that, and so on: a state that grows with the
    product of three sizes is found to be too large before it takes more than eight times what is allowed.
    """
    size = CELL * problem.n_features if problem.n_hashed else 0
    if size > most:
        advice = "take fewer bits, or start the service with a larger --limit state"
        raise Rejected("problem.schema.bits", f"such a table takes {size} bytes, the limit is {most}: {advice}")
    sizes = [*_numbers(learner), *_numbers(problem._asdict())]
    share = min(1.0, SMALL / max(sizes, default=SMALL))
    while share <= 1.0:
        if _begun(learner, problem, share) > most:
            raise Rejected("learner", f"would begin with more than {most} bytes, which is the limit for a state")
        share = 1.0 if 0.5 < share < 1.0 else 2 * share


def size_of(state: Any) -> float:
    """The bytes of the arrays in a state."""
    if isinstance(state, np.ndarray):
        return float(state.nbytes)
    if isinstance(state, WeightTable):
        return float(CELL * state.n_columns)
    return sum(map(size_of, state)) if isinstance(state, tuple) else 0.0


def _begun(learner: Any, problem: Problem, share: float) -> float:
    """The bytes that the learner begins with when every size is cut down; 0 where that makes no sense."""
    smaller = Problem(**_cut(problem._replace(feature_names=())._asdict(), share))
    try:
        return size_of(build(_cut(learner, share), "learner").init(smaller))
    except MemoryError:
        return float("inf")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return 0.0


def _numbers(spec: Any) -> Iterator[int]:
    """Every size in a spec or a problem."""
    if isinstance(spec, dict):
        for part in spec.values():
            yield from _numbers(part)
    elif type(spec) is int:
        yield spec


def _cut(spec: Any, share: float) -> Any:
    """The same with a share of every size."""
    if isinstance(spec, dict):
        return {name: _cut(part, share) for name, part in spec.items()}
    return max(SMALL, round(spec * share)) if type(spec) is int and spec > SMALL else spec
