"""Leases: one process learns a partition; one that sleeps and believes that it still does writes nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.service.cases import SHOP, Location, feed, inside, items, learn, rank, report, running, until
from tests.service.processes import Told, serving
from tests.service.promises.durability import check_survived

from rankloop.service.errors import Superseded
from rankloop.service.jobs import lease as leases
from rankloop.service.jobs.expiry import close_if_open
from rankloop.service.log.events import RolledBack, partition_of
from rankloop.service.log.stores.base import Publication
from rankloop.service.log.stores.postgres import PARTITIONS, PostgresStore
from rankloop.service.log.writer import entry_of, settled_entry

PART = partition_of("ranker/shop", PARTITIONS)


def test_a_lease_ends_by_itself_and_the_next_one_has_a_higher_number(postgres: Callable[[], str]) -> None:
    address = postgres()
    one, other = PostgresStore(address), PostgresStore(address)
    assert [lease.fence for lease in one.lease("one", [0, 1], 0.3)] == [1, 1]
    assert other.lease("other", [0, 1, 2], 0.3) == [(2, 1)]
    assert [lease.fence for lease in one.lease("one", [0, 1], 0.3)] == [1, 1]  # renewed
    until(lambda: len(other.lease("other", [0, 1, 2], 30)) == 3)
    assert other.lease("other", [0, 1, 2], 30) == [(0, 2), (1, 2), (2, 1)]
    assert one.lease("one", [0, 1], 30) == []
    assert other.holders() == {0: "other", 1: "other", 2: "other"}
    other.release("other")
    assert one.lease("one", [0], 30) == [(0, 3)]
    one.close()
    other.close()


def _log(location: Location) -> list[Any]:
    return [record.event for record in location.records()]


def test_who_sleeps_and_believes_that_it_leads_writes_nothing(
    tmp_path: Path, postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a learner writes: snapshots, the guard's word, ends of windows, states."""
    monkeypatch.setattr(leases, "SECONDS", 1.0)
    location = Location(tmp_path, postgres())
    with running(location) as first:
        first.put("/rankers/shop", json=SHOP).raise_for_status()
        learn(first, 3)
        asleep = inside(first).learner
        asleep.leases._stopping.set()  # its lease is not renewed any more,
        asleep.leases._thread.join()
        asleep.leases._until = float("inf")  # which it does not notice
        with running(location) as second:
            assert asleep.leases.held
            waiting = rank(second)
            learn(second, 3)
            until(lambda: report(second)["counts"]["learned"] == 6)
            before, course = _log(location), asleep.courses["ranker/shop"]
            wanted = [
                course.snapshot(),
                entry_of("ranker/shop", RolledBack(0, "lost", freezes=True)),
                settled_entry("ranker/shop", waiting["impression"], close_if_open),
            ]
            for future in asleep._write(wanted):
                assert isinstance(future.exception(10), Superseded)
            assert _log(location) == before
            until(lambda: asleep.store.publication("ranker/shop").number == 6)
            state = asleep.store.publication("ranker/shop")
            ahead = Publication("ranker/shop", 99, 2**62, 0, b"", b"")
            with pytest.raises(Superseded):
                asleep.store.publish([ahead], asleep._held[PART])
            assert asleep.store.publication("ranker/shop") == state
            until(lambda: report(first)["counts"]["learned"] == 6)  # it serves what the other one learned
        asleep.leases._until = 0.0
    check_survived(location, [])


@pytest.mark.slow
def test_a_learner_that_is_stopped_is_replaced_within_seconds_and_wakes_up_harmless(
    tmp_path: Path, postgres: Callable[[], str]
) -> None:
    location, told = Location(tmp_path, postgres()), []  # type: ignore[var-annotated]
    (tmp_path / "other").mkdir()
    sleeper, port = serving(location)
    holder = "SELECT holder FROM rankloop_leases WHERE until > clock_timestamp() AND part = %s"

    def leader() -> int | None:
        with psycopg.connect(location.store) as connection:
            row = connection.execute(holder, [PART]).fetchone()
            return int(row[0].split()[1]) if row else None

    until(lambda: leader() == sleeper.pid)
    other, other_port = serving(Location(tmp_path / "other", location.store))
    clients = [httpx.Client(base_url=f"http://127.0.0.1:{number}", timeout=30) for number in (port, other_port)]
    try:
        _visit(clients[0], told, 10)
        os.kill(sleeper.pid, signal.SIGSTOP)
        stopped = time.monotonic()
        until(lambda: leader() == other.pid)
        assert time.monotonic() - stopped < 5.5
        _visit(clients[1], told, 10)
        until(lambda: report(clients[1])["counts"]["learned"] == 20)
        os.kill(sleeper.pid, signal.SIGCONT)
        _visit(clients[0], told, 5)
        _visit(clients[1], told, 5)
        until(lambda: report(clients[0])["counts"]["learned"] == report(clients[1])["counts"]["learned"] == 30)
        assert leader() == other.pid
    finally:
        os.kill(sleeper.pid, signal.SIGCONT)
        for client in clients:
            client.close()
        for process in (sleeper, other):
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    check_survived(location, told)


def _visit(client: httpx.Client, told: Told, times: int) -> None:
    for shift in range(times):
        shown = rank(client, items=items(shift=shift))
        told.append(("ranked", shown["impression"]))
        feed(client, shown["impression"], clicks=shown["ranking"][1:2], final=True).raise_for_status()
        told.append(("fed", shown["impression"]))
