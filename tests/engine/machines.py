"""A Ray cluster on hosts: a head without cores, and workers that alone see the data. Each has its own folders."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hosts import Host, made

PORT = 6379
SOURCE = Path(__file__).parents[2] / "src"
REPOSITORY = Path(__file__).parents[2]
PARTS = "/tmp/rankloop-parts"  # where workers see the data; on the machine itself there is nothing
QUICK_TO_NOTICE = {  # of a machine that does not answer, and of a head that is gone: Ray would wait for a minute
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}


class Machines:
    """Host 0 is the head, where the command runs; the others compute."""

    def __init__(self, hosts: list[Host], folder: Path, parts: Path) -> None:
        self.hosts, self.folder = hosts, folder
        self.nodes: dict[int, subprocess.Popen[str]] = {}  # `ray start` of each, which stays for as long as the node
        token = secrets.token_hex(32)  # this cluster's own; whatever else runs on the machine cannot join
        self.environment = {
            **os.environ,
            **QUICK_TO_NOTICE,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": token,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ADDRESS": f"{hosts[0].address}:{PORT}",
            "PYTHONPATH": f"{SOURCE}:{REPOSITORY}",
            "OPENBLAS_NUM_THREADS": "1",
        }
        for host in hosts:
            for name in ("ray", "cache", "empty"):
                (folder / f"{host.number}-{name}").mkdir()
            host.folders["/tmp/ray"] = folder / f"{host.number}-ray"
            host.folders[PARTS] = parts if host.number else folder / "0-empty"

    def cache(self, number: int) -> Path:
        return self.folder / f"{number}-cache"

    def start_head(self) -> None:
        options = ["--head", "--node-ip-address", self.hosts[0].address, f"--port={PORT}", "--num-cpus=0"]
        self._ray(0, *options, "--include-dashboard=false")

    def start_worker(self, number: int, **folders: Path) -> None:
        host = self.hosts[number]
        address = f"{self.hosts[0].address}:{PORT}"
        self._ray(number, "--address", address, "--node-ip-address", host.address, "--num-cpus=1", **folders)

    def command(self, script: Path, *arguments: str, at: int = 0) -> subprocess.Popen[str]:
        """Python at one of the machines, as a person would start it."""
        return self.hosts[at].start(
            [sys.executable, str(script), *arguments],
            env={**self.environment, "RANKLOOP_CACHE": str(self.cache(at)), "HOST_ADDRESS": self.hosts[at].address},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
        )

    def _ray(self, number: int, *options: str, **folders: Path) -> None:
        with (self.folder / f"{number}.log").open("a") as log:
            self.nodes[number] = self.hosts[number].start(
                [sys.executable, "-m", "ray.scripts.scripts", "start", *options, *COMMON],
                env={**self.environment, "RANKLOOP_CACHE": str(self.cache(number))},
                folders={str(SOURCE): folders["source"]} if "source" in folders else None,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_until(self, reached: Callable[[], bool], running: subprocess.Popen[str], seconds: float = 180.0) -> None:
        """Until it happened; whatever ends before says why."""
        deadline = time.monotonic() + seconds
        while not reached():
            if running.poll() is not None:
                raise AssertionError(f"it ended before: {running.communicate()[0]}")
            for number, node in self.nodes.items():
                if node.poll() is not None:
                    running.kill()
                    raise AssertionError(f"node {number} ended: {(self.folder / f'{number}.log').read_text()}")
            if time.monotonic() > deadline:
                running.kill()
                raise AssertionError(f"it did not happen in time: {running.communicate()[0]}")
            time.sleep(0.05)


COMMON = ("--disable-usage-stats", "--object-store-memory=80000000", "--block")


@contextmanager
def three_machines(folder: Path, parts: Path) -> Iterator[Machines]:
    """A head and two workers on hosts of their own."""
    with made(3) as hosts:
        machines = Machines(hosts, folder, parts)
        machines.start_head()
        hosts[1].run([sys.executable, "-c", _REACHES, hosts[0].address, str(PORT)], timeout=120)
        for number in (1, 2):
            machines.start_worker(number)
        yield machines


_REACHES = """
import socket, sys, time
while True:
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()
        break
    except OSError:
        time.sleep(0.1)
"""
