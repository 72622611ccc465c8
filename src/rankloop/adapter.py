"""From names to arrays: candidates by id, features by name and feedback by id, as `Query` and `Feedback`."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from rankloop.core.errors import IncompatibleFeedback, InvalidInput, Rejected
from rankloop.core.types import (
    Bools,
    Clicks,
    Feedback,
    Floats,
    Ints,
    Preferred,
    Problem,
    Query,
    Relevances,
    Reward,
    Rows,
    finite_floats,
    real_numbers,
)

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


NO_FEATURES, NO_CONTEXT = np.empty((0, 0)), np.empty(0)


class ContextEncoding(Protocol):
    """How columns of a context, as people have them, become numbers."""

    @property
    def wanted(self) -> str: ...

    def row_of(self, columns: Mapping[str, Any]) -> list[float]: ...


class RawValues(NamedTuple):
    """What was asked in people's own values, from which the query is encoded again when it is learned from."""

    rows: list[Mapping[str, Any]]  # of all ids, values by name
    context: Mapping[str, Any]
    at: float  # when, in seconds since 1970: dates become ages
    schema: int  # the version by which it was encoded


class RowEncoder(Protocol):
    """How values by name become `Rows`."""

    @property
    def version(self) -> int: ...
    @property
    def n_fields(self) -> int: ...
    def rows(
        self, ids: Sequence[Any], rows: Sequence[Mapping[str, Any]], context: Mapping[str, Any], at: float = ...
    ) -> Rows: ...


class QueryRequest(NamedTuple):
    """A checked request: `query` holds the `candidates` among `ids`; the pinned stand before them."""

    ids: list[Id]
    features: Floats  # of all ids, as given; empty where there are raw values
    query: Query
    candidates: list[int] | None  # None: all ids
    pinned: list[int]
    hidden: set[int]  # ranked with the others, as a fixed set demands, but not shown
    fixed: bool  # whether the items are a fixed set
    missing: int  # features and columns that were not given and counted as 0, or as missing where there is a schema
    values: RawValues | None = None  # where there is a schema
    catalogue: int = 0  # the event after which the rest of the values was read from a catalogue
    base_model: str = ""  # whose score the base score of the items is
    given: Bools | None = None  # which of the features were given; None: all

    def shown_order(self, ranking: Ints) -> list[int]:
        """What people see: the pinned, then the ranked, without the hidden."""
        order: list[int] = ranking.tolist()
        if self.candidates is not None:
            order = [self.candidates[i] for i in order]
        if self.pinned or self.hidden:
            away = self.hidden.union(self.pinned)
            order = self.pinned + [i for i in order if i not in away]
        return order

    def shows_as_ranked(self, problem: Problem) -> bool:
        """Whether what people see is the learner's ranking, position by position: propensity and lesson are right.

        Items left out beforehand change nothing. A pin in a list that is seen as a whole shifts every position alike;
        in a list that is seen in part it pushes items out of sight, of which the learner knows nothing.
        """
        if self.hidden:
            return False
        return not self.pinned or (not self.fixed and problem.shown is None and problem.depth is None)


class Adapter(NamedTuple):
    """What a ranker calls its features, its items and the columns of its context."""

    feature_names: tuple[str, ...]
    n_features: int
    items: tuple[Id, ...] = ()  # of a fixed set
    n_context: int = 0
    context_names: tuple[str, ...] = ()
    encoding: ContextEncoding | None = None  # of a context by names
    key: Callable[[Id], Any] = str  # what tells ids apart: in JSON a table names them by their text
    encoder: RowEncoder | None = None  # where there is a schema
    fills: bool = False  # whether a feature that is not given counts as the mean of the others, not as 0

    def query(
        self,
        ids: list[Id],
        rows: Sequence[Any] | Floats,
        context: Any = (),
        query_id: str = "",
        pinned: Sequence[Id] = (),
        excluded: Sequence[Id] = (),
        at: float = 0.0,
    ) -> QueryRequest:
        """The query of a request whose numbers are numbers, or `Rejected` with the field that is wrong.

        `at` is when it is asked; where there is a schema, dates become ages by it.
        """
        if self.encoder is not None:
            ids, rows = self._distinct_items(ids, rows)
            chosen = self._chosen(ids, pinned, excluded)
            return self._encoded(self.encoder, ids, rows, context, query_id, chosen, at)
        table = self._candidates(ids, rows)
        row, missing = self._context(context)
        candidates, first, hidden = self._chosen(table.ids, pinned, excluded)
        features = table.features
        return QueryRequest(
            ids=table.ids,
            features=features,
            query=Query(query_id, features if candidates is None else np.ascontiguousarray(features[candidates]), row),
            candidates=candidates,
            pinned=first,
            hidden=hidden,
            fixed=bool(self.items),
            missing=missing + table.n_absent,
            given=table.given,
        )

    def _chosen(
        self, ids: list[Id], pinned: Sequence[Id], excluded: Sequence[Id]
    ) -> tuple[list[int] | None, list[int], set[int]]:
        """Which items the learner ranks (None: all), which are pinned, and which are ranked but not shown."""
        if not pinned and not excluded:
            return None, [], set()
        number = {self.key(id): i for i, id in enumerate(ids)}
        left_out = set(self._numbers(excluded, number, "excluded"))
        first = self._numbers(pinned, number, "pinned")
        if left_out.intersection(first):
            raise Rejected("pinned", "an item is both pinned and excluded")
        fixed, away = bool(self.items), left_out.union(first)
        candidates = None if fixed or not away else [i for i in range(len(number)) if i not in away]
        if len(away) == len(number):
            raise Rejected("items", "nothing is left to rank after pins and exclusions")
        return candidates, first, left_out if fixed else set()

    def _encoded(
        self,
        encoder: RowEncoder,
        ids: list[Id],
        rows: Any,
        context: Any,
        query_id: str,
        chosen: tuple[list[int] | None, list[int], set[int]],
        at: float,
    ) -> QueryRequest:
        context = {} if isinstance(context, Sequence) and not len(context) else context
        if not isinstance(context, Mapping):
            raise Rejected("context", f"must be values by name, as the schema has them, got {context!r:.60}")
        candidates, pinned, hidden = chosen
        try:
            if candidates is None:
                features = encoder.rows(ids, rows, context, at)
            else:
                encoder.rows(ids, rows, context, at)  # what is pinned or left out is written down too
                features = encoder.rows([ids[i] for i in candidates], [rows[i] for i in candidates], context, at)
        except Rejected:
            raise
        except InvalidInput as error:
            raise Rejected("items", str(error)) from None
        return QueryRequest(
            ids=ids,
            features=NO_FEATURES,
            query=Query(query_id, features, NO_CONTEXT),
            candidates=candidates,
            pinned=pinned,
            hidden=hidden,
            fixed=bool(self.items),
            missing=encoder.n_fields * len(rows) - sum(map(len, rows)),
            values=RawValues(list(rows), dict(context), at, encoder.version),
        )

    def _distinct_items(self, ids: list[Id], rows: Any) -> tuple[list[Id], Any]:
        """Each item once; those of a fixed set all, and in its order."""
        if not ids:
            if not self.items:
                only = "nothing to rank is enough for a fixed set only"
                raise Rejected("items", f"there are no items to rank; give at least one ({only})")
            return list(self.items), [{}] * len(self.items)
        keys = list(map(self.key, ids))
        if len(set(keys)) != len(keys):
            raise Rejected("items", f"the item {Counter(keys).most_common(1)[0][0]!r} is given twice")
        if self.items and ids != list(self.items):
            if set(keys) != set(map(self.key, self.items)):
                raise Rejected("items", "these are not the items of the fixed set: give all of them, or none")
            row_of = dict(zip(keys, rows))
            ids, rows = list(self.items), [row_of[self.key(id)] for id in self.items]
        return ids, rows

    def _candidates(self, ids: list[Id], rows: Sequence[Any] | Floats) -> Candidates:
        if not ids and self.items:
            return Candidates(list(self.items), np.zeros((len(self.items), self.n_features)))
        ids, rows = self._distinct_items(ids, rows)
        try:
            table = feature_rows(ids, rows, self.feature_names, self.n_features)
        except InvalidInput as error:
            raise Rejected("items", str(error)) from None
        return table.with_means() if self.fills else table

    def _context(self, given: Any) -> tuple[Floats, int]:
        """The numbers of the asker, and how many columns were missing."""
        if not self.n_context and self.encoding is None and isinstance(given, list | tuple | dict) and not given:
            return NO_CONTEXT, 0
        by_name, missing = isinstance(given, Mapping), 0
        try:
            if by_name and self.encoding is not None:
                given = self.encoding.row_of(given)
            elif self.context_names or (by_name and not self.n_context):
                given, missing = named_row(given, self.context_names, "context")
            elif by_name:
                raise InvalidInput("columns by name need a context in the ranker's problem; give numbers")
            context = np.array(given, dtype=np.float64)
        except Rejected:
            raise
        except (InvalidInput, TypeError, ValueError) as error:
            raise Rejected("context", str(error)) from None
        if context.shape != (self.n_context,) or not np.isfinite(context).all():
            wanted = f"{self.n_context} finite numbers"
            raise Rejected("context", f"{self.encoding.wanted}, or {wanted}" if self.encoding else f"must be {wanted}")
        return context, missing

    def _numbers(self, ids: Sequence[Id], number: Mapping[Any, int], field: str) -> list[int]:
        unknown = [id for id in ids if self.key(id) not in number]
        if unknown:
            raise Rejected(field, f"{unknown[0]!r} is not among the items")
        found = [number[self.key(id)] for id in ids]
        if len(set(found)) != len(found):
            raise Rejected(field, "an item is named twice")
        return found


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
