"""Which files of the package a ranking, its feedback and its lesson enter, in the order in which it enters them.

`python tools/request_walk.py` prints the walks of an HTTP service on SQLite; a test holds their number.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import httpx

import rankloop
from rankloop.service.http.app import make_app
from rankloop.service.jobs import learner
from rankloop.service.settings import Settings

PACKAGE = Path(rankloop.__file__).parent
JOBS = str(PACKAGE / "service" / "jobs")  # they run beside requests, not for them
PROBLEM = {"feature_names": ["title_match", "age_days"]}
ITEMS = [{"id": f"item {i}", "features": {"title_match": i / 7, "age_days": i}} for i in range(8)]


class Walk(NamedTuple):
    """The files that one call entered, and how often it went from one of them to another."""

    call: str
    files: list[str]
    changes: int


class Recorder:
    """Notes the file of every function of the package that is called while it is switched on; the learner's apart."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.learning: list[str] = []  # on the threads of the learner
        self.on = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if self.on and event == "call":
            path = frame.f_code.co_filename
            if path.startswith(str(PACKAGE)) and not path.startswith(JOBS):
                is_learner = threading.current_thread().name.startswith("learn")
                entered = self.learning if is_learner else self.entered
                entered.append(Path(path).relative_to(PACKAGE).as_posix())

    def walk(self, call: str) -> Walk:
        entered, self.entered = self.entered, []
        return _walk(call, entered)

    def lesson(self) -> Walk:
        learning, self.learning = self.learning, []
        return _walk("lesson", learning)


def _walk(call: str, entered: list[str]) -> Walk:
    changes = sum(one != other for one, other in pairwise(entered))
    return Walk(call, list(dict.fromkeys(entered)), changes)


async def walks(kind: str = "fair_pairs") -> list[Walk]:
    """The walks of a ranking, of the click that comes back for it, and of what the learner makes of both."""
    recorder, before = Recorder(), (learner.BUSY, learner.IDLE)
    learner.BUSY = learner.IDLE = 60.0  # it looks at the log when it is told to, and not in the middle of a ranking
    threading.setprofile(recorder)  # before the service starts its threads
    sys.setprofile(recorder)
    found = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            app = make_app(Settings(data=Path(folder)))
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
            ):
                await client.put("/rankers/shop", json={"learner": kind, "problem": PROBLEM})
                for counted in (False, True):  # once to compile
                    recorder.on = counted
                    answer = (await client.post("/rankers/shop/rank", json={"items": ITEMS})).json()
                    recorder.on = False
                    found.append(recorder.walk("rank"))
                    recorder.on = counted
                    click = {"impression": answer["impression"], "clicks": answer["ranking"][2:3], "final": True}
                    response = await client.post("/rankers/shop/feedback", json=click)
                    response.raise_for_status()
                    recorder.on = False
                    found += [recorder.walk("feedback"), recorder.lesson()]
    finally:
        learner.BUSY, learner.IDLE = before
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return found[3:]


def main() -> None:
    for walk in asyncio.run(walks(*sys.argv[1:])):
        print(f"{walk.call}: {len(walk.files)} files, {walk.changes} changes of file")
        for file in walk.files:
            print(f"  {file}")


if __name__ == "__main__":
    main()
