"""Keep-alive connections that ask as fast as they are answered, or at a given rate; times of every call."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

N_ITEMS, N_FEATURES = 50, 20
PREPARING = 2.0  # for so many times as long as feedback is measured, impressions are prepared for it
MAX_PREPARED = 3000  # impressions for every second; when they run out, the clock stops
LOST = (ConnectionError, asyncio.IncompleteReadError)


class Times(NamedTuple):
    """What was measured."""

    calls: int
    seconds: float
    each: list[float]
    cpu: float = 0.0  # seconds of the server's processors
    stall: float = 0.0  # the longest wait for a call that needs no ranker, in seconds

    @property
    def rate(self) -> float:
        return self.calls / self.seconds

    def percentile(self, share: float) -> float:
        ordered = sorted(self.each)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


class Connection:
    """One HTTP/1.1 connection, with as little work on this side as possible; one that has ended is opened again."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        return await self.send("POST", path, body)

    async def send(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        was_open = self.reader is not None
        try:
            return await self._send(method, path, body)
        except LOST:
            if not was_open:
                raise
            self.close()  # it waited for longer than a server keeps connections
            return await self._send(method, path, body)

    async def _send(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if self.reader is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        self.writer.write(head.encode() + b"%d\r\n\r\n" % len(body) + body)
        headers = await self.reader.readuntil(b"\r\n\r\n")
        length = int(headers.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(headers[9:12]), await self.reader.readexactly(length)

    def close(self) -> None:
        if self.reader is not None:
            self.writer.close()
            self.reader = None


def bodies(n: int = 64, seed: int = 0) -> list[bytes]:
    """Requests to rank with 50 items and 20 features each."""
    rng = random.Random(seed)
    return [
        msgspec.json.encode(
            {
                "items": [
                    {"id": f"item-{i}", "features": [round(rng.uniform(-1, 1), 4) for _ in range(N_FEATURES)]}
                    for i in range(N_ITEMS)
                ]
            }
        )
        for _ in range(n)
    ]


async def send_calls(
    port: int,
    seconds: float,
    connections: int,
    mode: str,
    rate: float | None = None,
    cpu: Callable[[], float] = lambda: 0.0,
) -> Times:
    """`mode` is rank, feedback (of impressions asked for before the clock runs) or mixed; `cpu` is a clock too."""
    opened = [Connection(port) for _ in range(connections)]
    requests = bodies()
    stores: list[list[bytes]] = [[] for _ in opened]
    if mode == "feedback":
        n, until = int(MAX_PREPARED * seconds / connections) + 1, time.perf_counter() + PREPARING * seconds
        await asyncio.gather(*(_fill(c, s, requests, n, until) for c, s in zip(opened, stores)))
    each: list[float] = []
    begun, used = time.perf_counter(), cpu()
    until = begun + seconds
    pause = connections / rate if rate else 0.0
    watching = asyncio.create_task(_longest_wait(port, until)) if rate else None
    await asyncio.gather(*(_ask(c, s, requests, until, mode, each, pause) for c, s in zip(opened, stores)))
    spent, used = time.perf_counter() - begun, cpu() - used
    for connection in opened:
        connection.close()
    return Times(len(each), spent, each, used, await watching if watching else 0.0)


async def _longest_wait(port: int, until: float) -> float:
    """Of a call that asks for nothing, sent a hundred times a second."""
    connection, longest = Connection(port), 0.0
    while (begun := time.perf_counter()) < until:
        await connection.send("GET", "/healthz")
        longest = max(longest, time.perf_counter() - begun)
        await asyncio.sleep(0.01)
    connection.close()
    return longest


async def simulate_visits(port: int, impressions: int, at_once: int = 50, n_items: int = 8) -> None:
    """So many short lists, in batches; every second one is clicked, the others are left to their window."""
    connection = Connection(port)
    lists = [msgspec.json.decode(body)["items"][:n_items] for body in bodies()]
    for begin in range(0, impressions, at_once):
        requests = [{"items": lists[(begin + i) % len(lists)]} for i in range(at_once)]
        shown = await _batch(connection, "/rankers/load/rank:batch", {"requests": requests})
        clicked = [{"impression": s["impression"], "clicks": s["ranking"][:2], "final": True} for s in shown[::2]]
        await _batch(connection, "/rankers/load/feedback:batch", {"feedback": clicked})
    connection.close()


async def _batch(connection: Connection, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    status, answer = await connection.post(path, msgspec.json.encode(body))
    results: list[dict[str, Any]] = msgspec.json.decode(answer).get("results", [])
    if status != 200 or any("impression" not in result for result in results):
        raise RuntimeError(f"{path} answered {status}: {answer[:300]!r}")
    return results


async def _fill(connection: Connection, answers: list[bytes], requests: list[bytes], n: int, until: float) -> None:
    for i in range(n):
        if i and time.perf_counter() > until:
            return
        answers.append((await connection.post("/rankers/load/rank", requests[i % len(requests)]))[1])


async def _ask(
    connection: Connection,
    answers: list[bytes],
    requests: list[bytes],
    until: float,
    mode: str,
    each: list[float],
    pause: float,
) -> None:
    turn, due = random.randrange(len(requests)), time.perf_counter() + random.random() * pause
    while time.perf_counter() < until:
        if pause:
            await asyncio.sleep(max(due - time.perf_counter(), 0.0))
            due += pause
        feeding = (mode == "feedback" and bool(answers)) or (mode == "mixed" and bool(answers))
        if mode == "feedback" and not feeding:
            return
        path, body = ("/rankers/load/feedback", _clicks(answers.pop())) if feeding else ("/rankers/load/rank", b"")
        body = body or requests[turn % len(requests)]
        begun = time.perf_counter()
        status, answer = await connection.post(path, body)
        each.append(time.perf_counter() - begun)
        if status != 200:
            raise RuntimeError(f"{path} answered {status}: {answer[:300]!r}")
        if mode == "mixed" and not feeding:
            answers.append(answer)
        turn += 1


def _clicks(answer: bytes) -> bytes:
    shown: dict[str, Any] = msgspec.json.decode(answer)
    return msgspec.json.encode({"impression": shown["impression"], "clicks": shown["ranking"][:2], "final": True})
