"""Real `rankloop serve` processes, and visitors who note only what was answered."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import nullcontext
from threading import Event as Flag
from threading import Thread
from typing import Any

import httpx

from tests.hosts import Host
from tests.service.cases import SHOP, UNENCRYPTED, Location, items

Told = list[tuple[str, str]]
SOLD = {"outcomes": {"purchase": {"weight": 20, "window": "7d"}}}  # reported after the clicks have closed
THINKING = 0.05  # people do; those who never wait would take the processor from what is about to start


def serving(location: Location, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """A service in a process of its own, ready for calls, with the ranker `shop`."""
    log = location.data / f"stderr-{time.time_ns()}"
    command = [sys.executable, "-m", "rankloop", "serve", "--port", "0", "--data", str(location.data), *arguments]
    with open(log, "wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env=os.environ | {"RANKLOOP_STORE": location.store})
    while process.poll() is None:
        started = log.read_bytes().split(b"running on http://127.0.0.1:")
        if len(started) >= 2:
            port = int(started[1].split()[0].rstrip(b'"'))
            httpx.put(f"http://127.0.0.1:{port}/rankers/shop", json=SHOP | SOLD | {"snapshot_every": 20}, timeout=60)
            return process, port
        time.sleep(0.02)
    raise RuntimeError(f"the service did not start: {log.read_text()}")


def served(*arguments: str, store: str = "") -> subprocess.CompletedProcess[str]:
    """A service that is expected to stop by itself, and what it said."""
    command = [sys.executable, "-m", "rankloop", "serve", "--port", "0", *arguments]
    environment = os.environ | {"RANKLOOP_STORE": store}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def only_line(done: subprocess.CompletedProcess[str]) -> str:
    (line,) = done.stderr.splitlines()
    return line


class Visitors:
    """People who rank and click until the service is gone, or until they are told to stop."""

    def __init__(
        self, port: int, told: Told, n: int = 4, persistent: bool = False, host: Host | None = None, key: str = ""
    ) -> None:
        self.port, self.told, self.persistent, self.host = port, told, persistent, host
        self.patience = 30.0
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.refused: list[int] = []  # statuses of what the service said it could not do
        self._stopping = Flag()
        self._threads = [Thread(target=self._visit, args=(shift,)) for shift in range(n)]
        for thread in self._threads:
            thread.start()

    def until(self, n: int, patience: float = 60.0) -> None:
        deadline = time.monotonic() + patience
        while len(self.told) < n:
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {len(self.told)} answers")
            time.sleep(0.01)

    def leave(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _visit(self, shift: int) -> None:
        with self.host.entered() if self.host else nullcontext():
            self._go_on(shift)

    def _go_on(self, shift: int) -> None:
        at = f"http://{self.host.address if self.host else '127.0.0.1'}:{self.port}/rankers/shop"
        while not self._stopping.is_set():
            with httpx.Client(base_url=at, timeout=self.patience, headers=self._headers, verify=UNENCRYPTED) as client:
                try:
                    while not self._stopping.is_set():
                        self._turn(client, shift)
                        time.sleep(THINKING)
                except httpx.TransportError:
                    if not self.persistent:
                        return
                    time.sleep(0.05)

    def _turn(self, client: httpx.Client, shift: int) -> None:
        shown = self._answered(client.post("/rank", json={"items": items(shift=shift)}))
        if shown is None:
            return
        self.told.append(("ranked", shown["impression"]))
        body = {"impression": shown["impression"], "clicks": shown["ranking"][1:2], "final": True}
        if self._answered(client.post("/feedback", json=body)) is not None:
            self.told.append(("fed", shown["impression"]))
            bought = {"impression": shown["impression"], "outcomes": {"purchase": {shown["ranking"][1]: 1}}}
            if self._answered(client.post("/feedback", json=bought)) is not None:
                self.told.append(("bought", shown["impression"]))

    def _answered(self, response: httpx.Response) -> Any:
        """The answer; None where the service said that it could not, which is allowed while something is broken."""
        if response.status_code in (503, 507):
            self.refused.append(response.status_code)
            time.sleep(0.01)
            return None
        return response.raise_for_status().json()
