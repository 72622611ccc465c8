"""Three hosts: PostgreSQL on one, two workers each on the others; cables are pulled, a host loses its power."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from rankloop.service.records import partition_of
from rankloop.service.stores.postgres import N_PARTITIONS
from tests.hosts import Host, made, requires_hosts
from tests.service.cases import SHOP, Location, until
from tests.service.postgres_servers import postgres_server, served_by
from tests.service.processes import SOLD, Told, Visitors
from tests.service.promises.durability import check_survived
from tests.service.promises.test_workers import LEADER

KEY = "a-key-of-an-administrator"
PORT = 8080
PATIENCE = 60.0  # seconds for what takes five on a quiet machine


@contextmanager
def workers(host: Host, store: str, folder: Path) -> Iterator[None]:
    """`rankloop serve --workers 2` on a host, until the block ends or the host is killed."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "rankloop", "serve", "--host", host.address, "--port", str(PORT)]
    environment = os.environ | {"RANKLOOP_STORE": store, "RANKLOOP_KEYS": f"admin:{KEY}"}
    with open(folder / "stderr", "wb") as said:
        process = host.start([*command, "--workers", "2", "--data", str(folder)], stderr=said, env=environment)
    try:
        with host.entered():
            until(lambda: _answers(host, "/readyz") == 200, PATIENCE)
        yield
    finally:
        process.terminate()
        process.wait(60)


def _answers(host: Host, path: str) -> int:
    """The status of a call from within the host; 0 where there is no answer."""
    try:
        return httpx.get(f"http://{host.address}:{PORT}{path}", timeout=2.0).status_code
    except httpx.TransportError:
        return 0


def _leader(location: Location, hosts: list[Host]) -> Host | None:
    """The host whose process holds the lease of the ranker."""
    with psycopg.connect(location.store) as connection:
        row = connection.execute(LEADER, [partition_of("ranker/shop", N_PARTITIONS)]).fetchone()
    found = [host for host in hosts if row and int(row[0].split()[1]) in host.pids()]
    return found[0] if found else None


def _state(location: Location) -> int:
    """How many updates the published state has."""
    with psycopg.connect(location.store) as connection:
        row = connection.execute("SELECT number FROM rankloop_published WHERE entity = 'ranker/shop'").fetchone()
    return int(row[0]) if row else 0


@requires_hosts
@pytest.mark.slow
def test_cut_cables_and_a_dead_host_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with made(3) as (database_host, *hosts), postgres_server() as server:
        location = Location(tmp_path, server.database())
        store = served_by(server, database_host, location.store)
        told: dict[str, Told] = {host.name: [] for host in hosts}
        with workers(hosts[0], store, tmp_path / "one"), workers(hosts[1], store, tmp_path / "two"):
            with hosts[0].entered():
                body = SHOP | SOLD | {"snapshot_every": 20}
                at = f"http://{hosts[0].address}:{PORT}/rankers/shop"
                httpx.put(at, json=body, headers={"Authorization": f"Bearer {KEY}"}, timeout=60).raise_for_status()
            until(lambda: _leader(location, hosts) is not None, PATIENCE)
            visitors = [Visitors(PORT, told[host.name], 2, persistent=True, host=host, key=KEY) for host in hosts]
            for each in visitors:
                each.patience = 5.0
                each.until(20, PATIENCE)

            cut = _leader(location, hosts)  # its learner goes on believing that it leads
            assert cut is not None
            (other,) = (host for host in hosts if host is not cut)
            cut.cut()
            before, begun = len(told[other.name]), time.monotonic()
            until(lambda: _leader(location, hosts) is other, PATIENCE)
            taken_over = time.monotonic() - begun
            until(lambda: len(told[other.name]) > before + 40, PATIENCE)  # the other variant is served
            learned = _state(location)
            until(lambda: _state(location) > learned, PATIENCE)  # and learned from
            cut.heal()
            healed = len(told[cut.name])
            until(lambda: len(told[cut.name]) > healed + 20, PATIENCE)

            other.kill()
            until(lambda: _leader(location, hosts) is cut, PATIENCE)
            alone, learned = len(told[cut.name]), _state(location)
            until(lambda: len(told[cut.name]) > alone + 40 and _state(location) > learned, PATIENCE)
            for each in visitors:
                each.leave()
        assert check_survived(location, [each for one in told.values() for each in one]) > 0
        print(f"taken over after {taken_over:.1f} s")
