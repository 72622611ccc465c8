"""From values as people have them to `Rows`: hashes are looked up, crosses and columns are made in compiled code."""

import copy
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats, Ints, Rows
from rankloop.features.hashes import MISSING, crossed, hash_of, python_crossed
from rankloop.features.kinds import DAY, knot_value
from rankloop.features.schema import FIELDS_IN_CROSS, Schema

MAX_ENTRIES = 10_000  # of one item
MAX_ALL_ENTRIES = 5_000_000  # of a query
MAX_KNOWN = 10_000  # items whose hashes are kept
MAX_HASHES = 50_000  # of a field that are kept
MAX_VALUES_KNOWN = 10_000  # of a field whose hashes are kept
SIMPLE = {str, int, float, bool, tuple, type(None)}
NONE = -1  # in a cross: no third field
Mask = Any  # np.ndarray of bool
Hashes = Any  # np.ndarray of uint64


class Plan(NamedTuple):
    """What the kernel goes by."""

    memory: Mask  # by field of the items: whether its columns are memory
    crosses: Ints  # (n_crosses, 3): fields of the items from 0, of the context from n_features on, NONE for no field
    cross_memory: Mask
    half: int  # columns of each half of the table


class Tokens(NamedTuple):
    """Hashes and values, by item and field: field f of item i owns those from bounds[i, f] to bounds[i, f + 1]."""

    hashes: Hashes
    values: Floats
    bounds: Ints
    main: Mask  # (n_items, n_fields): whether the field's tokens are columns by themselves; else in crosses only


@kernel
def count_entries(items: Tokens, chosen: Ints, context: Tokens, plan: Plan) -> Ints:
    """How many entries each of the chosen items will have."""
    counts = np.zeros(len(chosen), np.int64)
    bounds, asked, main, n_fields = items.bounds, context.bounds, items.main, items.bounds.shape[1] - 1
    for i in range(len(chosen)):
        item = chosen[i]
        for field in range(n_fields):
            if main[item, field]:
                counts[i] += bounds[item, field + 1] - bounds[item, field]
        for c in range(len(plan.crosses)):
            product = 1
            for field in plan.crosses[c]:
                if field >= n_fields:
                    product *= asked[0, field - n_fields + 1] - asked[0, field - n_fields]
                elif field != NONE:
                    product *= bounds[item, field + 1] - bounds[item, field]
            counts[i] += product
    return counts


@kernel
def encode(items: Tokens, chosen: Ints, context: Tokens, plan: Plan, counts: Ints) -> tuple[Ints, Ints, Floats, Ints]:
    """Starts, positions, values and columns of `Rows`."""
    starts = np.zeros(len(chosen) + 1, np.int64)
    starts[1:] = np.cumsum(counts)
    all_columns, values = np.empty(starts[-1], np.int64), np.empty(starts[-1])
    # the tokens of one item and of the context side by side, so that a cross need not ask where its fields come from
    n_own, n_fields, half = 0, items.bounds.shape[1] - 1, plan.half
    for item in chosen:
        n_own = max(n_own, items.bounds[item, n_fields] - items.bounds[item, 0])
    n_asked = len(context.hashes)
    hashes, weights = np.empty(n_asked + n_own, np.uint64), np.empty(n_asked + n_own)
    hashes[:n_asked], weights[:n_asked] = context.hashes, context.values
    bounds = np.zeros((n_fields + context.bounds.shape[1], 2), np.int64)  # the last is that of no field
    for field in range(context.bounds.shape[1] - 1):
        bounds[n_fields + field, 0] = context.bounds[0, field]
        bounds[n_fields + field, 1] = context.bounds[0, field + 1]
    mask, e = np.uint64(half - 1), 0
    for item in chosen:
        shift = n_asked - items.bounds[item, 0]
        for at in range(items.bounds[item, 0], items.bounds[item, n_fields]):
            hashes[at + shift], weights[at + shift] = items.hashes[at], items.values[at]
        for field in range(n_fields):
            start, end = items.bounds[item, field] + shift, items.bounds[item, field + 1] + shift
            bounds[field, 0], bounds[field, 1] = start, end
            if items.main[item, field]:
                above = half if plan.memory[field] else 0
                for at in range(start, end):
                    all_columns[e], values[e] = np.int64(hashes[at] & mask) + above, weights[at]
                    e += 1
        for c in range(len(plan.crosses)):
            one, two, three = plan.crosses[c, 0], plan.crosses[c, 1], plan.crosses[c, 2]
            above = half if plan.cross_memory[c] else 0
            for a in range(bounds[one, 0], bounds[one, 1]):
                for b in range(bounds[two, 0], bounds[two, 1]):
                    pair, value = crossed(hashes[a], hashes[b]), weights[a] * weights[b]
                    if three == NONE:
                        all_columns[e], values[e] = np.int64(pair & mask) + above, value
                        e += 1
                        continue
                    for t in range(bounds[three, 0], bounds[three, 1]):
                        all_columns[e] = np.int64(crossed(pair, hashes[t]) & mask) + above
                        values[e] = value * weights[t]
                        e += 1
    positions, columns = _distinct(all_columns)
    return starts, positions, values, columns


@kernel
def _distinct(all_columns: Ints) -> tuple[Ints, Ints]:
    """Where each stands among the different ones, and these, in the order in which they come."""
    size = 16
    while size < 2 * len(all_columns):
        size *= 2
    places = np.full(size, -1, np.int32)
    positions, columns, count = np.empty(len(all_columns), np.int64), np.empty(len(all_columns), np.int64), 0
    for e in range(len(all_columns)):
        column = all_columns[e]
        place = (column * 0x9E3779B1) >> 7 & (size - 1)
        while places[place] >= 0 and columns[places[place]] != column:
            place = (place + 1) & (size - 1)
        if places[place] < 0:
            places[place] = count
            columns[count] = column
            count += 1
        positions[e] = places[place]
    return positions, columns[:count].copy()


class Column(NamedTuple):
    """A hashed column of an item, with what it stands for."""

    name: str
    column: int
    value: float


class Encoder:
    """Encodes queries by a schema; it remembers the hashes of the items that it met, while their values stay."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._lock = Lock()
        self._item_fields = _Fields(schema.features)
        self._context_fields = _Fields(schema.context)
        self._plan = _plan(schema)
        self._known: dict[Any, tuple[Any, int]] = {}
        self._store = _Store(len(schema.features), schema.n_dense)
        self._day = 0.0
        self._stamped = any(kind.stamped for kind in schema.features.values())

    @property
    def version(self) -> int:
        return self.schema.version

    @property
    def n_fields(self) -> int:
        """Of an item."""
        return len(self.schema.features)

    def rows(
        self, ids: Sequence[Any], rows: Sequence[Mapping[str, Any]], context: Mapping[str, Any], at: float = 0.0
    ) -> Rows:
        """The features of these items, each a table of values by name, for whoever asks; `at` is now, for dates."""
        with self._lock:
            asked = self._context(context, at)
            chosen = self._items(ids, rows, at)
            tokens = self._store.tokens()
            counts = count_entries(tokens, chosen, asked, self._plan)
            if len(counts) and counts.max() > MAX_ENTRIES:
                worst = int(counts.argmax())
                raise InvalidInput(
                    f"item {ids[worst]!r:.60} has {counts[worst]} entries, more than {MAX_ENTRIES}: shorten it"
                )
            if counts.sum() > MAX_ALL_ENTRIES:
                raise InvalidInput(f"the items have {counts.sum()} entries in all, more than {MAX_ALL_ENTRIES}")
            dense = self._store.dense[chosen]
            return Rows(*encode(tokens, chosen, asked, self._plan, counts), dense)

    def columns(self, id: Any, row: Mapping[str, Any], context: Mapping[str, Any], at: float = 0.0) -> list[Column]:
        """The hashed columns of one item by name, in the order of its entries in `rows`: slow and plain, to explain."""
        schema, where = self.schema, f"item {id!r:.60}"
        named, found = {}, list[Column]()
        for name, kind in schema.features.items():
            named[name], main = self._item_fields.named(name, own_value(row, name, kind, id), at, where)
            found += [self._named(*token, kind.memory) for token in named[name] if main]
        for name in schema.context:
            named[name], _ = self._context_fields.named(name, context.get(name), at, "context")
        for cross, in_memory in zip(schema.crosses, self._plan.cross_memory):
            first, *others = cross.split("*")
            parts = named[first]
            for name in others:
                parts = [
                    (f"{label} × {more}", python_crossed(before, hashed), value * other)
                    for label, before, value in parts
                    for more, hashed, other in named[name]
                ]
            found += [self._named(*part, bool(in_memory)) for part in parts]
        return found

    def _named(self, label: str, hashed: int, value: float, in_memory: bool) -> Column:
        half = self._plan.half
        return Column(label, hashed % half + (half if in_memory else 0), value)

    def _context(self, context: Mapping[str, Any], at: float) -> Tokens:
        check_names(context, self.schema.context, "context")
        hashes, values, bounds = list[int](), list[float](), [0]
        for name in self.schema.context:
            found, _ = self._context_fields.tokens(name, context.get(name), at, "context")
            hashes += found[0]
            values += found[1]
            bounds.append(len(hashes))
        main = np.ones((1, len(bounds) - 1), np.bool_)
        return Tokens(np.array(hashes, np.uint64), np.array(values, np.float64), np.array([bounds]), main)

    def _items(self, ids: Sequence[Any], rows: Sequence[Mapping[str, Any]], at: float) -> Ints:
        """Where the items stand in the store; those that are new or have changed are added."""
        day = at // DAY if self._stamped else 0.0
        if len(self._known) > MAX_KNOWN or day != self._day or self._store.is_full:
            self._known, self._day = {}, day
            self._store = _Store(len(self.schema.features), self.schema.n_dense)
        chosen, known, fresh = np.empty(len(ids), np.int64), self._known, []
        for i, (id, row) in enumerate(zip(ids, rows)):
            before = known.get(id)
            if before is not None and _same(before[0], row):
                chosen[i] = before[1]
            else:
                fresh.append(i)
        try:
            if fresh:
                chosen[fresh] = self._add([ids[i] for i in fresh], [rows[i] for i in fresh], at)
        finally:
            self._store.write()
        for i in fresh:  # only now: none of them was refused
            known[ids[i]] = _copied(rows[i]), int(chosen[i])
        return chosen

    def _add(self, ids: Sequence[Any], rows: Sequence[Mapping[str, Any]], at: float) -> list[int]:
        """Take in items, field by field; answers with where they stand."""
        fields, own, names = self.schema.features, self._item_fields, self.schema.features.keys()
        for id, row in zip(ids, rows):
            if not isinstance(row, Mapping):
                raise InvalidInput(f"item {id!r:.60} must be a table of values by name, got {row!r:.60}")
            if not row.keys() <= names:
                check_names(row, fields, f"item {id!r:.60}")
        by_field = []
        for name, kind in fields.items():
            known, found = own.known[name], []
            for id, row in zip(ids, rows):
                value = row.get(name)
                if value is None and kind.memory:
                    value = id
                tokens = known.get(value) if type(value) in SIMPLE else None
                found.append(tokens or own.tokens(name, value, at, f"item {id!r:.60}"))
            by_field.append(found)
        return [self._store.add(tokens, self._numbers(id, row)) for id, row, *tokens in zip(ids, rows, *by_field)]

    def _numbers(self, id: Any, row: Mapping[str, Any]) -> Floats | None:
        """What an item has in the dense block."""
        if not self.schema.slots:
            return None
        numbers = np.zeros(self._store.dense.shape[1])
        for name, first in self.schema.slots.items():
            kind, value = self.schema.features.get(name), row.get(name)
            if kind is not None and value is not None:
                numbers[first : first + kind.size] = self._item_fields.numbers(name, value, f"item {id!r:.60}")
        return numbers


Found = tuple[tuple[list[int], list[float]], bool]


class _Fields:
    """The fields of the items or of the context, with the values and hashes that were needed lately."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields
        self.hashes: dict[str, dict[str | int, int]] = {name: {} for name in fields}
        self.known: dict[str, dict[Any, Found]] = {name: {} for name in fields}

    def tokens(self, name: str, value: Any, at: float, where: str) -> Found:
        """Hashes and values, and whether they are columns by themselves."""
        kind, known = self.fields[name], self.known[name]
        key = tuple(value) if type(value) is list and not kind.size else value
        if kind.stamped or type(key) not in SIMPLE:
            return self._tokens(kind, name, value, at, where)
        try:
            found = known.get(key)
        except TypeError:  # a list of what cannot be hashed
            return self._tokens(kind, name, value, at, where)
        if found is None:
            found = self._tokens(kind, name, value, at, where)
            if len(known) >= MAX_VALUES_KNOWN:
                known.clear()
            known[key] = found
        return found

    def _tokens(self, kind: Any, name: str, value: Any, at: float, where: str) -> Found:
        hashes = self.hashes[name]
        try:
            found = [] if value is None else kind.tokens(value, at)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {name} {error}") from None
        if not found and (value is None or not kind.size):
            return ([self._hash(hashes, name, MISSING, where)], [1.0]), True
        keys = [hashes.get(key) or self._hash(hashes, name, key, where) for key, _ in found]
        return (keys, [weight for _, weight in found]), not kind.size

    def numbers(self, name: str, value: Any, where: str) -> Sequence[float]:
        try:
            return self.fields[name].numbers(value)  # type: ignore[no-any-return]
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {name} {error}") from None

    def named(self, name: str, value: Any, at: float, where: str) -> tuple[list[tuple[str, int, float]], bool]:
        """The same with a name for each token."""
        tokens, main = self.tokens(name, value, at, where)
        keys = [key for key, _ in self.fields[name].tokens(value, at)] if value is not None else []
        labels = [_label(name, key) for key in keys] or [f"{name} missing"]
        return list(zip(labels, *tokens)), main

    def _hash(self, hashes: dict[str | int, int], name: str, key: str | int, where: str) -> int:
        if len(hashes) >= MAX_HASHES:
            hashes.clear()
        try:
            hashes[key] = hash_of(name, str(key))
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from None
        return hashes[key]


class _Store:
    """Tokens and numbers of items, in arrays that grow."""

    def __init__(self, n_fields: int, n_dense: int) -> None:
        self.hashes: Hashes = np.empty(1024, np.uint64)
        self.values = np.empty(1024)
        self.bounds = np.zeros((64, n_fields + 1), np.int64)
        self.main = np.zeros((64, n_fields), np.bool_)
        self.dense = np.zeros((64, n_dense))
        self.n_items = self.n_tokens = 0
        self._hashes: list[int] = []
        self._values: list[float] = []
        self._bounds: list[list[int]] = []
        self._main: list[list[bool]] = []
        self._numbers: list[Floats] = []

    @property
    def is_full(self) -> bool:
        return self.n_tokens > MAX_KNOWN * 100

    def add(self, fields: Sequence[Found], numbers: Floats | None) -> int:
        """One more item, which is there after `write`; answers with its number."""
        begin, bounds = self.n_tokens, [self.n_tokens + len(self._hashes)]
        for (hashes, values), _ in fields:
            self._hashes += hashes
            self._values += values
            bounds.append(begin + len(self._hashes))
        self._bounds.append(bounds)
        self._main.append([main for _, main in fields])
        if numbers is not None:
            self._numbers.append(numbers)
        return self.n_items + len(self._bounds) - 1

    def write(self) -> None:
        """Take in what was added."""
        if not self._bounds:
            return
        n_items, n_tokens = self.n_items + len(self._bounds), self.n_tokens + len(self._hashes)
        self.hashes, self.values = _room(self.hashes, n_tokens), _room(self.values, n_tokens)
        self.bounds, self.main, self.dense = (_room(part, n_items) for part in (self.bounds, self.main, self.dense))
        self.hashes[self.n_tokens : n_tokens] = np.array(self._hashes, np.uint64)
        self.values[self.n_tokens : n_tokens] = self._values
        self.bounds[self.n_items : n_items] = self._bounds
        self.main[self.n_items : n_items] = self._main
        if self._numbers and self.dense.shape[1]:
            self.dense[self.n_items : n_items] = self._numbers
        self.n_items, self.n_tokens = n_items, n_tokens
        for part in (self._hashes, self._values, self._bounds, self._main, self._numbers):
            part.clear()

    def tokens(self) -> Tokens:
        return Tokens(self.hashes, self.values, self.bounds, self.main)


def _room(array: Any, size: int) -> Any:
    if size <= len(array):
        return array
    larger = np.zeros((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _plan(schema: Schema) -> Plan:
    numbers = {name: i for i, name in enumerate([*schema.features, *schema.context])}
    kinds = dict(schema.features) | dict(schema.context)
    crosses = np.full((len(schema.crosses), FIELDS_IN_CROSS), NONE, np.int64)
    for c, cross in enumerate(schema.crosses):
        names = cross.split("*")
        crosses[c, : len(names)] = [numbers[name] for name in names]
    return Plan(
        np.array([kind.memory for kind in schema.features.values()], np.bool_),
        crosses,
        np.array([any(kinds[name].memory for name in cross.split("*")) for cross in schema.crosses], np.bool_),
        schema.n_hashed // 2,
    )


def own_value(row: Mapping[str, Any], name: str, kind: Any, id: Any) -> Any:
    """The value of a field; an id that is not given is the item's own."""
    value = row.get(name)
    return id if value is None and kind.memory else value


def check_names(values: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> None:
    for name in values:
        if name not in fields:
            known = nearest(str(name), fields) or f"; there are {', '.join(fields) or 'none'}"
            raise InvalidInput(f"{where} has the field {name!r:.60}, which is not in the schema{known:.300}")


def _same(before: Mapping[str, Any], row: Any) -> bool:
    try:
        return bool(before == row)
    except ValueError:  # an array among the values
        return False


def _copied(row: Mapping[str, Any]) -> dict[str, Any]:
    """So that nobody changes it; what can be changed is copied."""
    kept = dict(row)
    for name, value in row.items():
        if type(value) not in SIMPLE:
            kept[name] = copy.copy(value)
    return kept


def _label(name: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{name} ≈ {knot_value(key):.3g}"
    return f"{name} = {key}" if key else name
