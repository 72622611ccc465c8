"""How long it takes from durable feedback to the state that is served, where another process learns.

`python -m benchmarks.served_delay` starts PostgreSQL, a learner of its own and a worker that does not learn, sends
final feedback at random moments, and waits each time until the worker ranks from the next state.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from benchmarks.server_process import database, learning_apart, serve_command, started

TIMES = 300
GOAL = 0.250  # seconds, of 99 in 100
BODY = {"items": [{"id": f"i{i}", "features": [i % 7 / 7, i % 3 / 3, i / 50]} for i in range(50)]}


def delays(store: str, folder: Path, times: int = TIMES) -> list[float]:
    """Seconds from the answer to final feedback until a ranking has the next state."""
    pauses, seconds = random.Random(0), []
    with (
        learning_apart(folder, store),
        started(serve_without_learner, folder, RANKLOOP_STORE=store) as running,
        httpx.Client(base_url=f"http://127.0.0.1:{running.port}/rankers", timeout=30) as client,
    ):
        client.put("/delay", json={"learner": "3pr", "problem": {"n_features": 3}}).raise_for_status()
        for _ in range(times + 10):
            shown = client.post("/delay/rank", json=BODY).raise_for_status().json()
            time.sleep(pauses.random() * 0.3)
            feedback = {"impression": shown["impression"], "clicks": shown["ranking"][1:2], "final": True}
            client.post("/delay/feedback", json=feedback).raise_for_status()
            begun = time.perf_counter()
            while client.post("/delay/rank", json=BODY).json()["state"] == shown["state"]:
                time.sleep(0.01)
            seconds.append(time.perf_counter() - begun)
    return seconds[10:]  # the first ones compile


def serve_without_learner(port: int, folder: Path) -> list[str]:
    return [*serve_command(port, folder), "--no-learn"]


def main() -> None:
    with database(os.environ.get("RANKLOOP_STORE", "")) as store, tempfile.TemporaryDirectory() as folder:
        if not store:
            sys.exit("there is no PostgreSQL: set RANKLOOP_STORE, or install the extra test")
        seconds = delays(store, Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else TIMES)
    p50, p99 = np.quantile(seconds, [0.5, 0.99])
    print(f"feedback to served state, {len(seconds)} times: p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms (≤ 250 ms)")


if __name__ == "__main__":
    main()
