"""The adapter from names to arrays: candidates by id, features by name and feedback by id."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from rankloop.core import types
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, Rejected
from rankloop.core.types import Bools, Clicks, Feedback, Floats, Ints, Preferred, Problem, Query, Relevances, Reward

Id = str | int
ID_TYPES = {str, int}
MAX_ID_LENGTH, MIN_ID, MAX_ID = 256, -(2**63), 2**64 - 1
MAX_NUMBERS_AT_ONCE = 50_000  # become an array in one step, so that other threads get their turn
INVALID_ID = f"an id is longer than {MAX_ID_LENGTH} characters, or a number of more than 64 bits"


def are_valid_ids(ids: Sequence[Id]) -> bool:
    """Return true if a log can hold all of these ids."""
    if {str} == set(map(type, ids)):
        return max(map(len, ids)) <= MAX_ID_LENGTH  # type: ignore[arg-type]
    return all(map(is_valid_id, ids))


def is_valid_id(id: Id) -> bool:
    """Return true if a log can hold this id."""
    return len(id) <= MAX_ID_LENGTH if isinstance(id, str) else MIN_ID <= id <= MAX_ID


def _records_of(candidates: Any, names: Collection[str]) -> tuple[list[Any], list[Any]]:
    """Return ids and values by name of a table by id, a data frame (with None for NaN) or a list of records."""
    if isinstance(candidates, Mapping):
        return list(candidates), list(candidates.values())
    if hasattr(candidates, "columns"):
        if hasattr(candidates, "to_pydict"):  # an Arrow table
            columns = candidates.to_pydict()
        else:
            columns = {str(name): list(map(_none_if_missing, candidates[name])) for name in candidates.columns}
        has_ids = "id" in columns and "id" not in names
        ids = columns.pop("id") if has_ids else list(getattr(candidates, "index", range(len(candidates))))
        return ids, [dict(zip(columns, row)) for row in zip(*columns.values())] if columns else [{} for _ in ids]
    if "id" in names:
        raise InvalidInput("this ranker has a feature named 'id', so give {id: {feature: value}} instead of a list")
    for i, record in enumerate(candidates):
        if not isinstance(record, Mapping) or "id" not in record:
            raise InvalidInput(f"item {i} of the list lacks its id, as in {{'id': 'a', …}}")
    rows = [{name: value for name, value in record.items() if name != "id"} for record in candidates]
    return [record["id"] for record in candidates], rows


def _none_if_missing(value: Any) -> Any:
    """Return None for NaN, NaT and NA of a data frame, none of which equals itself."""
    try:
        is_value = isinstance(value, str | list | tuple | dict | set | np.ndarray) or value == value
        return value if is_value else None
    except TypeError:  # NA == NA has no truth value
        return None


def named_row(values: Any, names: Sequence[str], where: str) -> tuple[list[float], int]:
    """Return values in the order of the names, missing ones as 0, and the number of missing ones.

    Args:
      values: Numbers by name, or as many numbers as there are names.
      names: The names.
      where: What the values belong to, for error messages.
    """
    values = _by_name(values, names, where)
    unknown = [name for name in values if name not in names]
    if unknown:
        valid = ", ".join(map(str, names)) or "none"
        raise InvalidInput(f"{where} has the feature {unknown[0]!r}, which is not one of: {valid}")
    for name, value in values.items():
        try:
            is_number = not isinstance(value, bool | np.bool_ | str) and bool(np.isfinite(float(value)))
        except (TypeError, ValueError, OverflowError):
            is_number = False
        if not is_number:
            raise Rejected(where, f"{name} must be a finite number, got {value!r}")
    return [float(values.get(name, 0.0)) for name in names], len(names) - len(values)


def _by_name(values: Any, names: Sequence[str], where: str) -> Mapping[str, Any]:
    """Return numbers by name; those of a list or an array stand in the order of the names."""
    if isinstance(values, Mapping):
        return values
    row = list(values) if isinstance(values, Sequence) and not isinstance(values, str) else np.ravel(values)
    if len(row) != len(names):
        raise InvalidInput(f"{where} has {len(row)} numbers for {len(names)} features")
    return dict(zip(names, row))


def plain_ids(ids: Iterable[Any]) -> list[Id]:
    """Return ids as JSON can carry them: strings and integers, each once; raise `InvalidInput` for others."""
    if isinstance(ids, str) or not isinstance(ids, Iterable) or (isinstance(ids, np.ndarray) and ids.ndim != 1):
        raise InvalidInput(f"ids must be a list, got {ids!r:.80}")
    plain = list(ids)
    if not ID_TYPES.issuperset(map(type, plain)):
        plain = [id.item() if isinstance(id, np.generic) else id for id in plain]
        invalid = [id for id in plain if type(id) not in ID_TYPES]
        if invalid:
            raise InvalidInput(f"ids must be strings or integers, got {invalid[0]!r}")
    if len(set(plain)) != len(plain):
        repeated = next(id for id, count in Counter(plain).items() if count > 1)
        raise InvalidInput(f"the item {repeated!r} is given twice")
    return plain


NO_FEATURES, NO_CONTEXT = np.empty((0, 0)), np.empty(0)


class RawValues(NamedTuple):
    """The raw values of a request with a schema, from which the query can be encoded again."""

    rows: list[Mapping[str, Any]]  # values by name, one row per item
    context: Mapping[str, Any]
    at: float  # the time in seconds since 1970; dates become ages
    schema: int  # the version of the schema


class QueryRequest(NamedTuple):
    """A checked request to rank: `query` holds the `candidates` among `ids`, and pinned items are shown before them."""

    ids: list[Id]
    features: Floats  # of all ids; empty where there are raw values
    query: Query
    candidates: list[int] | None  # None: all ids
    pinned: list[int]
    hidden: set[int]  # excluded items of a fixed set: ranked with the others but not shown
    fixed: bool  # the items are a fixed set
    missing: int  # the number of values that were missing
    values: RawValues | None = None  # where there is a schema
    has_catalogue: bool = False  # some of the values are those of a catalogue
    base_model: str = ""  # the model that computed the base score
    present: Bools | None = None  # the features that were not missing; None: all
    rules: Mapping[str, list[int]] = {}  # by rule the items that it has pinned or left out

    def shown_order(self, ranking: Ints) -> list[int]:
        """Return the shown items: the pinned ones, then the ranked ones, without the hidden ones."""
        order: list[int] = ranking.tolist()
        if self.candidates is not None:
            order = [self.candidates[i] for i in order]
        if self.pinned or self.hidden:
            left_out = self.hidden.union(self.pinned)
            order = self.pinned + [i for i in order if i not in left_out]
        return order

    def shows_as_ranked(self, problem: Problem) -> bool:
        """Return true if users see the learner's ranking, so that its propensity and its update are right."""
        # Excluding items before the ranking changes nothing. A pinned item shifts all positions alike where the
        # complete list is visible; elsewhere it pushes items out of the visible part, of which the learner knows
        # nothing.
        if self.hidden:
            return False
        return not self.pinned or (not self.fixed and problem.shown is None and problem.depth is None)


class Adapter(NamedTuple):
    """The names of a ranker's features, items and context columns."""

    feature_names: tuple[str, ...]
    n_features: int
    items: tuple[Id, ...] = ()  # the fixed set, if there is one
    n_context: int = 0
    context_names: tuple[str, ...] = ()
    encoding: Any = None  # `logs.context.Encoding` of a context by names
    key: Callable[[Id], Any] = str  # ids with equal keys are equal; the keys of a JSON object are strings
    encoder: Any = None  # `features.Encoder`, where there is a schema
    fills: bool = False  # a missing feature counts as the mean of the other items, not as 0

    def numeric_candidates(self, candidates: Any, ids: Sequence[Id] = ()) -> tuple[list[Id], Any]:
        """Return ids, and rows of numbers by name or as an array, of candidates as `Ranker.rank` takes them."""
        names = self.feature_names
        is_list = isinstance(candidates, Sequence) and len(candidates) > 0 and isinstance(candidates[0], Mapping)
        if candidates is None:
            return [], []
        if is_list or isinstance(candidates, Mapping) or hasattr(candidates, "columns"):
            raw_ids, rows = _records_of(candidates, names)
            listed = plain_ids(raw_ids)
            if not listed:
                raise InvalidInput("there are no items to rank; give at least one")
            return listed, [_by_name(row, names, f"item {id!r}") for id, row in zip(listed, rows)]
        try:
            array = types.real_numbers(candidates, "candidates")
        except InvalidInput:
            forms = "{id: {feature: value}}, a list of dicts, an array or a DataFrame"
            raise InvalidInput(f"candidates must be {forms}") from None
        if array.ndim != 2 or array.shape[1] != len(names):
            raise InvalidInput(
                f"an array of candidates has one row per item and {len(names)} columns, got {array.shape}"
            )
        listed = plain_ids(ids) or list(range(len(array)))
        if len(listed) != len(array):
            raise InvalidInput(f"{len(listed)} ids for {len(array)} rows of candidates: give one id for each row")
        return listed, types.finite_floats(array, 2, "features")

    def raw_candidates(self, candidates: Any) -> tuple[list[Id], list[Any]]:
        """Return ids and values by name of candidates with a schema, as `Ranker.rank` takes them."""
        if candidates is None:
            return [], []
        is_table = isinstance(candidates, Mapping | Sequence) or hasattr(candidates, "columns")
        if isinstance(candidates, str) or not is_table:
            raise InvalidInput("with a schema candidates must be {id: {field: value}}, a list of dicts or a DataFrame")
        ids, rows = _records_of(candidates, self.feature_names)
        # Copied, because the caller may change the values before the feedback comes.
        return plain_ids(ids), [dict(row) if isinstance(row, Mapping) else row for row in rows]

    def query(
        self,
        ids: list[Id],  # empty: all items of a fixed set
        rows: Sequence[Any] | Floats,  # features, or values by name where there is a schema
        context: Any = (),  # numbers, or values by name
        query_id: str = "",
        pinned: Sequence[Id] = (),  # items to show first, in this order
        excluded: Sequence[Id] = (),  # items not to show
        at: float = 0.0,  # the time in seconds since 1970, from which a schema counts the age of dates
    ) -> QueryRequest:
        """Check a request and return it as arrays."""
        ids, rows = self._distinct_items(ids, rows)
        candidates, first, hidden = self._select_items(ids, pinned, excluded)
        features, present, values = NO_FEATURES, None, None
        if self.encoder is not None:
            context = {} if isinstance(context, Sequence) and not len(context) else context
            if not isinstance(context, Mapping):
                raise Rejected("context", f"with a schema it must be values by name, got {context!r:.60}")
            to_rank, row = self._encoded(ids, rows, context, candidates, at), NO_CONTEXT
            missing = self.encoder.n_fields * len(rows) - sum(map(len, rows))
            values = RawValues(list(rows), dict(context), at, self.encoder.version)
        else:
            features, present = self._features(ids, rows)
            row, missing = self._context(context)
            missing += 0 if present is None else int(present.size - np.count_nonzero(present))
            to_rank = features if candidates is None else np.ascontiguousarray(features[candidates])
        return QueryRequest(
            ids=ids,
            features=features,
            query=Query(query_id, to_rank, row),
            candidates=candidates,
            pinned=first,
            hidden=hidden,
            fixed=bool(self.items),
            missing=missing,
            values=values,
            present=present,
        )

    def _select_items(
        self, ids: list[Id], pinned: Sequence[Id], excluded: Sequence[Id]
    ) -> tuple[list[int] | None, list[int], set[int]]:
        """Return the items to rank (None: all), the pinned ones, and those that are ranked but not shown."""
        if not pinned and not excluded:
            return None, [], set()
        number = {self.key(id): i for i, id in enumerate(ids)}
        excluded_items = set(self._numbers(excluded, number, "excluded"))
        first = self._numbers(pinned, number, "pinned")
        if excluded_items.intersection(first):
            raise Rejected("pinned", "an item is both pinned and excluded: leave it out of one of the two lists")
        fixed, left_out = bool(self.items), excluded_items.union(first)
        candidates = None if fixed or not left_out else [i for i in range(len(number)) if i not in left_out]
        if len(left_out) == len(number):
            raise Rejected("items", "nothing is left to rank after pins and exclusions")
        return candidates, first, excluded_items if fixed else set()

    def _encoded(self, ids: list[Id], rows: Any, context: Mapping[str, Any], kept: list[int] | None, at: float) -> Any:
        """Return the `Rows` of the items to rank; pinned and excluded ones are logged, so they are checked, too."""
        try:
            features = self.encoder.rows(ids, rows, context, at)
            if kept is None:
                return features
            return self.encoder.rows([ids[i] for i in kept], [rows[i] for i in kept], context, at)
        except Rejected:
            raise
        except InvalidInput as error:
            raise Rejected("items", str(error)) from None

    def _distinct_items(self, ids: list[Id], rows: Any) -> tuple[list[Id], Any]:
        """Return each item once; with a fixed set all of its items, in its order."""
        if not ids:
            if not self.items:
                raise Rejected("items", "there are no items to rank; give at least one")
            zeros = np.zeros((len(self.items), self.n_features))
            return list(self.items), zeros if self.encoder is None else [{}] * len(self.items)
        keys = list(map(self.key, ids))
        if len(set(keys)) != len(keys):
            raise Rejected("items", f"the item {Counter(keys).most_common(1)[0][0]!r} is given twice")
        if self.items and ids != list(self.items):
            if set(keys) != set(map(self.key, self.items)):
                raise Rejected("items", "these are not the items of the fixed set: give all of them, or none")
            row_of = dict(zip(keys, rows))
            ids, rows = list(self.items), [row_of[self.key(id)] for id in self.items]
        return ids, rows

    def _features(self, ids: list[Id], rows: Sequence[Any] | Floats) -> tuple[Floats, Bools | None]:
        """Return the features of the items, and the mask of those that were not missing (None: all)."""
        try:
            features, present = self._feature_rows(ids, rows)
        except InvalidInput as error:
            raise Rejected("items", str(error)) from None
        if self.fills and present is not None:
            for column in np.flatnonzero(~present.all(axis=0)):
                has_value = present[:, column]
                others = features[has_value, column]
                features[~has_value, column] = others.mean() if len(others) else 0.0
        return features, present

    def _feature_rows(self, ids: list[Id], rows: Sequence[Any] | Floats) -> tuple[Floats, Bools | None]:
        """Return rows of numbers, by position or by name, as an array, and the mask of values present (None: all)."""
        present: Bools | None = None
        names, width = self.feature_names, self.n_features
        if isinstance(rows, np.ndarray):
            features = rows
        elif {list} == set(map(type, rows)) and {width} == set(map(len, rows)):
            features, step = np.empty((len(rows), width)), max(1, MAX_NUMBERS_AT_ONCE // max(1, width))
            for begin in range(0, len(rows), step):
                part = rows[begin : begin + step]
                values = np.fromiter(chain.from_iterable(part), np.float64, len(part) * width)
                features[begin : begin + step] = values.reshape(len(part), width)
        else:
            features, name_set = np.zeros((len(rows), width)), set(names)
            for i, (id, row) in enumerate(zip(ids, rows)):
                if not isinstance(row, Mapping):
                    if len(row) != width:
                        raise InvalidInput(f"item {id!r} has {len(row)} features, this ranker has {width}")
                    features[i] = row
                    continue
                if row.keys() <= name_set and {float}.issuperset(map(type, row.values())):
                    features[i] = [row.get(name, 0.0) for name in names] or 0.0
                else:
                    features[i] = named_row(row, names, f"item {id!r}")[0] or 0.0
                if len(row) < width:
                    present = np.ones(features.shape, np.bool_) if present is None else present
                    present[i] = [name in row for name in names] or False
        if not np.isfinite(features).all():
            item, column = np.argwhere(~np.isfinite(features))[0]
            if isinstance(rows[item], Mapping):
                named_row(rows[item], names, f"item {ids[item]!r}")  # raises
            name = f"{names[column]} (feature {column})" if names else f"feature {column}"
            raise InvalidInput(f"item {ids[item]!r}: {name} must be a finite number")
        return features, present

    def _context(self, values: Any) -> tuple[Floats, int]:
        """Return the numbers of the context, and the number of missing columns."""
        if not self.n_context and self.encoding is None and isinstance(values, list | tuple | dict) and not values:
            return NO_CONTEXT, 0
        by_name, missing = isinstance(values, Mapping), 0
        try:
            if by_name and self.encoding is not None:
                values = self.encoding.row_of(values)
            elif self.context_names or (by_name and not self.n_context):
                values, missing = named_row(values, self.context_names, "context")
            elif by_name:
                raise InvalidInput("this ranker has no names for its context; give a list of numbers")
            context = np.array(values, dtype=np.float64)
        except Rejected:
            raise
        except (InvalidInput, TypeError, ValueError) as error:
            raise Rejected("context", str(error)) from None
        if context.shape != (self.n_context,) or not np.isfinite(context).all():
            form = f"{self.encoding.expected_columns}, or" if self.encoding else "must be"
            raise Rejected("context", f"{form} {self.n_context} finite numbers")
        return context, missing

    def _numbers(self, ids: Sequence[Id], number: Mapping[Any, int], field: str) -> list[int]:
        for id in ids:
            if self.key(id) not in number:
                raise Rejected(field, f"{id!r} is not among the items")
        items = [number[self.key(id)] for id in ids]
        if len(set(items)) != len(items):
            raise Rejected(field, "an item is named twice")
        return items


FEEDBACK_KINDS = {"clicks": Clicks, "relevances": Relevances, "preferred": Preferred, "reward": Reward}


def one_kind(values: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the only kind of feedback that has a value, and that value."""
    named = [kind for kind in FEEDBACK_KINDS if values[kind] is not None]
    if len(named) != 1:
        raise InvalidInput(f"give one of {', '.join(FEEDBACK_KINDS)}; got {' and '.join(named) or 'none'}")
    return named[0], values[named[0]]


def named_values(
    kind: str, value: Any, number: Mapping[Any, int], key: Callable[[Id], Any] = lambda id: id
) -> tuple[list[int], list[float]]:
    """Return the items that feedback names, as numbers, and what it says of each: 1 where it says nothing.

    Args:
      kind: One of FEEDBACK_KINDS.
      value: The feedback: ids, or a table by id.
      number: The number of each shown item by its key.
      key: Makes the key of an id.
    """
    if kind == "reward":
        return [], _amounts([value], kind)
    if kind == "relevances" and not isinstance(value, Mapping):
        raise IncompatibleFeedback("relevances must be grades by id, as in {'a': 1}")
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise IncompatibleFeedback(f"{kind} must be a list of ids, got {value!r:.60}")
    ids = plain_ids(value)
    items = [number.get(key(id), -1) for id in ids]
    if -1 in items:
        raise IncompatibleFeedback(f"{kind} names {ids[items.index(-1)]!r:.80}, which was not among the shown items")
    if len(set(items)) != len(items):
        raise IncompatibleFeedback(f"{kind}: an item is named twice")
    return items, _amounts(value.values(), kind) if isinstance(value, Mapping) else [1.0] * len(items)


def feedback_of(kind: str, items: Sequence[int], values: Sequence[float], ranking: Ints) -> Feedback:
    """Return the `Feedback` that a learner takes.

    Args:
      kind: One of FEEDBACK_KINDS.
      items: The items that were named.
      values: What was said of each; of a reward the value alone.
      ranking: What was shown: a preferred order goes on with the items of it that were not named.
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
