"""Small rankers, requests and services that the tests of the service share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import httpx

from rankloop.service.domain.feedback_acceptance import impression_of
from rankloop.service.http.server import make_server
from rankloop.service.log.writer import Batch, RecentImpressions
from rankloop.service.records import LogEntry, Record
from rankloop.service.settings import Settings
from rankloop.service.stores.open import log_at

UNENCRYPTED = False  # for `verify`: to read all certificates takes longer than most tests
NAMES = ["price", "rating", "age"]
SHOP: dict[str, Any] = {"learner": {"kind": "3pr"}, "problem": {"feature_names": NAMES}, "seed": 3}


class Location(NamedTuple):
    """Where a service keeps its log."""

    data: Path
    store: str = ""

    def records(self) -> list[Record]:
        """The whole log, read from outside."""
        with log_at(self.store or str(self.data)) as log:
            return list(log.read())


@contextmanager
def running(
    location: Location, follower: bool = False, patience: float = 15.0, **settings: Any
) -> Iterator[httpx.Client]:
    """A service on a free port of this machine, and a client of it; it holds the lease, or follows."""
    server = make_server(Settings(**{"data": location.data, "store": location.store, "port": 0} | settings))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the service did not start")
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, verify=UNENCRYPTED) as client:
            client.server = server  # type: ignore[attr-defined]
            until(lambda: follower or inside(client).learning.learns_all, patience)
            yield client
    finally:
        server.stop()
        thread.join()


def batch_of(*entries: LogEntry) -> Batch:
    """A transaction of these, which remembers nothing of those before."""
    return Batch(entries, RecentImpressions(impression_of))


def append(store: Any, *entries: LogEntry) -> list[int]:
    """Write to a store, and the numbers under which it was written."""
    batch = batch_of(*entries)
    store.append(batch)
    return [result.seq for result in batch.results]  # type: ignore[union-attr]


def until(condition: Callable[[], Any], patience: float = 15.0) -> None:
    """Wait for something that is to come true."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come true")
        time.sleep(0.01)


def inside(client: httpx.Client) -> Any:
    """The service behind a client of `running`."""
    return client.server.app.state.node  # type: ignore[attr-defined]


def items(n: int = 4, shift: int = 0) -> list[dict[str, Any]]:
    return [
        {"id": f"i{i}", "features": [(i * 7 + shift * 3) % 5 / 5, (i * 3 + shift) % 4 / 4, i / n]} for i in range(n)
    ]


def rank(client: httpx.Client, name: str = "shop", **body: Any) -> dict[str, Any]:
    answer = client.post(f"/rankers/{name}/rank", json={"items": items()} | body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def feed(client: httpx.Client, impression: str, name: str = "shop", **body: Any) -> httpx.Response:
    return client.post(f"/rankers/{name}/feedback", json={"impression": impression} | body)


def learn(client: httpx.Client, rounds: int, name: str = "shop") -> None:
    """Rounds in which the second item is clicked."""
    for shift in range(rounds):
        shown = rank(client, name, items=items(shift=shift))
        answer = feed(client, shown["impression"], name, clicks=[shown["ranking"][1]], final=True)
        assert answer.status_code == 200, answer.text


def report(client: httpx.Client, name: str = "shop") -> dict[str, Any]:
    return dict(client.get(f"/rankers/{name}").json())
