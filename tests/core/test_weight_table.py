"""A table that is a value: versions stay as they were, whoever writes, reads, forks or forgets."""

import gc
import hashlib
import io
import json
import struct
import threading
import weakref
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop.core import weight_table as module
from rankloop.core.errors import InvalidInput
from rankloop.core.saved_session import HEADER_NAME, _restored_table, dumps, loads
from rankloop.core.session import Session
from rankloop.core.types import Query
from rankloop.core.weight_table import WeightTable, with_columns
from rankloop.features import Encoder, Schema
from rankloop.learners.wrappers.hashed_weights import Hashed
from tests.feedback import clicks

WIDTH = 12
EVERYTHING = np.arange(WIDTH)


def patch(rng, n_columns=WIDTH):
    columns = rng.permutation(n_columns)[: rng.integers(0, n_columns + 1)]
    values = rng.normal(size=(len(columns), 2))
    values[rng.random(len(columns)) < 0.2] = 0.0
    return columns, values


def patched_copy(dense, columns, values):
    new = dense.copy()
    new[columns] = values
    return new


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([0, 3, 256]))
def test_versions_stay_intact(seed, steps_back):
    """Any version may be patched, grown or read, in any order; dense copies say what each of them holds."""
    rng, versions = default_rng(seed), [(WeightTable(WIDTH), np.zeros((WIDTH, 2)))]
    before, module.MAX_STEPS_BACK = module.MAX_STEPS_BACK, steps_back
    try:
        for _ in range(30):
            recent = max(0, len(versions) - 1 - int(rng.integers(0, 3))) if rng.random() < 0.7 else 0
            table, dense = versions[recent if rng.random() < 0.8 else int(rng.integers(0, len(versions)))]
            columns, values = patch(rng)
            versions.append((table.patched(columns, values), patched_copy(dense, columns, values)))
            if rng.random() < 0.2:
                del versions[int(rng.integers(0, len(versions)))]
            for known, expected in versions:
                asked = rng.permutation(WIDTH)[: rng.integers(0, WIDTH)]
                assert known.at(asked).tolist() == expected[asked].tolist()
        for known, expected in versions:
            columns, values = known.used()
            assert columns.tolist() == np.flatnonzero(expected.any(axis=1)).tolist()
            assert values.tolist() == expected[columns].tolist()
            assert known.at(EVERYTHING).tolist() == expected.tolist()
            assert known.digest() == WeightTable.of(WIDTH, columns, values).digest()
    finally:
        module.MAX_STEPS_BACK = before


def test_the_newest_is_written_in_place_and_an_older_one_forks():
    first = WeightTable(100)
    second = first.patched(np.array([3]), np.array([[1.0, 2.0]]))
    third = second.patched(np.array([3, 4]), np.array([[5.0, 6.0], [7.0, 8.0]]))
    assert first._held[0] is second._held[0] is third._held[0]
    fork = first.patched(np.array([4]), np.array([[9.0, 9.0]]))
    assert fork._held[0] is not third._held[0]
    asked = np.array([3, 4])
    assert first.at(asked).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert second.at(asked).tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert third.at(asked).tolist() == [[5.0, 6.0], [7.0, 8.0]]
    assert fork.at(asked).tolist() == [[0.0, 0.0], [9.0, 9.0]]


def test_an_empty_patch_is_the_same_version():
    table = WeightTable(WIDTH).patched(np.array([1]), np.ones((1, 2)))
    assert table.patched(np.empty(0, np.int64), np.empty((0, 2))) is table


def test_what_is_read_is_nobodys_to_change():
    table = WeightTable(WIDTH).patched(np.array([1]), np.ones((1, 2)))
    table.at(np.array([1]))[:] = 5.0
    table.used()[1][:] = 5.0
    assert table.at(np.array([1])).tolist() == [[1.0, 1.0]]


def test_grown():
    old = WeightTable(4).patched(np.array([3]), np.array([[1.0, 2.0]]))
    newer = old.patched(np.array([3, 0]), np.array([[3.0, 4.0], [5.0, 6.0]]))
    assert old.grown(4) is old
    for table in (old, newer):
        large = table.grown(6)
        assert large.n_columns == 6
        assert large.at(np.arange(6)).tolist() == [*table.at(np.arange(4)).tolist(), [0.0, 0.0], [0.0, 0.0]]
        large.patched(np.array([5, 3]), np.ones((2, 2)))
    assert old.at(np.array([3])).tolist() == [[1.0, 2.0]]


def test_states_grow_by_their_tables():
    state = Hashed(inner="fair_pairs").init(Schema({"a": "category"}, bits=4).problem())
    grown = with_columns(state, 20)
    assert grown.table.n_columns == 20
    assert grown.inner is not None
    assert grown.n_hashed == state.n_hashed == 16


def test_digest_and_equality():
    one = WeightTable(WIDTH).patched(np.array([5, 2]), np.array([[1.0, 0.0], [0.0, 3.0]]))
    way_round = WeightTable(WIDTH).patched(np.array([2, 7]), np.array([[0.0, 3.0], [1.0, 1.0]]))
    other = way_round.patched(np.array([7, 5]), np.array([[0.0, 0.0], [1.0, 0.0]]))
    assert one.digest() == other.digest()
    assert one == other
    assert one != way_round
    assert one != "a table"
    assert one.grown(WIDTH + 1) != one, "the size is part of it"
    assert other.patched(np.array([5]), np.array([[1.0, 1e-300]])) != one
    content = struct.pack("<q2q4d", 12, 2, 5, 0.0, 3.0, 1.0, 0.0)  # size, columns, values: the same on every machine
    assert one.digest() == hashlib.sha256(content).hexdigest()
    assert "2 of 12 columns" in repr(one)


def test_readers_of_older_versions_while_a_writer_patches(monkeypatch):
    monkeypatch.setattr(module, "MAX_STEPS_BACK", 8)
    n_columns, n_versions = 64, 300
    rng = default_rng(0)
    patches = [patch(rng, n_columns) for _ in range(n_versions)]
    expected = [np.zeros((n_columns, 2))]
    for columns, values in patches:
        expected.append(patched_copy(expected[-1], columns, values))
    versions, done, wrong = [WeightTable(n_columns)], threading.Event(), []

    def read(seed):
        own = default_rng(seed)
        while not done.is_set():
            t = int(own.integers(max(0, len(versions) - 20), len(versions)))
            asked = own.permutation(n_columns)[:10]
            if versions[t].at(asked).tolist() != expected[t][asked].tolist():
                wrong.append(t)
            if own.random() < 0.05:
                columns, values = patch(own, n_columns)
                fork, dense = versions[t].patched(columns, values), patched_copy(expected[t], columns, values)
                if fork.at(np.arange(n_columns)).tolist() != dense.tolist():
                    wrong.append(("fork", t))

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for reader in readers:
        reader.start()
    for columns, values in patches:
        versions.append(versions[-1].patched(columns, values))
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    for table, dense in zip(versions, expected):
        assert table.at(np.arange(n_columns)).tolist() == dense.tolist()


def test_what_nobody_keeps_is_freed():
    table, seen = WeightTable(1000), []
    for t in range(50):
        columns = np.arange(t, t + 5)
        seen.append(weakref.ref(columns))
        table = table.patched(columns, np.full((5, 2), float(t)))
    del columns
    gc.collect()
    assert [t for t, ref in enumerate(seen) if ref() is not None] == []


def test_an_old_version_that_is_kept_gets_a_table_of_its_own():
    n_columns = 100
    kept = WeightTable(n_columns).patched(np.array([7]), np.array([[1.0, 2.0]]))
    later, newest = None, kept
    for t in range(60):
        columns = np.arange(t, t + 10)
        newest = newest.patched(columns, np.full((10, 2), t + 1.0))
        if t == 2:
            later = newest
    assert kept._held[0] is not newest._held[0]
    assert later._held[0] is not newest._held[0]
    n_old_values = sum(len(step.old_values[0]) for step in module._since(kept._held[1]))
    assert n_old_values <= n_columns, "the chain behind it ends"
    assert kept.at(np.array([7, 0])).tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert later.at(np.array([0, 1, 11])).tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]


def test_one_that_left_by_itself_does_not_hide_others(monkeypatch):
    """A version that got its own table by being read is not the oldest of the old one any more."""
    monkeypatch.setattr(module, "MAX_STEPS_BACK", 2)
    read = WeightTable(400)
    kept = read.patched(np.array([7]), np.ones((1, 2)))
    newest = kept
    for t in range(5):
        newest = newest.patched(np.array([t]), np.ones((1, 2)))
    read.at(np.array([1]))
    assert read._held[0] is not newest._held[0]
    for _ in range(40):
        newest = newest.patched(np.arange(10), np.ones((10, 2)))
    assert kept._held[0] is not newest._held[0]


def test_many_small_versions_are_not_free():
    """A version of one column takes more memory than the column: an old one is let go before so many are behind it."""
    kept = newest = WeightTable(1000)
    for t in range(3 * 1000 // module.COLUMNS_PER_VERSION):
        newest = newest.patched(np.array([t]), np.ones((1, 2)))
    assert kept._held[0] is not newest._held[0]


def test_a_long_chain_is_freed_without_recursion():
    kept = newest = WeightTable(2**20)
    for _ in range(50_000):
        newest = newest.patched(np.array([1]), np.ones((1, 2)))
    del kept
    assert newest.at(np.array([1])).tolist() == [[1.0, 1.0]]


def columns_of(*numbers):
    return np.array(numbers, dtype=np.int64)


@pytest.mark.parametrize(
    ("columns", "values", "message"),
    [
        (columns_of(1, 2).astype(np.int32), np.ones((2, 2)), "must be columns"),
        (columns_of(1, 2).astype(">i8"), np.ones((2, 2)), "must be columns"),
        (columns_of(1, 2).reshape(1, 2), np.ones((2, 2)), "must be columns"),
        (np.array(3), np.ones((1, 2)), "must be columns"),
        (columns_of(1, 2), np.ones((2, 3)), "must be columns"),
        (columns_of(1, 2), np.ones((3, 2)), "must be columns"),
        (columns_of(1, 2), np.ones((2, 2), np.float32), "must be columns"),
        (columns_of(1, 2), np.ones((2, 2), complex), "must be columns"),
        (columns_of(2, 1), np.ones((2, 2)), "has columns"),
        (columns_of(1, 1), np.ones((2, 2)), "has columns"),
        (columns_of(-1, 2), np.ones((2, 2)), "has columns"),
        (columns_of(1, WIDTH), np.ones((2, 2)), "has columns"),
        (columns_of(1, 2**62), np.ones((2, 2)), "has columns"),
        (columns_of(2**63 - 1), np.ones((1, 2)), "has columns"),
        # rising by less than 2^63 each time, around the end of the numbers: differences do not show it
        (columns_of(5, -(2**63) + 1, -1, 6), np.ones((4, 2)), "has columns"),
        (columns_of(1, 2), np.array([[1.0, np.nan], [1.0, 1.0]]), "finite"),
        (columns_of(1, 2), np.array([[np.inf, 1.0], [1.0, 1.0]]), "finite"),
        (columns_of(1, 2), np.array([[1.0, 1.0], [1.0, -1e-9]]), "evidence below 0"),
    ],
)
def test_a_hostile_table_is_refused(columns, values, message):
    with pytest.raises(InvalidInput, match=message):
        _restored_table(WIDTH, columns, values, "state.table")


@given(st.integers(0, 10**6))
def test_used_and_restored_are_inverse(seed):
    columns, values = patch(default_rng(seed))
    table = WeightTable(WIDTH).patched(columns, np.abs(values))
    assert _restored_table(WIDTH, *table.used(), "x") == table
    assert _restored_table(WIDTH, *(np.asfortranarray(part) for part in table.used()), "x") == table


SCHEMA = Schema({"brand": "category", "price": {"kind": "number", "scale": "log"}}, bits=6)
ITEMS = {"a": {"brand": "x", "price": 3}, "b": {"brand": "y"}, "c": {"brand": ["x", "z"], "price": 1e9}}


def learned_session():
    session = Session(Hashed(inner="click_regression"), SCHEMA.problem(), 1)
    query = Query("", Encoder(SCHEMA).rows(list(ITEMS), list(ITEMS.values()), {}), np.empty(0))
    for _ in range(4):
        decision = session.rank(query)
        session.learn(query, decision, clicks([1]))
    return session, query


def test_a_saved_session_goes_on():
    session, query = learned_session()
    older = session.state
    session.learn(query, session.rank(query), clicks([0]))
    loaded = loads(dumps(session))
    assert loaded.state.table == session.state.table
    assert loaded.state.table != older.table
    for one in (session, loaded):
        one.learn(query, one.rank(query), clicks([2]))
    assert loaded.state.table == session.state.table
    assert loaded.rank(query).ranking.tolist() == session.rank(query).ranking.tolist()


def rewritten(content, header=None, arrays=None):
    """The saved file with its header changed, or some of its arrays."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    if header:
        outline = json.loads(parts[HEADER_NAME])
        header(outline)
        parts[HEADER_NAME] = json.dumps(outline).encode()
    for name, array in (arrays or {}).items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array)
        parts[name] = buffer.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return buffer.getvalue()


def test_hostile_files_are_refused():
    session, _ = learned_session()
    content = dumps(session)
    columns, values = session.state.table.used()
    assert loads(rewritten(content)).state.table == session.state.table

    def outside(header):
        header["state"]["table"]["columns"] = 2**20

    def fewer(header):
        header["state"]["table"]["used"].pop()

    def no_table(header):
        header["state"]["table"] = 3

    def another(header):
        header["state"]["table"]["used"][0]["array"] = 99

    def other_problem(header):
        header["state"]["n_hashed"] = 2

    for header in (outside, fewer, no_table, another, other_problem):
        with pytest.raises(InvalidInput):
            loads(rewritten(content, header))
    negative, unknown = values.copy(), values.copy()
    negative[0, 1], unknown[0, 0] = -1.0, np.nan
    huge, descending = columns.copy(), columns[::-1].copy()
    huge[-1] = 2**62
    for arrays in (
        {"0.npy": huge},
        {"0.npy": descending},
        {"0.npy": columns[:-1]},
        {"0.npy": columns.astype(float)},
        {"1.npy": negative},
        {"1.npy": unknown},
        {"1.npy": values[:, :1]},
    ):
        with pytest.raises(InvalidInput):
            loads(rewritten(content, arrays=arrays))
