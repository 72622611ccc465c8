"""Hosts on this machine, for tests of several: network namespaces with an address each and a switch between them.

A host has its own interfaces, ports and loopback; a command in it may also get folders that nobody else sees. They all
go when the block ends, and those that an earlier run left behind when the next one begins. The test itself stands
outside, without a cable: it talks to a host by a command in it, or by a thread that has gone in.

    with made(3) as hosts:
        server = hosts[0].start(["python", "-m", "http.server"])
        hosts[1].run(["curl", f"http://{hosts[0].address}:8000"])
        hosts[0].cut()
"""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PREFIX = "rankloop-hosts"  # of the namespaces: then the owner's process, when that began, and the number
NETWORK = "10.77.0"
CLONE_NEWNET = 0x40000000


class NoHosts(RuntimeError):
    """This machine does not let us make network namespaces, or lacks what they are made with."""


@dataclass
class Host:
    """One of the machines; `address` is how the others reach it."""

    name: str  # of the namespace
    number: int
    folders: dict[str, Path] = field(default_factory=dict)  # what its processes see there ↦ where it really lies

    @property
    def address(self) -> str:
        return f"{NETWORK}.{self.number + 1}"

    def command(self, arguments: Sequence[str], folders: Mapping[str, Path] | None = None) -> list[str]:
        """What to start outside for this to run inside."""
        mounts = [
            f"mkdir -p {shlex.quote(seen)} && mount --bind {shlex.quote(str(real))} {shlex.quote(seen)} &&"
            for seen, real in {**self.folders, **(folders or {})}.items()
        ]
        script = " ".join([*mounts, 'exec "$@"'])
        return ["ip", "netns", "exec", self.name, "sh", "-c", script, "sh", *arguments]

    def start(
        self, arguments: Sequence[str], *, folders: Mapping[str, Path] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """A process in the host; options are those of Popen."""
        return subprocess.Popen(self.command(arguments, folders), text=True, **options)

    def run(
        self, arguments: Sequence[str], *, folders: Mapping[str, Path] | None = None, timeout: float = 60.0, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """A command in the host, to its end; what it printed, and how it ended."""
        return subprocess.run(
            self.command(arguments, folders),
            text=True,
            timeout=timeout,
            env=os.environ | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Sockets that this thread opens meanwhile are the host's; other threads stay outside."""
        with open(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net") as outside:
            _enter(Path("/run/netns") / self.name)
            try:
                yield
            finally:
                _set_namespace(outside.fileno())

    def cut(self) -> None:
        """Pull the cable: nothing gets in or out, and nobody is told."""
        _ip("-n", self.name, "link", "set", "eth0", "down")

    def heal(self) -> None:
        _ip("-n", self.name, "link", "set", "eth0", "up")

    def delay(self, milliseconds: float) -> bool:
        """Hold back whatever leaves the host; False where the kernel has no such queue."""
        if shutil.which("tc") is None:
            return False
        queue = ["tc", "-n", self.name, "qdisc", "replace", "dev", "eth0", "root", "netem", "delay"]
        return subprocess.run([*queue, f"{milliseconds}ms"], capture_output=True).returncode == 0

    def pids(self) -> list[int]:
        return [int(pid) for pid in _ip("netns", "pids", self.name).split()]

    def kill(self) -> None:
        """Pull the plug: every process in the host ends at once; the host itself can be used again."""
        deadline = time.monotonic() + 20.0
        while pids := self.pids():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: {pids} cannot be killed")
            time.sleep(0.01)


@contextmanager
def made(count: int) -> Iterator[list[Host]]:
    """So many hosts on one switch, for as long as the block lasts."""
    why = why_no_hosts()
    if why is not None:
        raise NoHosts(why)
    remove_stale()
    mine = f"{PREFIX}-{os.getpid()}-{_began(os.getpid())}-{time.monotonic_ns()}"
    switch = f"{mine}-switch"
    hosts = [Host(f"{mine}-{number}", number) for number in range(count)]
    try:
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        for host in hosts:
            _plug_in(host, switch)
        yield hosts
    finally:
        for name in (*(host.name for host in hosts), switch):
            _remove(name)


@functools.cache
def why_no_hosts() -> str | None:
    """What is missing here to make hosts, or None."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return "hosts are network namespaces: they need Linux and the `ip` command (iproute2)"
    name = f"{PREFIX}-{os.getpid()}-{_began(os.getpid())}-probe"
    try:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "switch", "type", "bridge")
        _ip("-n", name, "link", "add", "one", "type", "veth", "peer", "name", "other")
        _ip("netns", "exec", name, "true")
    except NoHosts as error:
        return f"network namespaces are not allowed here: {error}"
    finally:
        _remove(name)
    return None


def remove_stale() -> list[str]:
    """The hosts of runs that ended without clearing up, which are removed."""
    names = [line.split()[0] for line in _ip("netns", "list").splitlines() if line.startswith(f"{PREFIX}-")]
    stale = [name for name in names if not _owned(name)]
    for name in stale:
        _remove(name)
    return stale


def requires_hosts(test: Any) -> Any:
    """Skips a test, by name and with the reason, where hosts cannot be made."""
    why = why_no_hosts()
    return pytest.mark.skipif(why is not None, reason=str(why))(test)


def _plug_in(host: Host, switch: str) -> None:
    port = f"port{host.number}"
    _ip("netns", "add", host.name)
    _ip("-n", host.name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", switch)
    _ip("-n", switch, "link", "set", port, "master", "switch", "up")
    _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
    _ip("-n", host.name, "link", "set", "eth0", "up")
    _ip("-n", host.name, "link", "set", "lo", "up")


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], text=True, capture_output=True)
    if done.returncode != 0:
        raise NoHosts(f"`ip {' '.join(arguments)}` says: {done.stderr.strip()}")
    return done.stdout


def _remove(name: str) -> None:
    """Kill what runs in the namespace, and remove it with its interfaces."""
    with suppress(NoHosts):
        Host(name, 0).kill()
    with suppress(NoHosts):
        _ip("netns", "delete", name)


def _began(pid: int) -> str:
    """When a process began, in ticks: a number that comes again names another process."""
    status = Path(f"/proc/{pid}/stat")
    return status.read_text().rsplit(")", 1)[1].split()[19] if status.exists() else "gone"


def _owned(name: str) -> bool:
    """Whether the run that made it still lives."""
    pid, began = name.removeprefix(f"{PREFIX}-").split("-")[:2]
    return _began(int(pid)) == began


def _enter(namespace: Path) -> None:
    with open(namespace) as inside:
        _set_namespace(inside.fileno())


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns is there from Python 3.12 on
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
