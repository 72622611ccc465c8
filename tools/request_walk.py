"""Files of the package that a ranking and its feedback enter, from the socket until the new state is served.

`python tools/request_walk.py [-v]` runs a server with API keys on a loopback socket and prints both walks; a test holds
their numbers. Everything that a request causes counts: the connection, middleware and keys, the thread that writes
the log, the threads that learn, and what is served afterwards. A ranking counts until the learner worker has read it.
What runs by the clock alone (samples for the page, sweeps, the ticks of the server) does not.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import uvicorn

import rankloop
from rankloop.service.application import learner_worker
from rankloop.service.http.server import Server, make_server
from rankloop.service.settings import Settings

PACKAGE = f"{Path(rankloop.__file__).parent}/"
ADMIN_KEY = "a-key-of-the-walk"
PROBLEM = {"feature_names": ["title_match", "age_days"]}
ITEMS = [{"id": f"item {i}", "features": {"title_match": i / 7, "age_days": i}} for i in range(8)]
SETTLE_SECONDS = 0.2  # for threads to finish what an answer has caused
NEVER_SECONDS = 3600.0
N_TRIES = 4  # of which the shortest counts: a busy machine cuts a request into more pieces
BY_THE_CLOCK = (
    (learner_worker, "BUSY_SECONDS"),
    (learner_worker, "IDLE_SECONDS"),
    (learner_worker, "WAITER_CHECK_SECONDS"),
)


class Walk(NamedTuple):
    """The functions that one call entered, by thread, each with the file that it is in."""

    call: str
    steps: dict[str, list[tuple[str, str]]]

    @property
    def files(self) -> list[str]:
        """Every file once, in the order in which it was entered first."""
        return list(dict.fromkeys(file for file, _ in chain.from_iterable(self.steps.values())))

    @property
    def changes(self) -> int:
        """Return the number of changes of file within the threads."""
        return sum(previous[0] != after[0] for steps in self.steps.values() for previous, after in pairwise(steps))


class Recorder:
    """Notes every function of the package that is called while it is switched on."""

    def __init__(self) -> None:
        self._steps: dict[str, list[tuple[str, str]]] | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Record a call or a return."""
        code, steps = frame.f_code, self._steps
        if steps is not None and event == "call" and code.co_filename.startswith(PACKAGE):
            step = code.co_filename.removeprefix(PACKAGE), code.co_name
            steps.setdefault(threading.current_thread().name, []).append(step)

    @contextmanager
    def walk(self, call: str, walks: list[Walk]) -> Iterator[None]:
        """Append the walk of what happens inside."""
        self._steps = {}
        yield
        time.sleep(SETTLE_SECONDS)
        walks.append(Walk(call, self._steps))
        self._steps = None


@contextmanager
def running_server() -> Iterator[tuple[Server, int]]:
    """Run a server with keys on a free port of the loopback address, on a thread of its own."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listening:
        server = make_server(Settings(data=Path(folder), keys=(("admin", ADMIN_KEY),)))
        thread = threading.Thread(target=server.run, args=([listening],), name="server")
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield server, listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def walks(kind: str = "fair_pairs") -> list[Walk]:
    """Record the walks of a ranking and of the click that comes back for it, each the shortest of a few."""
    recorder, recorded = Recorder(), list[Walk]()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(Server, "on_tick", uvicorn.Server.on_tick))
        for module, name in BY_THE_CLOCK:
            stack.enter_context(mock.patch.object(module, name, NEVER_SECONDS))
        threading.setprofile(recorder)  # before the server starts its threads
        stack.callback(threading.setprofile, None)
        server, port = stack.enter_context(running_server())
        connection = http.client.HTTPConnection("127.0.0.1", port)
        stack.callback(connection.close)

        def call(method: str, path: str, body: Any) -> Any:
            headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body), headers)
            response = connection.getresponse()
            content = json.loads(response.read())
            if response.status >= 400:
                raise RuntimeError(content)
            return content

        call("PUT", "/rankers/shop", {"learner": kind, "problem": PROBLEM})
        for _ in range(1 + N_TRIES):  # once to compile
            with recorder.walk("rank", recorded):
                answer = call("POST", "/rankers/shop/rank", {"items": ITEMS})
                server.app.state.node.learning.worker._wake.set()  # it looks by the clock otherwise
            click = {"impression": answer["impression"], "clicks": answer["ranking"][2:3], "final": True}
            with recorder.walk("feedback until served", recorded):
                verdict = call("POST", "/rankers/shop/feedback", click)
            if verdict["state"] <= answer["state"]:
                raise RuntimeError(f"the state {verdict['state']} is not newer than {answer['state']}")
    tries = recorded[2:]
    return [min(tries[call::2], key=lambda walk: walk.changes) for call in range(2)]


def main() -> None:
    """Print the walks of a ranking and of feedback."""
    for walk in walks():
        print(f"{walk.call}: {len(walk.files)} files, {walk.changes} changes of file")
        for file in walk.files:
            print(f"  {file}")
        for thread, steps in walk.steps.items() if "-v" in sys.argv else ():
            print(f"  on the thread {thread}:")
            for file, function in steps:
                print(f"    {file} {function}")


if __name__ == "__main__":
    main()
