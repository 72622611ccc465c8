"""Whether feedback fits the ranking that it answers: the border behind which kernels trust every index."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.core.errors import IncompatibleFeedback, InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.rankings import is_permutation
from rankloop.core.types import Clicks, Feedback, Floats, Ints, Preferred, Relevances, Reward, real_numbers

FAULTS = (
    "",
    "the decision's ranking is not a permutation of the query's items",
    "an item is named that was not in the part that is seen",
    "an item is named twice",
    "a number is not finite",
    "items and numbers differ in length",
    "it must name exactly the items that were seen",
    "a weight is negative",
)


@kernel
def fault_in(ranking: Ints, n_items: int, seen: int, items: Ints, values: Floats, exact: bool) -> int:
    """Which of FAULTS the feedback has, 0 for none; `exact`: every seen item must be named, with any number."""
    if not is_permutation(ranking, n_items):
        return 1
    if len(items) != len(values):
        return 5
    open_items = np.zeros(n_items, np.int8)
    for position in range(seen):
        open_items[ranking[position]] = 1
    for i in range(len(items)):
        if items[i] < 0 or items[i] >= n_items or open_items[items[i]] == 0:
            return 2
        if open_items[items[i]] == 2:
            return 3
        open_items[items[i]] = 2
        if not np.isfinite(values[i]):
            return 4
        if values[i] < 0 and not exact:
            return 7
    return 6 if exact and len(items) != seen else 0


def checked_feedback(feedback: Feedback, ranking: Ints, n_items: int, limit: int | None) -> Feedback:
    """The feedback with arrays as kernels want them; `limit` is how many places could be seen (None: all)."""
    seen = n_items if limit is None or limit > n_items else limit
    kind = type(feedback)
    if isinstance(feedback, Clicks | Relevances):
        items, values = whole_numbers(feedback[0]), flat_numbers(feedback[1])
        fault = fault_in(ranking, n_items, seen, items, values, kind is Relevances)
        if items is not feedback[0] or values is not feedback[1]:
            feedback = Relevances(items, values) if kind is Relevances else Clicks(items, values)
    elif isinstance(feedback, Preferred):
        better = whole_numbers(feedback.ranking)
        fault = fault_in(ranking, n_items, n_items, better, np.zeros(len(better)), True)
        feedback = Preferred(better)
    else:
        value = flat_numbers([feedback.value])
        fault = fault_in(ranking, n_items, 1, ranking[:1], value, True)
        feedback = Reward(float(value[0]))
    if fault:
        raise IncompatibleFeedback(f"{kind.__name__}: {FAULTS[fault]}")
    return feedback


def whole_numbers(values: Any) -> Ints:
    """A flat int64 array; itself where it is one."""
    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1:
        return values
    try:
        array = np.asarray(values)
        if array.ndim == 1 and (not array.size or array.dtype.kind in "iu"):
            return array.astype(np.int64)
    except (TypeError, ValueError):
        pass
    raise IncompatibleFeedback("items and rankings are lists of whole numbers")


def flat_numbers(values: Any) -> Floats:
    """A flat float64 array; itself where it is one."""
    if type(values) is np.ndarray and values.dtype == np.float64 and values.ndim == 1:
        return values
    try:
        array = real_numbers(values, "grades, weights and rewards")
    except InvalidInput as error:
        raise IncompatibleFeedback(str(error)) from None
    if array.ndim != 1:
        raise IncompatibleFeedback("grades and weights are flat lists of numbers")
    return array
