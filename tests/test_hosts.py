"""Hosts are apart, can be cut off and killed, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.hosts import Host, NoHosts, made, remove_stale, requires_hosts, why_no_hosts

SLEEP = [sys.executable, "-c", "print('ready', flush=True); import time; time.sleep(600)"]
MAKER = "from tests.hosts import made\nwith made(1) as [host]: print(host.name, flush=True); input()"


def _reaches(host: Host, address: str, port: int) -> bool:
    with host.entered():
        try:
            socket.create_connection((address, port), timeout=0.3).close()
        except OSError:
            return False
        return True


@requires_hosts
def test_hosts_have_ports_of_their_own_and_can_be_cut_off_healed_and_killed() -> None:
    with made(3) as hosts:
        first, second, third = hosts
        with first.entered(), socket.create_server(("0.0.0.0", 8000)) as listener:
            with second.entered(), socket.create_server(("0.0.0.0", 8000)):
                assert listener.getsockname()[1] == 8000
            assert _reaches(third, first.address, 8000)
            assert not _reaches(third, second.address, 8000)
            first.cut()
            assert not _reaches(third, first.address, 8000)
            assert _reaches(first, "127.0.0.1", 8000)
            first.heal()
            deadline = time.monotonic() + 20.0  # the switch and the neighbours have to find out
            while not _reaches(third, first.address, 8000):
                assert time.monotonic() < deadline
        sleeping = second.start(SLEEP, stdout=subprocess.PIPE)
        assert sleeping.stdout is not None
        assert sleeping.stdout.readline() == "ready\n"
        assert sleeping.pid in second.pids()
        assert sleeping.pid not in third.pids()
        second.kill()
        assert sleeping.wait(10) == -signal.SIGKILL
        sleeping.stdout.close()
        assert second.run(["echo", "again"]).stdout == "again\n"
        names = [host.name for host in hosts]
    assert [name for name in names if (Path("/run/netns") / name).exists()] == []


@requires_hosts
def test_a_host_has_folders_that_nobody_else_sees(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "part").write_text("1 qid:1 1:1\n")
    with made(2) as (first, second):
        first.folders[str(tmp_path / "data")] = tmp_path / "real"
        assert first.run(["ls", str(tmp_path / "data")]).stdout == "part\n"
        assert second.run(["ls", str(tmp_path / "data")]).stdout == ""
    assert list((tmp_path / "data").iterdir()) == []


@requires_hosts
def test_what_leaves_a_host_can_be_held_back() -> None:
    with made(2) as (first, second):
        if not first.delay(100.0):
            pytest.skip("this kernel cannot hold packets back (tc, sch_netem)")
        began = time.monotonic()
        assert not _reaches(second, first.address, 1)  # refused, but only when the answer came back
        assert time.monotonic() - began >= 0.1


@requires_hosts
def test_what_a_killed_run_left_behind_goes_when_the_next_begins() -> None:
    maker = subprocess.Popen([sys.executable, "-c", MAKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert maker.stdin is not None
    assert maker.stdout is not None
    name = maker.stdout.readline().strip()
    assert name not in remove_stale(), "it is in use"
    assert (Path("/run/netns") / name).exists()
    maker.kill()
    maker.wait()
    maker.stdin.close()
    maker.stdout.close()
    with made(1):
        assert not (Path("/run/netns") / name).exists()


@requires_hosts
def test_an_error_inside_leaves_no_host_and_the_thread_outside() -> None:
    names: list[str] = []

    def fail_inside() -> None:
        with made(1) as [host], host.entered():
            names.append(host.name)
            assert _namespace() != outside
            raise KeyError

    outside = _namespace()
    with pytest.raises(KeyError):
        fail_inside()
    assert _namespace() == outside
    assert not (Path("/run/netns") / names[0]).exists()


def _namespace() -> str:
    return os.readlink(f"/proc/self/task/{threading.get_native_id()}/ns/net")


def test_where_hosts_are_not_allowed_it_is_said_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    why_no_hosts.cache_clear()
    with pytest.raises(NoHosts, match="`ip` command"), made(1):
        pass
    why_no_hosts.cache_clear()
