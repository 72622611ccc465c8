"""PostgreSQL: one order though transactions commit as they like, versions that do not mix, tenants that do not meet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, current_thread, main_thread
from typing import Any

import psycopg
import pytest

from rankloop.core.errors import Conflict
from rankloop.service.log.writer import entry_of
from rankloop.service.records import Closed, FeedbackReceived, Frozen, LogEntry, Ranked, Resumed
from rankloop.service.stores import base
from rankloop.service.stores import postgres as postgres_store
from rankloop.service.stores.postgres import (
    N_PARTITIONS,
    QUERIES,
    Connections,
    PostgresStore,
    _connect,
)
from tests.service.cases import append

ALL = list(range(N_PARTITIONS))
LATEST = len(base.LOG_MIGRATIONS)


class Held:
    """A store whose transactions stand still before they commit."""

    def __init__(self, address: str) -> None:
        self.store = PostgresStore(address, self._pass)
        self.reached, self.go_on = Event(), Event()

    def _pass(self, point: str) -> None:
        if point == "commit":
            self.reached.set()
            self.go_on.wait(30)


@pytest.fixture
def stores(postgres: Callable[[], str]) -> Iterator[tuple[Held, PostgresStore]]:
    address = postgres()
    held, other = Held(address), PostgresStore(address)
    yield held, other
    held.go_on.set()
    held.store.close()
    other.close()


def shown(name: str, once: bool = False) -> Any:
    return entry_of("ranker/a", Ranked(name, ["x", "y"], b"", [0, 1]), once=once)


def feedback(name: str, item: int, final: bool) -> Any:
    event = FeedbackReceived(name, "clicks", [item], [1.0], final)
    return LogEntry("ranker/a", impression=name, settle=lambda known: event)


def test_what_commits_late_is_read_in_its_order_and_not_passed_over(stores: tuple[Held, PostgresStore]) -> None:
    held, other = stores
    with ThreadPoolExecutor(1) as thread:
        late = thread.submit(append, held.store, shown("late", once=True))  # which looks first
        assert held.reached.wait(10)
        (quick,) = append(other, shown("quick"))
        visible = other.rows("SELECT seq FROM rankloop_events")
        assert visible == [(quick,)]  # whoever goes by the greatest number goes on from here
        first = other.tail(0, ALL)
        assert (first.records, first.more) == ([], True)
        assert list(other.read()) == []
        held.go_on.set()
        (number,) = late.result(10)
    assert number < quick
    second = other.tail(first.until, ALL)
    assert [record.seq for record in second.records] == [number, quick]
    assert [record.seq for record in other.read()] == [number, quick]
    assert other.tail(second.until, ALL).records == []


def test_feedback_on_one_impression_is_numbered_as_it_was_decided(stores: tuple[Held, PostgresStore]) -> None:
    """What was taken stands before what closed, whoever began first."""
    held, other = stores
    append(other, shown("one"))
    with ThreadPoolExecutor(2) as thread:
        taken = thread.submit(append, held.store, feedback("one", 0, final=False))
        assert held.reached.wait(10)
        closing = thread.submit(append, other, feedback("one", 1, final=True))
        with pytest.raises(TimeoutError):
            closing.result(0.3)
        held.go_on.set()
        assert taken.result(10) < closing.result(10)
    events = [record.event for record in other.read()]
    assert [isinstance(event, FeedbackReceived) and event.final for event in events] == [False, False, True]


def test_a_ranking_needs_one_statement_and_feedback_three(
    postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a way to the server and back."""
    store, asked = PostgresStore(postgres()), list[str]()
    for kind, query in ((psycopg.Cursor, "execute"), (psycopg.Connection, "commit")):
        plain = getattr(kind, query)

        def told(self: Any, *given: Any, plain: Any = plain, **more: Any) -> Any:
            if current_thread() is main_thread():
                asked.append(str(given[0]) if given else "COMMIT")
            return plain(self, *given, **more)

        monkeypatch.setattr(kind, query, told)
    append(store, shown("one"), shown("two"))
    assert [query.split()[0] for query in asked] == ["INSERT"]
    asked.clear()
    append(store, feedback("one", 0, final=True), feedback("two", 0, final=True))
    assert [query.split()[0] for query in asked] == ["BEGIN;", "INSERT", "COMMIT"]
    store.close()


def test_only_the_partitions_that_are_asked_for(postgres: Callable[[], str]) -> None:
    store = PostgresStore(postgres())
    append(store, *(entry_of(f"ranker/{name}", Resumed()) for name in "abcdefgh"))
    halves = ALL[: N_PARTITIONS // 2], ALL[N_PARTITIONS // 2 :]
    parts = [{record.entity for record in store.tail(0, half).records} for half in halves]
    assert parts[0] | parts[1] == {record.entity for record in store.tail(0, ALL).records}
    assert len(parts[0]) + len(parts[1]) == 8
    assert all(parts)
    store.close()


def test_events_that_were_restored_from_a_server_that_counted_further_come_first(postgres: Callable[[], str]) -> None:
    address = postgres()
    store = PostgresStore(address)
    append(store, shown("old"))
    store.rows("UPDATE rankloop_events SET seq = seq + (1::bigint << 40) RETURNING seq")
    store.close()
    restored = PostgresStore(address)
    append(restored, shown("new"))
    assert [record.event.impression for record in restored.tail(0, ALL).records] == ["old", "new"]  # type: ignore[union-attr]
    restored.close()
    again = PostgresStore(address)  # nothing has to be done a second time
    append(again, entry_of("ranker/a", Closed("new")))
    assert len(again.tail(0, ALL).records) == 3
    again.close()


def add_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LOG_MIGRATIONS", (*base.LOG_MIGRATIONS, ""))
    steps = (*postgres_store.SHARED_STORE_MIGRATIONS, "CREATE TABLE rankloop_more (name TEXT)")
    monkeypatch.setattr(postgres_store, "SHARED_STORE_MIGRATIONS", steps)


def test_a_newer_database_is_refused(postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    address = postgres()
    add_migration(monkeypatch)
    PostgresStore(address).close()
    monkeypatch.undo()
    with pytest.raises(Conflict, match="the log has version 2, this rankloop reads versions up to 1"):
        PostgresStore(address)


def test_a_database_is_brought_up_to_date(postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    address = postgres()
    store = PostgresStore(address)
    append(store, shown("old"))
    store.close()
    add_migration(monkeypatch)
    store = PostgresStore(address)
    assert store.rows("SELECT max(version) FROM rankloop_version") == [(2,)]
    assert store.rows("SELECT count(*) FROM rankloop_more") == [(0,)]
    assert len(store.tail(0, ALL).records) == 1
    store.close()


def test_two_tenants_in_one_database_do_not_meet(postgres: Callable[[], str]) -> None:
    address = postgres()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA one; CREATE SCHEMA two")
    stores = [PostgresStore(f"{address}&options=-csearch_path%3D{schema}") for schema in ("one", "two")]
    held = Event()
    with ThreadPoolExecutor(1) as thread:
        stores[0]._on_step = lambda point: held.wait(10) if point == "commit" else None  # type: ignore[assignment]
        writing = thread.submit(append, stores[0], entry_of("ranker/a", Frozen()))
        append(stores[1], entry_of("ranker/a", Resumed()))  # though the other holds its lock of that name
        held.set()
        writing.result(10)
    assert [[record.event for record in store.read()] for store in stores] == [[Frozen()], [Resumed()]]
    assert stores[0].channel != stores[1].channel
    for store in stores:
        store.close()


def test_what_is_asked_of_a_few_impressions_does_not_walk_through_the_log(postgres: Callable[[], str]) -> None:
    """Before the server has counted its rows it would rather go by the ranker, and read all that it has."""
    address = postgres()
    store, asked = PostgresStore(address), list[tuple[str, list[Any]]]()
    names = ["1", "2", "3"]
    store.rows = lambda query, values=(): asked.append((query, list(values))) or []  # type: ignore[method-assign,func-returns-value]
    store.records_of_impressions("ranker/a", names, 2**62)
    store.closed_among("ranker/a", names)
    store.records_of_impression("ranker/a", "1")
    asked.append((QUERIES["select_impressions"], [["ranker/a"] * 3, names, [0] * 3]))
    many = "SELECT n, 'ranker/a', 0, n::text, repeat('x', 1500)::bytea, 'ranked', 0 FROM generate_series(1, 5000) AS n"
    with _connect(address, "write") as connection:
        connection.execute(f"INSERT INTO rankloop_events (seq, entity, at, impression, body, kind, partition) {many}")
        plans = [
            "\n".join(row[0] for row in connection.execute(f"EXPLAIN {query.replace('?', '%s')}", values))
            for query, values in asked
        ]
    store.close()
    assert len(plans) == 4
    for plan in plans:
        assert "rankloop_events_by_impression" in plan
        assert "rankloop_events_by_entity" not in plan


def test_it_is_closed_when_statements_of_other_threads_have_their_answers(postgres: Callable[[], str]) -> None:
    """Whoever waits on a connection that is closed meanwhile may wait forever."""
    connections = Connections(postgres())
    connections.to("read")
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(lambda: connections.to("read").execute("SELECT 7 FROM pg_sleep(0.3)").fetchone())
        time.sleep(0.1)
        connections.close()
        assert answer.result(5) == (7,)
    with pytest.raises(psycopg.OperationalError, match="closed"):
        connections.to("read")


def test_a_statement_that_takes_too_long_fails_when_it_is_closed(
    postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = Connections(postgres())
    connections.to("read")
    monkeypatch.setattr(postgres_store, "CONNECT_SECONDS", 1)
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(lambda: connections.to("read").execute("SELECT pg_sleep(60)"))
        time.sleep(0.1)
        connections.close()
        with pytest.raises(psycopg.OperationalError):
            answer.result(5)
