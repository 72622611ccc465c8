"""Feedback by id as `Feedback` by item number."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rankloop.adapter.candidates import Id, plain_ids
from rankloop.core.errors import IncompatibleFeedback, InvalidInput
from rankloop.core.types import Clicks, Feedback, Ints, Preferred, Relevances, Reward

KINDS = {"clicks": Clicks, "relevances": Relevances, "preferred": Preferred, "reward": Reward}


def one_kind(values: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the only kind of feedback that has a value, and that value.

    Args:
      values: For each of KINDS its value, None where there is none.

    Returns:
      The kind and its value.

    Raises:
      InvalidInput: If no kind or more than one has a value.
    """
    named = [kind for kind in KINDS if values[kind] is not None]
    if len(named) != 1:
        raise InvalidInput(f"give one of {', '.join(KINDS)}; got {' and '.join(named) or 'none'}")
    return named[0], values[named[0]]


def named_values(
    kind: str, value: Any, number: Mapping[Any, int], key: Callable[[Id], Any] = lambda id: id
) -> tuple[list[int], list[float]]:
    """Return the items that feedback names, as numbers, and what it says of each.

    Args:
      kind: One of KINDS.
      value: The feedback: ids, or a table by id.
      number: The number of each shown item by its key.
      key: Makes the key of an id.

    Returns:
      Item numbers and their values, 1 where the feedback has none; of a reward no item and its value.

    Raises:
      IncompatibleFeedback: If an item was not shown or is named twice, or a value is no number.
    """
    if kind == "reward":
        return [], _amounts([value], kind)
    if kind == "relevances" and not isinstance(value, Mapping):
        raise IncompatibleFeedback("relevances are a table of grades by id, as in {'a': 1}")
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise IncompatibleFeedback(f"{kind} must be a list of ids, got {value!r:.60}")
    items: list[int] = []
    for id in plain_ids(value):
        item = number.get(key(id))
        if item is None:
            raise IncompatibleFeedback(f"{kind} names {id!r:.80}, which was not among the shown items")
        items.append(item)
    if len(set(items)) != len(items):
        raise IncompatibleFeedback(f"{kind}: an item is named twice")
    return items, _amounts(value.values(), kind) if isinstance(value, Mapping) else [1.0] * len(items)


def feedback_of(kind: str, items: Sequence[int], values: Sequence[float], ranking: Ints) -> Feedback:
    """Return the `Feedback` that a learner takes.

    Args:
      kind: One of KINDS.
      items: The items that were named.
      values: What was said of each; of a reward the value alone.
      ranking: What was shown: a preferred order goes on with the items of it that were not named.

    Returns:
      Feedback of this kind.
    """
    if kind == "reward":
        return Reward(float(values[0]))
    numbers = np.array(items, dtype=np.int64)
    if kind == "preferred":
        first = set(numbers.tolist())
        others = [item for item in ranking.tolist() if item not in first]
        return Preferred(np.concatenate([numbers, np.array(others, dtype=np.int64)]))
    amounts = np.array(values, dtype=np.float64)
    return Relevances(numbers, amounts) if kind == "relevances" else Clicks(numbers, amounts)


def _amounts(values: Iterable[Any], kind: str) -> list[float]:
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        raise IncompatibleFeedback(f"{kind} must be numbers") from None
