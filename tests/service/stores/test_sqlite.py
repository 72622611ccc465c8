"""The write-ahead file of SQLite begins anew while the load lasts, and while somebody reads."""

from __future__ import annotations

import shutil
import sqlite3
import time
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from rankloop.service.domain.feedback_acceptance import impression_of, settle_end
from rankloop.service.errors import Unavailable
from rankloop.service.log.writer import Batch, RecentImpressions, entry_of
from rankloop.service.records import FeedbackReceived, LogEntry, Ranked, Resumed, Snapshot
from rankloop.service.stores import sqlite
from rankloop.service.stores.sqlite import SqliteStore
from tests.service.cases import append

PAGE = 4096
SHOWN = Ranked("x" * 32, [str(i) for i in range(50)], bytes(8 * 50 * 20), list(range(50)))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    monkeypatch.setattr(sqlite, "CHECKPOINT_SECONDS", 0.02)
    monkeypatch.setattr(sqlite, "MAX_WAL_PAGES", 200)
    return SqliteStore(tmp_path / "rankloop.db")


def _appended(store: SqliteStore, n: int) -> None:
    for _ in range(n):
        append(store, *[entry_of("ranker/a", SHOWN)] * 8)


def test_the_file_stays_short_while_the_load_lasts(store: SqliteStore) -> None:
    sizes = []
    for _ in range(60):
        _appended(store, 5)
        sizes.append(store.path.with_name("rankloop.db-wal").stat().st_size)
    n = store.last()
    store.close()
    written = store.path.stat().st_size
    assert written > 4 * 200 * PAGE
    assert max(sizes) < written / 2
    again = SqliteStore(store.path)
    assert (again.last(), sum(1 for _ in again.read())) == (n, n)
    again.close()


def test_a_file_that_begins_anew_keeps_its_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that makes the file longer waits twice as long for the disk."""
    monkeypatch.setattr(sqlite, "CHECKPOINT_SECONDS", 1000.0)
    store, wal = SqliteStore(tmp_path / "rankloop.db"), tmp_path / "rankloop.db-wal"
    _appended(store, 40)
    length, beginning = wal.stat().st_size, wal.read_bytes()[:PAGE]
    store._wal_pages = sqlite.MAX_WAL_PAGES + 1
    _appended(store, 1)
    assert wal.stat().st_size == length
    assert wal.read_bytes()[:PAGE] != beginning
    store.close()


def test_somebody_who_reads_for_long_does_not_hold_up_the_writer(store: SqliteStore) -> None:
    _appended(store, 20)
    backup = sqlite3.connect(store.path, isolation_level=None)
    backup.execute("BEGIN")
    backup.execute("SELECT count(*) FROM rankloop_events").fetchone()
    slowest = 0.0
    for _ in range(40):
        begun = time.monotonic()
        _appended(store, 1)
        slowest = max(slowest, time.monotonic() - begun)
    backup.close()
    assert slowest < 3.0  # of the 10 seconds for which it would wait
    store.close()


def test_what_is_asked_of_a_few_impressions_does_not_walk_through_the_log(tmp_path: Path) -> None:
    store, asked = SqliteStore(tmp_path / "rankloop.db"), list[tuple[str, tuple[object, ...]]]()
    real = store.rows
    store.rows = lambda query, values=(): asked.append((query, tuple(values))) or real(query, values)  # type: ignore[method-assign,func-returns-value]
    store.records_of_impressions("ranker/a", ["x", "y"], 10)
    store.closed_among("ranker/a", ["x", "y"])
    store.records_of_impression("ranker/a", "x")
    store.changes("ranker/a")
    store.first_records()
    store.deletions()
    plans = [line[3] for query, values in asked for line in real(f"EXPLAIN QUERY PLAN {query}", values)]
    store.close()
    assert sum("INDEX rankloop_events_by_impression" in plan for plan in plans) == 3, plans
    assert not [plan for plan in plans if plan == "SCAN rankloop_events" or "events_by_entity" in plan], plans


def test_what_is_learned_at_once_is_what_the_file_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "MAX_RECENT_BYTES", 5 * 9_000)
    store, expected = SqliteStore(tmp_path / "rankloop.db"), []
    for position in (0, 3, 4, 7):
        append(store, *[entry_of("ranker/a", SHOWN)] * 4)
        read = store.tail(position, [0])
        assert read.records == list(store.read(after=position))
        assert (read.until, read.more) == (store.last(), False)
        expected.append(len(read.records))
    assert expected == [4, 5, 8, 9]  # the third and the fourth are no longer in memory
    monkeypatch.setattr(store, "_on_step", _fail_after_commit)
    with pytest.raises(Unavailable):
        append(store, entry_of("ranker/a", SHOWN))
    monkeypatch.setattr(store, "_on_step", lambda point: None)
    append(store, entry_of("ranker/a", SHOWN))
    assert [record.seq for record in store.tail(15, [0]).records] == [16, 17, 18]
    store.close()


def test_an_impression_that_the_writer_has_read_is_not_read_again_to_be_learned(tmp_path: Path) -> None:
    store, asked = SqliteStore(tmp_path / "rankloop.db"), list[str]()
    append(store, *[entry_of("ranker/a", replace(SHOWN, impression=name)) for name in "xyz"])
    assert store.tail(store.last(), [0]).records == []
    real = store.rows
    store.rows = lambda query, values=(): asked.append(query) or real(query, values)  # type: ignore[method-assign,func-returns-value]
    for names, is_final in (("xy", False), ("y", True), ("z", True)):
        append(
            store, *[LogEntry("ranker/a", impression=name, settle=partial(_click, name, is_final)) for name in names]
        )
    records = store.records_of_impressions("ranker/a", ["x", "y", "z"], 6)
    assert not asked
    assert [record.seq for record in records] == [1, 4, 2, 5, 6, 3]  # event 7 is later
    for name in "xyz":
        expected = [record for record in store.records_of_impression("ranker/a", name) if record.seq <= 6]
        assert [record for record in records if record.event.impression == name] == expected  # type: ignore[attr-defined]
    asked.clear()
    store.tail(store.last(), [0])  # these are learned, and leave memory
    assert [record.seq for record in store.records_of_impressions("ranker/a", ["y"], 7)] == [2, 5, 6]
    assert len(asked) == 1
    store.close()


def test_an_impression_in_the_memory_of_the_writer_is_not_read_to_be_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_RECENT_BYTES", 3 * 8_000)  # two impressions and their rows
    store, recent, asked = SqliteStore(tmp_path / "rankloop.db"), RecentImpressions(impression_of), list[str]()
    real = store.rows
    store.rows = lambda query, values=(): asked.append(query) or real(query, values)  # type: ignore[method-assign,func-returns-value]

    def click(names: str) -> list[int]:
        ends = [LogEntry("ranker/a", impression=name, settle=partial(_click, name, True)) for name in names]
        store.append(Batch(ends, recent))
        return [record.seq for record in store.records_of_impressions("ranker/a", list(names), store.last())]

    store.append(Batch([entry_of("ranker/a", replace(SHOWN, impression=name)) for name in "abcdefgh"], recent))
    for names, seqs in (("ab", [1, 9, 2, 10]), ("c", [3, 11]), ("de", [4, 12, 5, 13])):
        store.tail(store.last(), [0])  # those before are learned, and make room
        assert click(names) == seqs
        assert not asked
    assert sorted(click("fgh")) == [6, 7, 8, 14, 15, 16]
    assert asked  # more wait to be learned than may be kept
    store.close()


def _click(name: str, is_final: bool, impression: object) -> FeedbackReceived:
    assert impression is not None
    return FeedbackReceived(name, "clicks", [1 + is_final], [1.0], is_final)


def test_bytes_that_a_killed_erasure_left_behind_are_gone_after_the_next_start(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()

    def kill(point: str) -> None:
        if point == "amended":  # committed, with the write-ahead file as it is: what a killed process leaves
            shutil.copytree(before, after, ignore=shutil.ignore_patterns("*-shm", "*.lock"))

    store = SqliteStore(before / "rankloop.db", kill)
    secret = Ranked("secret-name", ["0"], bytes(8), [0])
    append(store, entry_of("ranker/a", secret))
    store._execute_all("ranker/a", [("DELETE FROM rankloop_events WHERE entity = ?", [("ranker/a",)])])
    store.close()
    assert b"secret-name" in (after / "rankloop.db-wal").read_bytes()
    SqliteStore(after / "rankloop.db").close()
    assert not any(b"secret-name" in path.read_bytes() for path in after.iterdir())


def _fail_after_commit(point: str) -> None:
    if point == "committed":
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error


def test_a_batch_is_written_at_once_unless_something_has_to_be_waited_for(store: SqliteStore) -> None:
    """The event loop may write a batch itself: it never waits for another connection, nor reads for it."""
    recent = RecentImpressions(impression_of)
    assert store.append_at_once(Batch([entry_of("ranker/a", SHOWN)], recent))
    end = LogEntry("ranker/a", impression=SHOWN.impression, settle=settle_end)
    assert not store.append_at_once(Batch([end], RecentImpressions(impression_of)))
    snapshot = Snapshot("ranker/a", 1, 1, session=b"", projection=b"", rejected=0, oldest_open=1)
    assert not store.append_at_once(Batch([entry_of("ranker/a", Resumed(), snapshot)], recent))  # it may be large
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    refused = Batch([end], recent)
    assert not store.append_at_once(refused)
    assert time.monotonic() - begun < 1
    assert refused.results == []
    other.execute("ROLLBACK")
    assert store.append_at_once(Batch([end], recent))
    assert [type(record.event).__name__ for record in store.read()] == ["Ranked", "Closed"]
    other.close()
    store.close()


def test_a_learner_gets_the_events_that_the_log_has(store: SqliteStore) -> None:
    append(store, entry_of("ranker/a", SHOWN), entry_of("ranker/a", Resumed()))
    assert store.tail(0, [0]).records == list(store.read())
    store.close()
