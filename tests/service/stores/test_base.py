"""The stores themselves: migrations from the version before, a full disk, a clock that jumps."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest

from rankloop.core.errors import Conflict
from rankloop.service.application.rebuild import replay_records
from rankloop.service.errors import Unavailable
from rankloop.service.log.writer import entry_of
from rankloop.service.records import Frozen, Ranked, Resumed
from rankloop.service.settings import Settings
from rankloop.service.stores import base as queries
from rankloop.service.stores import postgres as postgres_store
from rankloop.service.stores.base import LOG_MIGRATIONS
from rankloop.service.stores.open import open_store
from rankloop.service.stores.postgres import PostgresStore
from rankloop.service.stores.sqlite import COLUMN_TYPES, SqliteStore
from tests.service.cases import SHOP, Location, append, feed, inside, items, learn, rank, report, running, until


def test_a_sqlite_file_of_the_version_before_is_brought_up_to_date(tmp_path: Path) -> None:
    file = tmp_path / "rankloop.db"
    with sqlite3.connect(file) as connection:
        connection.executescript(f"{LOG_MIGRATIONS[0].format(**COLUMN_TYPES)} PRAGMA user_version = 1;")
    connection.close()
    store = SqliteStore(file)
    append(store, entry_of("ranker/a", Resumed()))
    assert [record.event for record in store.read()] == [Resumed()]
    store.close()
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == len(LOG_MIGRATIONS)
        connection.execute(f"PRAGMA user_version = {len(LOG_MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(Conflict, match="version"):
        SqliteStore(file)


def postgres_script() -> str:
    script = LOG_MIGRATIONS[0].format(**postgres_store.COLUMN_TYPES)
    return script + postgres_store.SHARED_STORE_MIGRATIONS[0]


def test_a_postgres_database_of_the_version_before_is_brought_up_to_date(postgres: Callable[[], str]) -> None:
    address = postgres()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE rankloop_version (version INT NOT NULL)")
        connection.execute(postgres_script())  # type: ignore[arg-type]
        connection.execute("INSERT INTO rankloop_version VALUES (1)")
    store = PostgresStore(address)
    append(store, entry_of("ranker/a", Resumed()))
    assert [record.event for record in store.read()] == [Resumed()]
    store.close()


def test_commits_are_durable_though_the_server_says_otherwise(postgres: Callable[[], str]) -> None:
    address = postgres()
    for said, meant in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
        with psycopg.connect(address, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = {said}")  # type: ignore[arg-type]
        asked, store = [], PostgresStore(address)
        store._on_step = lambda point, store=store, asked=asked: asked.append(  # type: ignore[misc]
            store._connections.to("write").execute("SHOW synchronous_commit").fetchone()[0]
        )
        append(store, entry_of("ranker/a", Resumed()))
        store.close()
        assert set(asked) == {meant}


def test_a_worker_that_stands_still_within_a_transaction_does_not_stop_the_others(
    postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "IDLE_SECONDS", 1)
    address, go_on, begun = postgres(), Event(), Event()

    def stand_still(point: str) -> None:
        if point == "inserted":
            begun.set()
            go_on.wait(30)

    stopped, other = PostgresStore(address, stand_still), PostgresStore(address)
    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(append, stopped, entry_of("ranker/a", Frozen()))
        assert begun.wait(10)
        before = time.monotonic()
        append(other, entry_of("ranker/a", Resumed()))
        assert time.monotonic() - before < 5
        go_on.set()
        with pytest.raises(Unavailable):
            writing.result(10)
    assert [record.event for record in other.read()] == [Resumed()]
    (number,) = append(stopped, entry_of("ranker/b", Resumed()))
    assert [record.seq for record in other.read("ranker/b")] == [number]
    stopped.close()
    other.close()


def test_a_lock_is_not_waited_for_forever(postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_store, "LOCK_SECONDS", 1)
    store = PostgresStore(postgres())
    with psycopg.connect(store._connections.address) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [postgres_store._lock_key("public", "ranker/a")])
        with pytest.raises(Unavailable, match="lock timeout"):
            append(store, entry_of("ranker/a", Resumed()))
    append(store, entry_of("ranker/a", Resumed()))
    assert [record.event for record in store.read()] == [Resumed()]
    store.close()


def test_a_full_disk_is_507_and_loses_nothing(tmp_path: Path) -> None:
    location = Location(tmp_path)
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP)
        learn(client, 3)
        writer = inside(client).store._writer
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
        writer.execute(f"PRAGMA max_page_count = {pages + 3}")
        shown = [client.post("/rankers/shop/rank", json={"items": items(50, turn)}) for turn in range(40)]
        told = [answer.json()["impression"] for answer in shown if answer.status_code == 200]
        refused = [answer for answer in shown if answer.status_code != 200]
        assert {answer.status_code for answer in refused} == {507}
        assert refused[0].json()["type"] == "urn:rankloop:problem:storage-full"
        assert client.get("/healthz").status_code == 200
        writer.execute("PRAGMA max_page_count = 1000000")
        learn(client, 3)
        counts = report(client)["counts"]
        assert (counts["impressions"], counts["learned"]) == (6 + len(told), 6)
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (6, ())


def test_a_clock_that_jumps_neither_closes_a_window_nor_keeps_it_open(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"window": 0.5})
        monkeypatch.setattr(time, "time", lambda: real() - 86400)
        shown = rank(client)
        monkeypatch.setattr(time, "time", lambda: real() + 86400)
        assert feed(client, shown["impression"], clicks=shown["ranking"][1:2]).status_code == 200
        monkeypatch.setattr(time, "time", lambda: real() - 86400)
        until(lambda: report(client)["counts"]["learned"] == 1)
        rank(client)
    with running(location) as client:
        until(lambda: report(client)["counts"]["open"] == 0, patience=5.0)


def test_a_clock_a_day_ahead_at_a_restart_closes_nothing(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"window": 60, "default_feedback": "not_clicked"})
        shown = [rank(client) for _ in range(3)]
    monkeypatch.setattr(time, "time", lambda: real() + 86400)
    for restart in range(2):  # what is logged a day ahead does not count against those before it either
        with running(location) as client:
            time.sleep(0.3)
            answer = feed(client, shown[restart]["impression"], clicks=shown[restart]["ranking"][1:2], final=True)
            assert answer.json()["verdict"] == "closed"
            counts = report(client)["counts"]
            assert (counts["learned"], counts["closed"], counts["open"]) == (restart + 1, restart + 1, 2 - restart)


def test_a_log_of_large_events_is_read_a_few_at_a_time(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(Settings(data=location.data, store=location.store))
    events = [Ranked(f"{number}", [], bytes(10_000 * (number % 3)), []) for number in range(30)]
    first, *_, last = append(store, *(entry_of("ranker/a", event) for event in events))
    read, sizes = store.rows, []  # type: ignore[attr-defined]

    def noted(*arguments: Any) -> Any:
        rows = read(*arguments)
        sizes.append([len(row[-1]) for row in rows if len(row) == 4])
        return rows

    store.rows = noted  # type: ignore[attr-defined]
    for page, page_bytes in ((2000, 16_000_000), (2000, 45_000), (2000, 1), (7, 45_000), (7, 16_000_000), (30, 10**9)):
        monkeypatch.setattr(queries, "PAGE_ROWS", page)
        monkeypatch.setattr(queries, "PAGE_BYTES", page_bytes)
        sizes.clear()
        assert [record.event for record in store.read("ranker/a", 0, last)] == events
        middle = store.read(None, first + 2, first + 19)
        assert [record.seq for record in middle] == list(range(first + 3, first + 20))
        assert all(len(page_sizes) <= page and sum(page_sizes[:-1]) < page_bytes for page_sizes in sizes)
    store.close()


def test_open_impressions_survive_a_restart(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        waiting = rank(client)
        feed(client, waiting["impression"], clicks=waiting["ranking"][1:2])
        learn(client, 5)
    with running(location) as client:
        assert report(client)["counts"]["open"] == 1
        again = feed(client, waiting["impression"], clicks=waiting["ranking"][1:2])
        assert again.json()["verdict"] == "repeated"
        last = feed(client, waiting["impression"], clicks=waiting["ranking"][2:3], final=True)
        assert last.json()["verdict"] == "closed"
        assert report(client)["counts"]["learned"] == 6
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (6, ())


def test_two_clients_create_the_same_ranker_at_once(location: Location) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with running(location) as client, ThreadPoolExecutor(8) as pool:
        bodies = [SHOP | {"seed": number % 2} for number in range(8)]
        statuses = list(pool.map(lambda body: client.put("/rankers/shop", json=body).status_code, bodies))
        assert statuses.count(201) == 1
        assert statuses.count(409) == 4
