"""The ground gives way: disks that are really full, a database server that really restarts; nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread
from typing import Any

import httpx
import psycopg
import pytest

from rankloop.service.application.rebuild import replay_records
from rankloop.service.errors import Unavailable
from rankloop.service.log.writer import entry_of
from rankloop.service.records import RolledBack
from tests.service.cases import SHOP, Location, inside, learn, rank, report, running, until
from tests.service.postgres_servers import postgres_server
from tests.service.processes import SOLD, Told, Visitors, serving
from tests.service.promises.durability import check_survived
from tests.service.promises.small_disks import fill, make_room, small_disk
from tests.service.slow_networks import Way

ROOM = 200_000  # bytes: a few dozen rankings, then the disk is full


@contextmanager
def visited(location: Location, told: Told) -> Iterator[tuple[httpx.Client, Visitors]]:
    """A service whose visitors do not give up."""
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | SOLD | {"snapshot_every": 20}).raise_for_status()
        visitors = Visitors(int(str(client.base_url).split(":")[2].strip("/")), told, n=3, persistent=True)
        try:
            visitors.until(40)
            yield client, visitors
        finally:
            visitors.leave()


def refused(visitors: Visitors, status: int, since: int = 0) -> None:
    """Wait until the service has said so a few times."""
    until(lambda: visitors.refused[since:].count(status) >= 5, patience=60)


def check_says_so(client: httpx.Client) -> None:
    """Alive, but not ready."""
    assert client.get("/healthz").status_code == 200
    until(lambda: client.get("/readyz").status_code == 503)


def goes_on(visitors: Visitors, told: Told) -> None:
    visitors.until(len(told) + 40)


def breaking(service: Any, failures: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the states of snapshots be unreadable as long as there are failures left."""
    read = service.store.snapshot

    def broken(*arguments: Any) -> Any:
        if failures and current_thread().name.startswith("learn"):
            raise Unavailable(failures.pop())
        return read(*arguments)

    monkeypatch.setattr(service.store, "snapshot", broken)


def test_a_rollback_waits_until_the_log_can_be_read(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        learn(client, 5)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
        breaking(inside(client), ["the connection broke"] * 3, monkeypatch)
        assert client.post("/rankers/shop/rollback", json={"state": 2}, timeout=10).status_code == 200
        learn(client, 3)
        assert report(client)["counts"]["learned"] == 8
    (result,) = replay_records(location.records())
    assert (result.differing, result.learned) == ((), 8)


def test_a_stop_while_a_rollback_waits_loses_nothing(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        learn(client, 5)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
        failures = ["the connection broke"] * 10_000
        breaking(inside(client), failures, monkeypatch)
        inside(client).log.submit(entry_of("ranker/shop", RolledBack(2, "requested"))).result(10)
        until(lambda: len(failures) < 9_998)  # it is tried again and again, until the service stops
    with running(location) as client:
        learn(client, 3)
        assert report(client)["counts"]["learned"] == 8
    (result,) = replay_records(location.records())
    assert (result.differing, result.learned) == ((), 8)


@pytest.mark.slow
def test_sqlite_on_a_full_disk(tmp_path: Path) -> None:
    told: Told = []
    with small_disk(8) as disk:
        location = Location(disk)
        with visited(location, told) as (client, visitors):
            fill(disk, ROOM)
            refused(visitors, 507)
            check_says_so(client)
            known = report(client)["counts"]["impressions"]
            assert known >= sum(kind == "ranked" for kind, _ in told) - 3  # reading goes on
            make_room(disk)
            goes_on(visitors, told)
            assert client.get("/readyz").status_code == 200
        assert set(visitors.refused) == {507}
        check_survived(location, told)


@pytest.mark.slow
def test_postgres_whose_tables_fill_their_disk(tmp_path: Path) -> None:
    told: Told = []
    with small_disk(24) as disk, postgres_server() as server:
        (disk / "tables").mkdir()
        server.owns(disk / "tables")
        server.run(f"CREATE TABLESPACE small LOCATION '{disk / 'tables'}'")
        location = Location(tmp_path, server.database("small"))
        with visited(location, told) as (client, visitors):
            fill(disk, ROOM)
            refused(visitors, 507)
            check_says_so(client)
            make_room(disk)
            goes_on(visitors, told)
            assert client.get("/readyz").status_code == 200
        assert set(visitors.refused) == {507}
        check_survived(location, told)
        server.control("-m", "immediate", "stop")


@pytest.mark.slow
def test_postgres_whose_whole_disk_is_full(tmp_path: Path) -> None:
    """Without room for its own log a PostgreSQL server stops; it is started again when there is room."""
    told: Told = []
    with small_disk(80) as disk:
        disk.chmod(0o755)
        with postgres_server(disk / "data") as server:
            location = Location(tmp_path, server.database())
            with visited(location, told) as (client, visitors):
                fill(disk, ROOM)
                with suppress(psycopg.Error):
                    for _ in range(3):
                        server.run("SELECT pg_switch_wal()")
                refused(visitors, 503)
                check_says_so(client)
                make_room(disk)
                server.come_back()
                goes_on(visitors, told)
                until(lambda: inside(client).learning.learns_all)
            check_survived(location, told)


@pytest.mark.slow
def test_a_postgres_server_that_stops_dead_and_comes_back(tmp_path: Path) -> None:
    told: Told = []
    with postgres_server() as server:
        location = Location(tmp_path, server.database())
        process, port = serving(location, "--workers", "3")
        visitors = Visitors(port, told, n=3, persistent=True)
        try:
            visitors.until(40)
            for _ in range(2):
                before = len(visitors.refused)
                server.control("-m", "immediate", "stop")
                refused(visitors, 503, since=before)
                assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
                server.come_back()
                goes_on(visitors, told)
        finally:
            visitors.leave()
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        assert code == 0
        assert set(visitors.refused) == {503}
        check_survived(location, told)


def test_a_slow_database_holds_up_nobody_who_does_not_need_it(tmp_path: Path, postgres: Callable[[], str]) -> None:
    """Answers come late and are right; what needs no database is answered meanwhile; leases are kept."""
    direct = Location(tmp_path, postgres())
    way = Way(Path(direct.store.split("?host=")[1]) / ".s.PGSQL.5432")
    with running(Location(tmp_path, way.address(direct.store))) as client:
        client.put("/rankers/shop", json=SHOP | SOLD).raise_for_status()
        learn(client, 2)
        fences = server_fences(direct.store)
        way.delay = 0.03  # a database in another country
        learn(client, 3)
        way.delay = 0.4
        with ThreadPoolExecutor(1) as thread:
            waiting, answered = thread.submit(rank, client), 0
            while not waiting.done():
                assert httpx.get(client.base_url.join("/healthz"), timeout=5).status_code == 200
                answered += 1
            assert answered >= 2
            waiting.result()
        way.delay = 0.0
        learn(client, 2)
        until(lambda: report(client)["counts"]["learned"] == 7)
        assert server_fences(direct.store) == fences  # nobody took them meanwhile
    way.close()
    (result,) = replay_records(direct.records())
    assert (result.learned, result.differing) == (7, ())


def server_fences(store: str) -> list[Any]:
    with psycopg.connect(store) as connection:
        return connection.execute("SELECT partition, fence FROM rankloop_leases ORDER BY partition").fetchall()


@pytest.mark.slow
def test_a_standby_takes_over_and_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    """The first server dies under load; the address leads to the second one, which had every commit."""
    told: Told = []
    with postgres_server() as server:
        address = server.database()
        way = Way(server.socket)
        location = Location(tmp_path, way.address(address))
        with server.standby(server.socket.parent / "standby") as standby, visited(location, told) as (client, visitors):
            until(lambda: server.rows("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"), patience=30)
            goes_on(visitors, told)
            server.control("-m", "immediate", "stop")
            way.cut()
            refused(visitors, 503)
            check_says_so(client)
            standby.take_over()
            way.target = standby.socket
            goes_on(visitors, told)
            until(lambda: client.get("/readyz").status_code == 200)
            until(lambda: inside(client).learning.learns_all)
            visitors.leave()
            assert set(visitors.refused) == {503}
            client.server.stop()  # type: ignore[attr-defined]
            until(lambda: not inside(client).ready)
            assert check_survived(location, told) > 0
        way.close()
