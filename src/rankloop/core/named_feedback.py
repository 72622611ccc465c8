"""What people revealed, told by the ids of items, as feedback that a session takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rankloop.core.errors import IncompatibleFeedback
from rankloop.core.tables import Id, plain_ids
from rankloop.core.types import Clicks, Feedback, Floats, Ints, Preferred, Relevances, Reward


def named_feedback(ids: Sequence[Id], ranking: Sequence[int], kind: str, value: Any) -> Feedback:
    """The feedback that `value` means for a ranking of items with these ids; item i is ids[i]."""
    number = {id: i for i, id in enumerate(ids)}

    def numbers(named: Any) -> Ints:
        if isinstance(named, str) or not isinstance(named, Iterable):
            raise IncompatibleFeedback(f"{kind} must be a list of ids, got {named!r:.60}")
        listed = plain_ids(named)
        unknown = [id for id in listed if id not in number]
        if unknown:
            raise IncompatibleFeedback(f"{kind} names {unknown[0]!r}, which was not among the shown items")
        return np.array([number[id] for id in listed], dtype=np.int64)

    if kind == "reward":
        return Reward(float(_amounts([value], kind)[0]))
    if kind == "relevances" and not isinstance(value, Mapping):
        raise IncompatibleFeedback("relevances are a table of grades by id, as in {'a': 1}")
    items = numbers(value)
    if kind == "preferred":
        first = set(items.tolist())
        rest = [item for item in ranking if item not in first]
        return Preferred(np.concatenate([items, np.array(rest, dtype=np.int64)]))
    values = _amounts(value.values(), kind) if isinstance(value, Mapping) else np.ones(len(items))
    return Relevances(items, values) if kind == "relevances" else Clicks(items, values)


def _amounts(values: Iterable[Any], kind: str) -> Floats:
    try:
        return np.array([float(value) for value in values])
    except (TypeError, ValueError, OverflowError):
        raise IncompatibleFeedback(f"{kind} must be numbers") from None
