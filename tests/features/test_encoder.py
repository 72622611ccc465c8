"""Rows are what a plain reading of the schema says, entry by entry, whatever the encoder remembers."""

import copy
import threading
from datetime import date
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.features import Encoder, Schema
from rankloop.features import encoder as module
from rankloop.features.hashed_columns import MISSING_VALUE, _cross_hashes, hash_of

DAY = 86_400.0
TEXTS = st.sampled_from(["", " ", "a", "b", "red shoes", "The Red", "café", "cafe\u0301", "東京", "1", "x" * 40])
NUMBERS = st.one_of(st.sampled_from([0, 1, -1, 0.5, 1e9, -1e300, True]), st.floats(-1e6, 1e6))
KINDS = {
    "number": NUMBERS,
    "category": st.one_of(TEXTS, NUMBERS, st.lists(TEXTS, max_size=3)),
    "words": TEXTS,
    "id": st.one_of(TEXTS, st.integers(-3, 3)),
    "flag": st.sampled_from([True, False, 0, 1, "yes", ""]),
    "date": st.sampled_from(["2026-11-15", "2020-02-29T12:00", "", 0, 1.6e9, date(2025, 5, 5)]),
}
SCALED = {"kind": "number", "scale": "log", "mean": 1.0, "deviation": 2.0}
VALUES = KINDS | {"scaled": NUMBERS, "vector": st.lists(st.floats(-200, 200), min_size=2, max_size=2)}
SPECS = {kind: kind for kind in KINDS} | {"scaled": SCALED, "vector": "vector(size=2)"}


@st.composite
def schemas(draw):
    own = draw(st.lists(st.sampled_from(list(SPECS)), min_size=1, max_size=5))
    asked = draw(st.lists(st.sampled_from(list(KINDS)), max_size=3))
    features = {f"{kind} {i}": SPECS[kind] for i, kind in enumerate(own)}
    context = {f"{kind} of context {i}": kind for i, kind in enumerate(asked)}
    crossable = [name for name in features if not name.startswith("vector")]
    crosses = {}
    if crossable:
        for _ in range(draw(st.integers(0, 3))):
            others = [name for name in [*crossable, *context] if name]
            names = {draw(st.sampled_from(crossable))} | set(draw(st.lists(st.sampled_from(others), max_size=2)))
            if len(names) > 1:
                crosses[frozenset(names)] = "*".join(draw(st.permutations(sorted(names))))
    context = {name: kind for name, kind in context.items() if any(name in names for names in crosses)}
    return Schema(features, context, tuple(crosses.values()), draw(st.integers(4, 9)))


def kind_name(name):
    return name.split(" ")[0]


@st.composite
def rows_of(draw, fields):
    row = {}
    for name in fields:
        given = draw(st.sampled_from(["absent", "null", "given", "given", "given"]))
        if given != "absent":
            row[name] = draw(VALUES[kind_name(name)]) if given == "given" else None
    return row


@st.composite
def requests(draw, schema):
    ids = draw(st.lists(st.one_of(st.integers(0, 5), st.sampled_from("abc")), min_size=1, max_size=4, unique=True))
    rows = [draw(rows_of(schema.features)) for _ in ids]
    return ids, rows, draw(rows_of(schema.context)), draw(st.sampled_from([0.0, 1.79e9, 1.79e9 + DAY]))


def plain_entries(schema, id, row, context, at):
    """(column, value) of each entry: a second reading, without any memory."""

    def tokens_of(fields, values, own_id):
        found = {}
        for name, kind in fields.items():
            value = values.get(name)
            if value is None and kind.memory and own_id is not None:
                value = own_id
            keys, numbers = ((), ()) if value is None else kind.tokens(value, at)
            found[name] = [(hash_of(name, str(key)), number) for key, number in zip(keys, numbers)]
            if not found[name] and (value is None or not kind.size):
                found[name] = [(hash_of(name, MISSING_VALUE), 1.0)]
        return found

    half = 2 ** (schema.bits - 1)
    named = tokens_of(schema.features, row, id)
    kinds = schema.features | schema.context
    entries = []
    for name, kind in schema.features.items():
        if not kind.size or row.get(name) is None:
            entries += [(hashed % half + half * kind.memory, value) for hashed, value in named[name]]
    named |= tokens_of(schema.context, context, None)
    for cross in schema.crosses:
        names = sorted(cross.split("*"))
        memory = any(kinds[name].memory for name in names)
        for parts in product(*(named[name] for name in names)):
            (hashed, value), *others = parts
            for other, near in others:
                hashed, value = int(_cross_hashes(np.uint64(hashed), np.uint64(other))), value * near
            entries.append((hashed % half + half * memory, value))
    return entries


def plain_dense(schema, row):
    numbers = []
    for name, kind in schema.features.items():
        if kind.size:
            numbers += [0.0] * kind.size if row.get(name) is None else list(kind.numbers(row[name]))
    return numbers


def entries_of(rows, item):
    own = slice(rows.starts[item], rows.starts[item + 1])
    return list(zip(rows.columns[rows.positions[own]].tolist(), rows.values[own].tolist()))


def check(encoder, ids, rows, context, at):
    schema, found = encoder.schema, encoder.rows(ids, rows, context, at)
    assert len(set(found.columns.tolist())) == len(found.columns)
    assert set(found.positions.tolist()) == set(range(len(found.columns))), "every column in sight has an entry"
    assert found.n_items == len(ids)
    assert found.dense.shape == (len(ids), schema.n_dense)
    for item, (id, row) in enumerate(zip(ids, rows)):
        expected = plain_entries(schema, id, row, context, at)
        assert entries_of(found, item) == expected
        assert found.dense[item].tolist() == plain_dense(schema, row)
        named = encoder.columns(id, row, context, at)
        assert [(column.column, column.value) for column in named] == expected


@settings(max_examples=200)
@given(st.data())
def test_rows_are_what_the_schema_says(data):
    """Again and again with the same encoder: what it remembers must not show."""
    schema = data.draw(schemas())
    encoder = Encoder(schema)
    for _ in range(data.draw(st.integers(1, 3))):
        ids, rows, context, at = data.draw(requests(schema))
        for _ in range(2):
            check(encoder, ids, rows, context, at)
        check(Encoder(schema), ids, rows, context, at)


SHOP = Schema(
    {"price": "number", "brand": "category", "title": "words", "sku": "id", "new": "flag", "size": SCALED},
    {"segment": "category", "query": "words"},
    ("segment*brand", "query*title", "segment*brand*sku"),
    20,
)
SHOE = {"price": 19.99, "brand": "Acme", "title": "Red shoes", "new": True, "size": 42}
SOCK = {"price": 5, "brand": ["Bolt", "Acme"], "title": "Socks"}
ASKED = {"segment": "sport", "query": "red"}


def test_columns_written_down():
    """As numbers: on another machine, Python or version they have to be the same."""
    rows = Encoder(SHOP).rows(["p-1", 2], [SHOE, SOCK], ASKED)
    assert entries_of(rows, 0) == [
        (127139, 0.4996876951661413),
        (127824, 0.5003123048338587),
        (105478, 1.0),
        (260239, 0.7071067811865475),
        (8104, 0.7071067811865475),
        (943700, 1.0),
        (222118, 1.0),
        (111305, 1.0),
        (178688, 0.7071067811865475),
        (326041, 0.7071067811865475),
        (855794, 1.0),
    ]
    assert rows.dense.tolist() == [[1.3520026230586037], [0.0]]


def test_names():
    assert [column.name for column in Encoder(SHOP).columns("p-1", SHOE, ASKED)] == [
        "price ≈ 16",
        "price ≈ 24",
        "brand = Acme",
        "title = red",
        "title = shoes",
        "sku = p-1",
        "new = 1",
        "segment = sport × brand = Acme",
        "query = red × title = red",
        "query = red × title = shoes",
        "segment = sport × brand = Acme × sku = p-1",
    ]


def test_memory_is_the_upper_half():
    half = SHOP.n_hashed // 2
    for column in Encoder(SHOP).columns("p-1", SHOE, ASKED):
        assert (column.column >= half) == ("sku" in column.name), column


def test_a_cross_is_the_same_whichever_way_it_is_written():
    one, other = (Schema({"a": "category", "b": "words"}, {"c": "id"}, crosses) for crosses in (["a*b*c"], ["c*b*a"]))
    row, context = {"a": ["x", "y"], "b": "u v"}, {"c": 3}
    first, second = (Encoder(schema).columns("i", row, context) for schema in (one, other))
    assert [column[1:] for column in first] == [column[1:] for column in second]
    assert first[-1].name == "a = y × b = v × c = 3"
    assert second[-1].name == "c = 3 × b = v × a = y"


def test_values_that_are_equal_give_equal_columns():
    schema = Schema({"a": "category", "n": "number", "f": "flag"}, bits=10)
    rows = [
        {"a": 1, "n": 1, "f": 1},
        {"a": True, "n": True, "f": True},
        {"a": "1", "n": 1.0, "f": "yes"},
        {"a": [1.0], "n": np.int8(1), "f": "1"},
    ]
    found = Encoder(schema).rows(range(4), rows, {})
    assert {tuple(entries_of(found, item)) for item in range(4)} == {tuple(entries_of(found, 0))}


def test_what_is_missing_is_a_column_of_its_own():
    schema = Schema({"a": "category", "n": "number", "s": SCALED, "v": "vector(size=2)"}, bits=12)
    names = [column.name for column in Encoder(schema).columns("i", {}, {})]
    assert names == ["a missing", "n missing", "s missing", "v missing"]
    rows = Encoder(schema).rows("ij", [{}, {"a": 0, "n": 0, "s": 0, "v": [0, 0]}], {})
    assert not {column for column, _ in entries_of(rows, 0)} & {column for column, _ in entries_of(rows, 1)}


def test_changed_tables_are_seen():
    """The same dict or list, changed by whoever asks between two calls."""
    schema = Schema({"tags": "category", "n": "number", "v": "vector(size=2)", "w": "vector(size=2)"}, bits=10)
    encoder = Encoder(schema)
    row = {"tags": ["a"], "n": 1.0, "v": [1.0, 2.0], "w": np.array([1.0, 2.0])}
    check(encoder, ["i"], [row], {}, 0.0)
    row["tags"].append("b")
    check(encoder, ["i"], [row], {}, 0.0)
    row["v"][0] = 5.0
    check(encoder, ["i"], [row], {}, 0.0)
    row["w"][0] = 5.0
    check(encoder, ["i"], [row], {}, 0.0)
    row["n"] = 2.0
    check(encoder, ["i"], [row], {}, 0.0)
    row["tags"] = {"a", "b"}
    check(encoder, ["i"], [row], {}, 0.0)
    row["tags"].discard("a")
    check(encoder, ["i"], [row], {}, 0.0)
    del row["n"]
    check(encoder, ["i"], [row], {}, 0.0)


def test_what_was_answered_stays():
    """Rows are values: later calls do not write into them."""
    encoder = Encoder(SHOP)
    first = encoder.rows(["p-1", 2], [SHOE, SOCK], ASKED)
    before = copy.deepcopy(first)
    for i in range(200):
        encoder.rows([i, "p-1"], [SOCK | {"price": i}, SHOE | {"size": i}], ASKED)
    for part, then in zip(first, before):
        assert part.tolist() == then.tolist()


def test_values_that_cannot_be_compared():
    """An array has no plain answer to whether it is the same, and others refuse to be asked."""

    class NotAsked:
        def __eq__(self, other):
            raise TypeError("ambiguous")

        __hash__ = None

    encoder = Encoder(Schema({"tags": "category"}, bits=8))
    for value in (np.array(["a", "b"]), np.array(["a", "b", "c"]), np.array([]), "a"):
        check(encoder, ["i"], [{"tags": value}], {}, 0.0)
    with pytest.raises(InvalidInput, match="item 'i': tags must be a text"):
        encoder.rows(["i"], [{"tags": NotAsked()}], {})


def test_days():
    schema = Schema({"added": "date", "brand": "category"}, bits=10)
    encoder, row = Encoder(schema), {"added": "2026-11-10", "brand": "x"}
    monday = 1_794_787_200.0  # the 16th of November 2026
    for at in (monday, monday + DAY - 1, monday + DAY, monday, monday + 7 * DAY):
        check(encoder, ["i"], [row], {}, at)
    ages = [encoder.columns("i", row, {}, at)[0].name for at in (monday, monday + DAY - 1, monday + 40 * DAY)]
    assert ages[0] == ages[1] != ages[2]


@pytest.mark.parametrize(
    "at", [float("nan"), float("inf"), -1e13, "now", None, 10**5000], ids=lambda at: type(at).__name__
)
def test_moments_that_are_none(at):
    encoder = Encoder(Schema({"brand": "category"}, bits=8))
    for call in (encoder.rows, encoder.columns):
        with pytest.raises(InvalidInput, match="at is when the ranking is made"):
            call(["i"], [{}], {}, at)


@pytest.mark.parametrize("limit", ["MAX_KNOWN", "MAX_STORED", "MAX_HASHES", "MAX_VALUES_KNOWN", "MAX_LENGTH_KNOWN"])
def test_what_is_forgotten_is_found_again(limit, monkeypatch):
    monkeypatch.setattr(module, limit, 3)
    encoder = Encoder(SHOP)
    for t in range(12):
        rows = [{"price": t, "brand": ["a", str(t)], "title": f"w{t} and w{t + 1}"}, SHOE, SOCK]
        check(encoder, [t, "p-1", 2], rows, {"segment": t, "query": f"w{t}"}, 0.0)
    kept = {
        "MAX_KNOWN": len(encoder._known),
        "MAX_STORED": encoder._store.n_items,
        "MAX_HASHES": max(field.hash_of.cache_info().currsize for field in encoder._item_fields),
        "MAX_VALUES_KNOWN": max(field.kept_tokens.cache_info().currsize for field in encoder._item_fields),
        "MAX_LENGTH_KNOWN": encoder._item_fields[2].kept_tokens.cache_info().currsize,  # titles
    }
    assert kept[limit] <= 6


def test_memory_is_bounded_where_values_change_all_the_time(monkeypatch):
    """Vectors have no tokens: their numbers count too."""
    monkeypatch.setattr(module, "MAX_STORED", 1000)
    encoder, rng = Encoder(Schema({"v": "vector(size=10)"}, bits=8)), np.random.default_rng(0)
    for _ in range(100):
        encoder.rows(["a", "b"], [{"v": rng.normal(size=10).tolist()} for _ in "ab"], {})
        assert encoder._store.dense.size <= 2000


def test_long_texts_are_not_kept():
    encoder = Encoder(Schema({"title": "words", "tags": "category", "sku": "id", "v": "vector(size=2)"}, bits=8))
    encoder.rows(["i"], [{"title": "word " * 1000, "tags": ["x" * 900] * 500, "sku": "s", "v": [1, 2]}], {})
    n_kept = {field.name: field.kept_tokens.cache_info().currsize for field in encoder._item_fields}
    assert n_kept == {"title": 0, "tags": 1, "sku": 0, "v": 0}


def test_too_many_entries():
    schema = Schema({"a": "category", "b": "category"}, {"c": "category"}, ["a*b*c"], 10)
    many = [f"v{i}" for i in range(60)]
    encoder = Encoder(schema)
    before = encoder.rows(["x"], [{"a": "1"}], {})
    with pytest.raises(InvalidInput, match="item 'y' fills 216120 columns, more than 10000"):
        encoder.rows(["x", "y"], [{}, {"a": many, "b": many}], {"c": many})
    again = encoder.rows(["x"], [{"a": "1"}], {})
    assert [part.tolist() for part in before] == [part.tolist() for part in again]


def test_too_many_entries_in_all(monkeypatch):
    monkeypatch.setattr(module, "MAX_ALL_ENTRIES", 5)
    with pytest.raises(InvalidInput, match="the items fill 6 columns, more than 5: rank fewer"):
        Encoder(Schema({"a": "category"}, bits=8)).rows(range(6), [{}] * 6, {})


def test_many_threads():
    encoder, wrong = Encoder(SHOP), []
    rng = np.random.default_rng(0)
    requests = []
    for _ in range(30):
        ids = rng.permutation(20)[:5].tolist()
        rows = [
            {"price": float(rng.integers(3)), "brand": f"b{rng.integers(4)}", "title": f"w{rng.integers(9)}"}
            for _ in ids
        ]
        requests.append((ids, rows, {"segment": str(rng.integers(3)), "query": f"w{rng.integers(9)}"}))
    expected = [[part.tolist() for part in Encoder(SHOP).rows(*request)] for request in requests]

    def work(seed):
        for number in np.random.default_rng(seed).integers(0, len(requests), 60):
            if [part.tolist() for part in encoder.rows(*requests[number])] != expected[number]:
                wrong.append(number)
            ids, rows, context = requests[number]
            encoder.columns(ids[0], rows[0], context)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
