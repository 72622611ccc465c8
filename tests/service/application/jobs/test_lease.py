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

from rankloop.service.application.jobs import lease as leases
from rankloop.service.application.rebuild import replay_records
from rankloop.service.domain.feedback_acceptance import settle_end
from rankloop.service.errors import Superseded
from rankloop.service.log.writer import entry_of
from rankloop.service.records import LogEntry, RolledBack, partition_of
from rankloop.service.stores.base import Publication, RegisteredLearner
from rankloop.service.stores.postgres import N_PARTITIONS, PostgresStore
from tests.service.cases import SHOP, Location, feed, inside, items, learn, rank, report, running, until
from tests.service.processes import Told, serving
from tests.service.promises.durability import check_survived

PART = partition_of("ranker/shop", N_PARTITIONS)


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
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)
    location = Location(tmp_path, postgres())
    with running(location) as first:
        first.put("/rankers/shop", json=SHOP).raise_for_status()
        learn(first, 3)
        asleep = inside(first).learning.worker
        asleep.leases._stopping.set()  # its lease is not renewed any more,
        asleep.leases._thread.join()
        asleep.leases.expires_at = float("inf")  # which it does not notice
        with running(location) as second:
            assert asleep.leases.held
            waiting = rank(second)
            learn(second, 3)
            until(lambda: report(second)["counts"]["learned"] == 6)
            before, course = _log(location), asleep.consumers["ranker/shop"]
            wanted = [
                entry_of("ranker/shop", *course.snapshot()),
                entry_of("ranker/shop", RolledBack(0, "lost", freezes=True)),
                LogEntry("ranker/shop", impression=waiting["impression"], settle=settle_end),
            ]
            for future in asleep._write("ranker/shop", wanted):
                assert isinstance(future.exception(10), Superseded)
            assert _log(location) == before
            until(lambda: asleep.store.publication("ranker/shop").number == 6)
            state = asleep.store.publication("ranker/shop")
            ahead = Publication("ranker/shop", 99, 2**62, 0, b"", b"")
            with pytest.raises(Superseded):
                asleep.store.publish([ahead], asleep._learned_leases[PART])
            assert asleep.store.publication("ranker/shop") == state
            until(lambda: report(first)["counts"]["learned"] == 6)  # it serves what the other one learned
        asleep.leases.expires_at = 0.0
    check_survived(location, [])


@pytest.mark.slow
def test_a_learner_that_is_stopped_is_replaced_within_seconds_and_wakes_up_harmless(
    tmp_path: Path, postgres: Callable[[], str]
) -> None:
    location, told = Location(tmp_path, postgres()), []  # type: ignore[var-annotated]
    (tmp_path / "other").mkdir()
    sleeper, port = serving(location)
    holder = "SELECT holder FROM rankloop_leases WHERE until > clock_timestamp() AND partition = %s"

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


def _settled(learners: str, held: dict[str, set[int]]) -> int:
    """Let learners with these names give and take in turns until nothing changes; how often a partition moved."""
    moves = 0
    for _ in range(60):
        before = {name: set(parts) for name, parts in held.items()}
        for name in learners:
            everybody = [RegisteredLearner(other, frozenset(held[other]), 60.0) for other in sorted(learners)]
            given, wished = leases._partitions_to_hold(name, everybody, N_PARTITIONS)
            free = ALL - set().union(*held.values())
            wanted = set(wished)
            held[name] = (held[name] - set(given)) | (wanted & free)
            moves += len(wanted & free)
        if held == before:
            return moves
    raise AssertionError("they go back and forth")


ALL = set(range(N_PARTITIONS))


@pytest.mark.parametrize(
    ("learners", "held", "counts", "most_moves"),
    [
        ("a", {"a": set()}, [16], 16),
        ("ab", {"a": ALL, "b": set()}, [8, 8], 8),
        ("abc", {"a": set(range(8)), "b": set(range(8, 16)), "c": set()}, [5, 5, 6], 6),
        ("abc", {"a": ALL, "b": set(), "c": set()}, [5, 5, 6], 12),
        ("ab", {"a": set(range(5)), "b": {5, 6, 7, 8, 9}}, [8, 8], 6),  # the third has died
        ("abc", {"a": set(), "b": set(), "c": set()}, [5, 5, 6], 18),
    ],
)
def test_partitions_are_divided_among_those_who_are_there(
    learners: str, held: dict[str, set[int]], counts: list[int], most_moves: int
) -> None:
    held = {name: set(parts) for name, parts in held.items()}
    assert _settled(learners, held) <= most_moves
    assert sorted(map(len, held.values())) == counts
    assert set().union(*held.values()) == ALL  # every one is learned
    assert sum(map(len, held.values())) == len(ALL)  # by one


def test_nobody_makes_room_for_who_has_just_come() -> None:
    there = RegisteredLearner("a", frozenset(ALL), 60.0)
    for seconds, n_released in ((1.0, 0), (6.0, 8)):
        learners = [there, RegisteredLearner("b", frozenset(), seconds)]
        assert len(leases._partitions_to_hold("a", learners, N_PARTITIONS)[0]) == n_released


def test_a_second_learner_gets_its_share(
    tmp_path: Path, postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real leases: they move once, then stay; what is learned on the way is learned once."""
    monkeypatch.setattr(leases, "MIN_REGISTERED_SECONDS", 0.5)
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.1)
    location = Location(tmp_path, postgres())
    with running(location) as first:
        for number in range(6):
            first.put(f"/rankers/r{number}", json=SHOP).raise_for_status()
            learn(first, 2, f"r{number}")
        with running(location, follower=True) as second:
            until(lambda: [len(inside(each).learning.worker.leases.held) for each in (first, second)] == [8, 8])
            until(lambda: inside(second).learning.worker._learned_leases == inside(second).learning.worker.leases.held)
            fences = inside(first).store.rows("SELECT partition, fence, holder FROM rankloop_leases ORDER BY partition")
            for number in range(6):
                learn(second, 2, f"r{number}")
                until(lambda number=number: report(first, f"r{number}")["counts"]["learned"] == 4)  # type: ignore[misc]
            assert (
                inside(first).store.rows("SELECT partition, fence, holder FROM rankloop_leases ORDER BY partition")
                == fences
            )
            learned = [set(inside(each).learning.worker.consumers) for each in (first, second)]
            assert not learned[0] & learned[1]
            assert learned[0] | learned[1] == {f"ranker/r{number}" for number in range(6)}
        until(lambda: len(inside(first).learning.worker.leases.held) == 16)  # who leaves gives everything back at once
    check_survived_all(location, 4)


def check_survived_all(location: Location, learned: int) -> None:
    for result in replay_records(location.records()):
        assert (result.learned, result.differing) == (learned, ())
