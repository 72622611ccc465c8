"""Candidates by id and name, from tables, lists, arrays and data frames, as rows of features."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput, Rejected
from rankloop.core.types import Bools, Floats, finite_floats, real_numbers

Id = str | int
PLAIN = {str, int}
MAX_ID_LENGTH, MIN_ID, MAX_ID = 256, -(2**63), 2**64 - 1
MAX_STEP = 50_000  # numbers that become an array in one step
INVALID_ID = f"an id is longer than {MAX_ID_LENGTH} characters, or a number of more than 64 bits"


class Candidates(NamedTuple):
    """Item ids and one row of features for each."""

    ids: list[Id]
    features: Floats
    given: Bools | None = None  # None: all; what was not given counts as 0

    @property
    def n_absent(self) -> int:
        """How many numbers were not given."""
        return 0 if self.given is None else int(self.given.size - np.count_nonzero(self.given))

    def with_means(self) -> "Candidates":
        """What was not given counts as the mean of what the other items have."""
        if self.given is None:
            return self
        features = self.features.copy()
        for column in np.flatnonzero(~self.given.all(axis=0)):
            has_value = self.given[:, column]
            others = features[has_value, column]
            features[~has_value, column] = others.mean() if len(others) else 0.0
        return self._replace(features=features)


def are_valid_ids(ids: Sequence[Id]) -> bool:
    """Whether a log can hold all of these."""
    if {str} == set(map(type, ids)):
        return max(map(len, ids)) <= MAX_ID_LENGTH  # type: ignore[arg-type]
    return all(map(is_valid_id, ids))


def is_valid_id(id: Id) -> bool:
    """Whether a log can hold this id."""
    return len(id) <= MAX_ID_LENGTH if isinstance(id, str) else MIN_ID <= id <= MAX_ID


def candidates_of(candidates: Any, names: Sequence[str], ids: Sequence[Id] = ()) -> Candidates:
    """`{id: {feature: value}}`, a list of dicts with an `id`, an array with `ids`, or a DataFrame, as arrays."""
    is_list = isinstance(candidates, Sequence) and len(candidates) > 0 and isinstance(candidates[0], Mapping)
    if is_list or isinstance(candidates, Mapping) or hasattr(candidates, "columns"):
        listed, rows = _listed(candidates, names)
        return _from_rows(listed, rows, names)
    return _from_array(candidates, names, ids)


def raw_candidates(candidates: Any, names: Mapping[str, Any]) -> tuple[list[Id], list[Any]]:
    """The same as ids and values by name, whatever the values are; in a DataFrame NaN stands for what is missing."""
    if candidates is None:
        return [], []
    is_frame = hasattr(candidates, "columns")
    if not is_frame and (isinstance(candidates, str) or not isinstance(candidates, Mapping | Sequence)):
        raise InvalidInput("candidates are {id: {field: value}}, a list of dicts or a DataFrame: the schema has fields")
    ids, rows = _listed(candidates, names)
    if is_frame and not hasattr(candidates, "to_pydict"):
        rows = [{name: _none_if_missing(value) for name, value in row.items()} for row in rows]
    # copied, as whoever asks may change theirs before the feedback comes
    return plain_ids(ids), [dict(row) if isinstance(row, Mapping) else row for row in rows]


def _listed(candidates: Any, names: Collection[str]) -> tuple[list[Any], list[Any]]:
    """Return ids and values by name of a table by id, a data frame or a list of records."""
    if isinstance(candidates, Mapping):
        return list(candidates), list(candidates.values())
    if hasattr(candidates, "columns"):
        is_arrow = hasattr(candidates, "to_pydict")
        columns = (
            candidates.to_pydict() if is_arrow else {str(name): list(candidates[name]) for name in candidates.columns}
        )
        has_ids = "id" in columns and "id" not in names
        ids = columns.pop("id") if has_ids else list(getattr(candidates, "index", range(len(candidates))))
        return ids, [dict(zip(columns, row)) for row in zip(*columns.values())] if columns else [{} for _ in ids]
    if "id" in names:
        raise InvalidInput("with a feature called 'id' give {id: {feature: value}}: in a list, id names the item")
    for i, record in enumerate(candidates):
        if not isinstance(record, Mapping) or "id" not in record:
            raise InvalidInput(f"item {i} of the list lacks its id, as in {{'id': 'a', …}}")
    rows = [{name: value for name, value in record.items() if name != "id"} for record in candidates]
    return [record["id"] for record in candidates], rows


def _none_if_missing(value: Any) -> Any:
    """None for what a data frame calls NaN, NaT or NA: none of these equals itself."""
    if isinstance(value, str | list | tuple | dict | set | np.ndarray):
        return value
    try:
        return value if value == value else None
    except TypeError:  # the comparison of NA with itself has no truth value
        return None


def feature_rows(ids: list[Id], rows: Sequence[Any] | Floats, names: Sequence[str], width: int) -> Candidates:
    """One row per item, given by position or by name; numbers are known to be numbers."""
    given: Bools | None = None
    if isinstance(rows, np.ndarray):
        features = rows
    elif {list} == set(map(type, rows)) and {width} == set(map(len, rows)):
        features = _array(rows, width)
    else:
        features, given = _named_array(ids, rows, names, width)
    if not np.isfinite(features).all():
        item, column = np.argwhere(~np.isfinite(features))[0]
        name = f"{names[column]} (feature {column})" if names else f"feature {column}"
        raise InvalidInput(f"item {ids[item]!r}: {name} must be a finite number")
    return Candidates(ids, features, given)


def _array(rows: Sequence[Any], width: int) -> Floats:
    """Lists of numbers as an array, in steps that leave other threads their turn."""
    if len(rows) * width <= MAX_STEP:
        return np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * width).reshape(len(rows), width)
    features, step = np.empty((len(rows), width)), max(1, MAX_STEP // width)
    for begin in range(0, len(rows), step):
        features[begin : begin + step] = rows[begin : begin + step]
    return features


def _named_array(ids: list[Id], rows: Sequence[Any], names: Sequence[str], width: int) -> tuple[Floats, Bools | None]:
    """Rows of which some are given by name, and which of their numbers were given (None: all)."""
    features, given = np.zeros((len(rows), width)), None
    positions = {name: position for position, name in enumerate(names)}
    for i, (id, row) in enumerate(zip(ids, rows)):
        if isinstance(row, Mapping):
            _check_names(row, positions, f"item {id!r}")
            if len(row) < width:
                given = np.ones(features.shape, np.bool_) if given is None else given
                columns = [positions[name] for name in row]
                given[i] = False
                given[i, columns] = True
                features[i, columns] = list(row.values())
                continue
            row = [row[name] for name in names]
        if len(row) != width:
            raise InvalidInput(f"item {id!r} has {len(row)} features, this ranker has {width}")
        features[i] = row
    return features, given


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
            raise Rejected(where, f"{name} must be a finite number, got {value!r}")
    return [float(values.get(name, 0.0)) for name in names], len(names) - len(values)


def plain_ids(ids: Iterable[Any]) -> list[Id]:
    """Ids as JSON gives them back: texts and whole numbers, each once."""
    if isinstance(ids, str) or not isinstance(ids, Iterable) or (isinstance(ids, np.ndarray) and ids.ndim != 1):
        raise InvalidInput(f"ids are a list, got {ids!r:.80}")
    plain = list(ids)
    if not PLAIN.issuperset(map(type, plain)):
        plain = [id.item() if isinstance(id, np.generic) else id for id in plain]
        strange = [id for id in plain if type(id) not in PLAIN]
        if strange:
            raise InvalidInput(f"ids are texts or whole numbers, got {strange[0]!r}")
    if len(set(plain)) != len(plain):
        repeated = next(id for id, count in Counter(plain).items() if count > 1)
        raise InvalidInput(f"the item {repeated!r} is given twice")
    return plain


def _check_names(values: Mapping[Any, Any], names: Collection[str], where: str) -> None:
    unknown = [name for name in values if name not in names]
    if unknown:
        known = ", ".join(map(str, names)) or "none"
        raise InvalidInput(f"{where} has the feature {unknown[0]!r}, which is not one of: {known}")


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError, OverflowError):
        return False


def _from_rows(given_ids: Iterable[Any], rows: Sequence[Any], names: Sequence[str]) -> Candidates:
    ids = plain_ids(given_ids)
    if not ids:
        raise InvalidInput("there are no items to rank; give at least one")
    named = [named_row(row, names, f"item {id!r}") for id, row in zip(ids, rows)]
    table = feature_rows(ids, [row for row, _ in named], names, len(names))
    if not any(missing for _, missing in named):
        return table
    given = [[not missing or name in row for name in names] for row, (_, missing) in zip(rows, named)]
    return table._replace(given=np.array(given, np.bool_))


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
    return Candidates(listed, finite_floats(array, 2, "features"))
