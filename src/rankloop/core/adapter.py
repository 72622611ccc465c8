"""The one adapter from people's words to ours: candidates by id and name as arrays, feedback by id as `Feedback`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import IncompatibleFeedback, InvalidInput
from rankloop.core.types import Clicks, Feedback, Floats, Ints, Preferred, Relevances, Reward, real_numbers

Id = str | int
KINDS = {"clicks": Clicks, "relevances": Relevances, "preferred": Preferred, "reward": Reward}


class Candidates(NamedTuple):
    """Item ids and one row of features for each."""

    ids: list[Id]
    features: Floats
    missing: int  # features that were not given and counted as 0


def candidates_of(candidates: Any, names: Sequence[str], ids: Sequence[Id] = ()) -> Candidates:
    """`{id: {feature: value}}`, a list of dicts with an `id`, an array with `ids`, or a DataFrame, as arrays."""
    if isinstance(candidates, Mapping):
        return _from_rows(list(candidates), list(candidates.values()), names)
    if hasattr(candidates, "to_pydict"):  # an Arrow table
        return _from_columns(candidates.to_pydict(), range(len(candidates)), names)
    if hasattr(candidates, "columns"):  # pandas, polars
        columns = {str(column): list(candidates[column]) for column in candidates.columns}
        return _from_columns(columns, getattr(candidates, "index", range(len(candidates))), names)
    if isinstance(candidates, Sequence) and candidates and isinstance(candidates[0], Mapping):
        return _from_records(candidates, names)
    return _from_array(candidates, names, ids)


def feature_rows(ids: Sequence[Id], rows: Sequence[Any], names: Sequence[str], width: int) -> tuple[Floats, int]:
    """One row per item, by position or by name, and how many features were missing; numbers are known to be numbers."""
    missing, listed = 0, []
    for id, row in zip(ids, rows):
        if isinstance(row, Mapping):
            _check_names(row, names, f"item {id!r}")
            missing += width - len(row)
            row = [row.get(name, 0.0) for name in names]
        if len(row) != width:
            raise InvalidInput(f"item {id!r} has {len(row)} features, this ranker has {width}")
        listed.append(row)
    features = np.array(listed, dtype=np.float64).reshape(len(ids), width)
    if not np.isfinite(features).all():
        item, column = np.argwhere(~np.isfinite(features))[0]
        raise InvalidInput(f"item {ids[item]!r}: feature {column} must be a finite number")
    return features, missing


def named_row(values: Any, names: Sequence[str], where: str) -> tuple[list[float], int]:
    """The values in the order of `names`, and how many were missing; a name that nobody announced is refused."""
    if not isinstance(values, Mapping):
        row = list(values) if isinstance(values, Sequence) and not isinstance(values, str) else np.ravel(values)
        if len(row) != len(names):
            raise InvalidInput(f"{where} has {len(row)} numbers for {len(names)} features")
        values = dict(zip(names, row))
    _check_names(values, names, where)
    for name, value in values.items():
        if isinstance(value, bool | np.bool_ | str) or not _is_finite(value):
            raise InvalidInput(f"{where}: {name} must be a finite number, got {value!r}")
    return [float(values.get(name, 0.0)) for name in names], len(names) - len(values)


def plain_ids(ids: Iterable[Any]) -> list[Id]:
    """Ids as JSON gives them back: texts and whole numbers, each once."""
    if isinstance(ids, str) or not isinstance(ids, Iterable) or (isinstance(ids, np.ndarray) and ids.ndim != 1):
        raise InvalidInput(f"ids are a list, got {ids!r:.80}")
    plain = [id.item() if isinstance(id, np.generic) else id for id in ids]
    strange = [id for id in plain if type(id) not in (str, int)]
    if strange:
        raise InvalidInput(f"ids are texts or whole numbers, got {strange[0]!r}")
    if len(set(plain)) != len(plain):
        repeated = next(id for id, count in Counter(plain).items() if count > 1)
        raise InvalidInput(f"the item {repeated!r} is given twice")
    return plain


def one_kind(given: Mapping[str, Any]) -> tuple[str, Any]:
    """The one kind of feedback that is given, and its value."""
    named = [kind for kind in KINDS if given[kind] is not None]
    if len(named) != 1:
        raise InvalidInput(f"give one of {', '.join(KINDS)}; got {' and '.join(named) or 'none'}")
    return named[0], given[named[0]]


def named_values(
    kind: str, value: Any, number: Mapping[Any, int], key: Callable[[Id], Any] = lambda id: id
) -> tuple[list[int], list[float]]:
    """The items that feedback names, as numbers, with what it says of each; `number` is that of an item by its key."""
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
    """What the learner is told; a preferred order goes on with whatever else was ranked."""
    if kind == "reward":
        return Reward(float(values[0]))
    numbers = np.array(items, dtype=np.int64)
    if kind == "preferred":
        first = set(numbers.tolist())
        rest = [item for item in ranking.tolist() if item not in first]
        return Preferred(np.concatenate([numbers, np.array(rest, dtype=np.int64)]))
    amounts = np.array(values, dtype=np.float64)
    return Relevances(numbers, amounts) if kind == "relevances" else Clicks(numbers, amounts)


def _check_names(values: Mapping[Any, Any], names: Sequence[str], where: str) -> None:
    unknown = [name for name in values if name not in names]
    if unknown:
        known = ", ".join(map(str, names)) or "none"
        raise InvalidInput(f"{where} has the feature {unknown[0]!r}, which is not one of: {known}")


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError, OverflowError):
        return False


def _amounts(values: Iterable[Any], kind: str) -> list[float]:
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        raise IncompatibleFeedback(f"{kind} must be numbers") from None


def _from_rows(given_ids: Iterable[Any], rows: Sequence[Any], names: Sequence[str]) -> Candidates:
    ids = plain_ids(given_ids)
    if not ids:
        raise InvalidInput("there are no items to rank; give at least one")
    named = [named_row(row, names, f"item {id!r}") for id, row in zip(ids, rows)]
    features, _ = feature_rows(ids, [row for row, _ in named], names, len(names))
    return Candidates(ids, features, sum(missing for _, missing in named))


def _from_records(records: Sequence[Any], names: Sequence[str]) -> Candidates:
    if "id" in names:
        raise InvalidInput("with a feature called 'id' give {id: {feature: value}}: in a list, id names the item")
    for i, record in enumerate(records):
        if not isinstance(record, Mapping) or "id" not in record:
            raise InvalidInput(f"item {i} of the list lacks its id, as in {{'id': 'a', …}}")
    rows = [{name: value for name, value in record.items() if name != "id"} for record in records]
    return _from_rows([record["id"] for record in records], rows, names)


def _from_columns(columns: Mapping[str, Sequence[Any]], index: Iterable[Any], names: Sequence[str]) -> Candidates:
    by_column = "id" in columns and "id" not in names
    given = {name: values for name, values in columns.items() if not (by_column and name == "id")}
    ids = list(columns["id"] if by_column else index)
    rows = [dict(zip(given, row)) for row in zip(*given.values())] if given else [{} for _ in ids]
    return _from_rows(ids, rows, names)


def _from_array(rows: Any, names: Sequence[str], ids: Sequence[Id]) -> Candidates:
    try:
        array = real_numbers(rows, "candidates")
    except InvalidInput:
        raise InvalidInput("candidates are {id: {feature: value}}, a list of dicts, an array or a DataFrame") from None
    if array.ndim != 2 or array.shape[1] != len(names):
        raise InvalidInput(f"an array of candidates has one row per item and {len(names)} columns, got {array.shape}")
    listed = plain_ids(ids) or list(range(len(array)))
    if len(listed) != len(array):
        raise InvalidInput(f"{len(listed)} ids for {len(array)} rows")
    return Candidates(listed, array, 0)
