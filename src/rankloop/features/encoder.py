"""The encoder: raw values by name become `Rows`, with caches of recent hashes."""

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, product
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput, Rejected
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats, Ints, Rows
from rankloop.features import hashed_columns
from rankloop.features.hashed_columns import MISSING_VALUE, NO_FIELD, ColumnPlan, Hashes, Tokens
from rankloop.features.kinds import DAY_SECONDS, MAX_MOMENT, NO_TOKENS, UNIT_VALUE, knot_value, short_text
from rankloop.features.schema import Schema

NOT_STORED = -1
MAX_ENTRIES = 10_000  # of one item
MAX_ALL_ENTRIES = 5_000_000  # of a query
MAX_KNOWN = 10_000  # items whose hashes are kept
MAX_STORED = 4_000_000  # hashes and numbers of all of them
MAX_HASHES = 50_000  # of a field that are kept
MAX_VALUES_KNOWN = 10_000  # of a field whose hashes are kept
MAX_LENGTH_KNOWN = 1_000  # of a text or a list among them
SCALAR_TYPES = {str, int, float, bool, type(None)}
HASHABLE_TYPES = SCALAR_TYPES | {tuple}  # immutable values


class Column(NamedTuple):
    """A hashed column of an item, with its name."""

    name: str
    column: int
    value: float


class _FieldTokens(NamedTuple):
    """The tokens of one value."""

    hashes: Sequence[int]
    values: Sequence[float]
    main: bool  # they have columns outside of crosses, too


class Encoder:
    """An encoder of items and contexts by a schema; it caches the hashes of recent items."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.version = schema.version
        self.n_fields = len(schema.features)  # of the items
        self._lock = Lock()
        self._item_fields = [_Field(name, kind) for name, kind in schema.features.items()]
        self._context_fields = [_Field(name, kind) for name, kind in schema.context.items()]
        self._plan = _column_plan(schema)
        self._known: dict[Any, tuple[Any, int]] = {}
        self._store = _Store(schema)
        self._day = 0.0
        self._stamped = any(kind.stamped for kind in schema.features.values())

    def rows(
        self, ids: Sequence[Any], rows: Sequence[Mapping[str, Any]], context: Mapping[str, Any], at: float = 0.0
    ) -> Rows:
        """Encode items and a context with values by name; dates count from `at`, in seconds since 1970.

        Raises:
          InvalidInput: If an item has an unknown field or a wrong value.
          Rejected: If the context has.
        """
        if not isinstance(at, (int, float)) or not abs(at) <= MAX_MOMENT:
            raise InvalidInput(f"at is when the ranking is made, in seconds since 1970, got {short_text(at)}")
        with self._lock:
            context_tokens = self._context(context, at)
            item_slots = self._items(ids, rows, at)
            tokens = self._store.tokens(context_tokens)
            counts = hashed_columns.count_entries(tokens, item_slots, self._plan)
            if len(counts) and counts.max() > MAX_ENTRIES:
                worst = int(counts.argmax())
                raise InvalidInput(
                    f"item {short_text(ids[worst])} fills {counts[worst]} columns, more than {MAX_ENTRIES}: "
                    "shorten its texts and lists, or those that are crossed with it"
                )
            if counts.sum() > MAX_ALL_ENTRIES:
                raise InvalidInput(f"the items fill {counts.sum()} columns, more than {MAX_ALL_ENTRIES}: rank fewer")
            starts, positions, values, columns = hashed_columns.encode(tokens, item_slots, self._plan, counts)
            return Rows(starts, positions, values, columns, self._store.dense[item_slots])

    def columns(self, id: Any, row: Mapping[str, Any], context: Mapping[str, Any], at: float = 0.0) -> list[Column]:
        """Return the hashed columns of an item by name, in the order of its entries; slow, for explanations."""
        encoded, labels, names = self.rows([id], [row], context, at), dict[str, list[str]](), list[str]()
        for field in self._item_fields:
            value = row.get(field.name)
            value = id if value is None and field.kind.memory else value
            labels[field.name] = field.labels(value, at)
            names += labels[field.name] if field.tokens(value, at).main else ()
        for field in self._context_fields:
            labels[field.name] = field.labels(context.get(field.name), at)
        for cross in self.schema.crosses:
            fields = cross.split("*")
            for combination in product(*(labels[field] for field in sorted(fields))):
                label_of = dict(zip(sorted(fields), combination))
                names.append(" × ".join(label_of[field] for field in fields))
        return list(map(Column, names, encoded.columns[encoded.positions].tolist(), encoded.values.tolist()))

    def _context(self, context: Mapping[str, Any], at: float) -> list[_FieldTokens]:
        if fault := _unknown_field_fault(context, self.schema.context):
            raise Rejected("context", fault)
        try:
            return [field.tokens(context.get(field.name), at) for field in self._context_fields]
        except InvalidInput as error:
            raise Rejected("context", str(error)) from None

    def _items(self, ids: Sequence[Any], rows: Sequence[Mapping[str, Any]], at: float) -> Ints:
        """Return the positions of items in the store, to which new and changed ones are added."""
        day = at // DAY_SECONDS if self._stamped else 0.0
        if len(self._known) > MAX_KNOWN or day != self._day or self._store.is_full:
            self._known, self._day, self._store = {}, day, _Store(self.schema)
        slots = []
        for id, row in zip(ids, rows):
            values, slot = self._known.get(id, (None, NOT_STORED))
            try:
                slots.append(slot if values == row else NOT_STORED)
            except (TypeError, ValueError):  # arrays and the like have no plain answer
                slots.append(NOT_STORED)
        item_slots = np.array(slots, np.int64)
        fresh = np.flatnonzero(item_slots == NOT_STORED).tolist()
        if fresh:
            item_slots[fresh] = self._add_items([ids[i] for i in fresh], [rows[i] for i in fresh], at)
            for i in fresh:
                kept = {n: v if type(v) in HASHABLE_TYPES else copy.copy(v) for n, v in rows[i].items()}
                self._known[ids[i]] = kept, int(item_slots[i])
        return item_slots

    def _add_items(self, ids: Sequence[Any], rows: Sequence[Mapping[str, Any]], at: float) -> Sequence[int]:
        """Add items to the store and return their positions; none is added if one is wrong."""
        features, tokens = self.schema.features, list[_FieldTokens]()
        dense = np.zeros((len(ids), self.schema.n_dense))
        for i, (id, row) in enumerate(zip(ids, rows)):
            if not isinstance(row, Mapping):
                raise InvalidInput(f"item {short_text(id)} must be a table of values by name, got {short_text(row)}")
            if not row.keys() <= features.keys():
                raise InvalidInput(f"item {short_text(id)} {_unknown_field_fault(row, features)}")
            try:
                for field in self._item_fields:
                    value = row.get(field.name)
                    tokens.append(field.tokens(id if value is None and field.kind.memory else value, at))
                    if field.has_numbers and value is not None:
                        first = self.schema.slots[field.name]
                        dense[i, first : first + field.kind.size] = field.numbers(value)
            except InvalidInput as error:
                raise InvalidInput(f"item {short_text(id)}: {error}") from None
        return self._store.add(tokens, dense)


class _Field:
    """A field of the items or of the context, with the values and hashes that were needed lately."""

    def __init__(self, name: str, kind: Any) -> None:
        self.name, self.kind = name, kind
        self.has_numbers = kind.size > 0
        self.keeps = not (kind.stamped or kind.memory or self.has_numbers)  # a value is likely to come again
        # Words and categories come again in new items, so their hashes are kept beside the tokens of whole values.
        self.hash_of = lru_cache(MAX_HASHES)(lambda key: hashed_columns.hash_of(name, str(key)))
        self.kept_tokens = lru_cache(MAX_VALUES_KNOWN)(self._tokens)

    def tokens(self, value: Any, at: float) -> _FieldTokens:
        """Return the tokens of a value, from the cache where possible."""
        kind = type(value)
        is_long = (kind is str or kind is list or kind is tuple) and len(value) > MAX_LENGTH_KNOWN
        if self.keeps and not is_long and (kind is list or kind in HASHABLE_TYPES):
            try:
                return self.kept_tokens(tuple(value) if kind is list else value)
            except TypeError:  # a list of what cannot be hashed
                pass
        return self._tokens(value, at)

    def _tokens(self, value: Any, at: float = 0.0) -> _FieldTokens:
        try:
            keys, values = NO_TOKENS if value is None else self.kind.tokens(value, at)
        except InvalidInput as error:
            raise InvalidInput(f"{self.name} {error}") from None
        if not keys and (value is None or not self.has_numbers):
            return _FieldTokens([self.hash_of(MISSING_VALUE)], UNIT_VALUE, True)
        return _FieldTokens(list(map(self.hash_of, keys)), values, not self.has_numbers)

    def numbers(self, value: Any) -> Sequence[float]:
        """Return the numbers of a value in the dense block."""
        try:
            numbers: Sequence[float] = self.kind.numbers(value)
        except InvalidInput as error:
            raise InvalidInput(f"{self.name} {error}") from None
        return numbers

    def labels(self, value: Any, at: float) -> list[str]:
        """Return the names of a value's tokens."""
        keys, _ = NO_TOKENS if value is None else self.kind.tokens(value, at)
        return [_label(self.name, key) for key in keys] or [f"{self.name} missing"]


class _Store:
    """Tokens and numbers of items, in arrays that grow."""

    def __init__(self, schema: Schema) -> None:
        n_fields, n_dense = len(schema.features), schema.n_dense
        self.hashes: Hashes = np.empty(1024, np.uint64)
        self.values = np.empty(1024)
        self.bounds = np.zeros((64, n_fields + 1), np.int64)
        self.main = np.zeros((64, n_fields), np.bool_)
        self.dense = np.zeros((64, n_dense))
        self.n_items = self.n_tokens = 0

    @property
    def is_full(self) -> bool:
        return self.n_tokens + self.n_items * (self.bounds.shape[1] + self.dense.shape[1]) > MAX_STORED

    def add(self, fields: Sequence[_FieldTokens], dense: Floats) -> range:
        """Add items, the fields of one after those of another, and return their numbers."""
        ends = list(accumulate([len(tokens.hashes) for tokens in fields], initial=self.n_tokens))
        first, n_items, n_new = self.n_items, self.n_items + len(dense), len(dense)
        self._write(fields, ends[-1])
        self.bounds, self.main, self.dense = (_room(part, n_items) for part in (self.bounds, self.main, self.dense))
        n_fields = self.main.shape[1]
        self.bounds[first:n_items, 0] = ends[:-1:n_fields]
        self.bounds[first:n_items, 1:] = np.array(ends[1:], np.int64).reshape(n_new, n_fields)
        self.main[first:n_items] = np.array([tokens.main for tokens in fields], np.bool_).reshape(n_new, -1)
        self.dense[first:n_items] = dense
        self.n_items, self.n_tokens = n_items, ends[-1]
        return range(first, n_items)

    def tokens(self, context: Sequence[_FieldTokens]) -> Tokens:
        """Return the tokens of all items, and behind them those of a context, which the next item overwrites."""
        ends = list(accumulate([len(tokens.hashes) for tokens in context], initial=self.n_tokens))
        self._write(context, ends[-1])
        return Tokens(self.hashes, self.values, self.bounds, self.main, np.array(ends, np.int64))

    def _write(self, fields: Sequence[_FieldTokens], end: int) -> None:
        """Write the tokens of some fields behind those of all items."""
        self.hashes, self.values = _room(self.hashes, end), _room(self.values, end)
        hashes = list(chain.from_iterable([tokens.hashes for tokens in fields]))
        self.hashes[self.n_tokens : end] = np.array(hashes, np.uint64)
        self.values[self.n_tokens : end] = list(chain.from_iterable([tokens.values for tokens in fields]))


def _room(array: Any, size: int) -> Any:
    if size <= len(array):
        return array
    larger = np.zeros((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _column_plan(schema: Schema) -> ColumnPlan:
    numbers = {name: i for i, name in enumerate([*schema.features, *schema.context])}
    kinds = dict(schema.features) | dict(schema.context)
    crosses = np.full((len(schema.crosses), hashed_columns.MAX_CROSS_FIELDS), NO_FIELD, np.int64)
    for c, cross in enumerate(schema.crosses):
        names = sorted(cross.split("*"))  # "a*b" and "b*a" are one cross
        crosses[c, : len(names)] = [numbers[name] for name in names]
    return ColumnPlan(
        in_memory=np.array([kind.memory for kind in schema.features.values()], np.bool_),
        crosses=crosses,
        cross_in_memory=np.array([any(kinds[name].memory for name in c.split("*")) for c in schema.crosses], np.bool_),
        half=schema.n_hashed // 2,
    )


def _unknown_field_fault(values: Mapping[str, Any], fields: Mapping[str, Any]) -> str | None:
    """Return the fault of values by name of which one is not among the fields of the items, or of the context."""
    for name in values:
        if name not in fields:
            hint = nearest(str(name), fields) or f"; there are {', '.join(fields) or 'none'}"
            return f"has the field {short_text(name)}, which is not in the schema{hint:.300}"
    return None


def _label(name: str, key: str | int) -> str:
    if isinstance(key, int):
        value = knot_value(key)
        return f"{name} ≈ {value:.0f}" if 1000 <= abs(value) < 1e9 else f"{name} ≈ {value:.3g}"
    return f"{name} = {key}" if key else name
