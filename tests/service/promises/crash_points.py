"""Run as a program: services that die at a given point of a given write, each in a process of its own.

What a client was told is written to FOLDER/POINT/acknowledged, one line per answer, before the next request. The
arguments are the folder and, for PostgreSQL, one address per point.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import zip_longest
from pathlib import Path

from rankloop.service.application.node import Node
from rankloop.service.request_bodies import CreateBody, FeedbackBody, Item, OutcomeBody, ProblemBody, RankBody
from rankloop.service.settings import Settings
from rankloop.service.stores.postgres import PostgresStore
from rankloop.service.stores.sqlite import SqliteStore

POINTS = ("begin", "inserted", "snapshot", "commit", "committed")
CRASH_AT = {"begin": 41, "inserted": 40, "snapshot": 3, "commit": 43, "committed": 42}  # which time the point is passed
DIED = 9


async def rounds(folder: Path, point: str, address: str) -> None:
    passed = 0

    def passing(name: str) -> None:
        nonlocal passed
        passed += name == point
        if name == point and passed == CRASH_AT[point]:
            os._exit(DIED)

    store = PostgresStore(address, passing) if address else SqliteStore(folder / "rankloop.db", passing)
    service = Node(store, Settings(data=folder))
    await service.open()
    while not service.learning.learns_all:
        await asyncio.sleep(0.01)
    with open(folder / "acknowledged", "w", buffering=1) as told:
        problem = ProblemBody(n_features=2)
        await service.administration.create(
            "shop",
            CreateBody(
                learner={"kind": "3pr"},
                problem=problem,
                snapshot_every=5,
                outcomes={"purchase": OutcomeBody(20.0, "7d")},
            ),
        )
        await asyncio.gather(*(_visitor(service, told, visitor) for visitor in range(3)))


async def _visitor(service: Node, told: object, visitor: int) -> None:
    for turn in range(200):
        items = [Item(i, [((i + turn) * 7 + visitor) % 5 / 5, i / 6]) for i in range(6)]
        shown = await service.ranking.rank("shop", RankBody(items))
        print("ranked", shown.impression, file=told)  # type: ignore[call-overload]
        await service.feedback.receive("shop", FeedbackBody(shown.impression, clicks=shown.ranking[1:2], final=True))
        print("fed", shown.impression, file=told)  # type: ignore[call-overload]
        bought = {"purchase": {str(shown.ranking[1]): 1.0}}  # after the clicks have closed
        await service.feedback.receive("shop", FeedbackBody(shown.impression, outcomes=bought))
        print("bought", shown.impression, file=told)  # type: ignore[call-overload]


def main(folder: Path, addresses: list[str]) -> None:
    for point, address in zip_longest(POINTS, addresses, fillvalue=""):
        (folder / point).mkdir()
        child = os.fork()
        if child == 0:
            asyncio.run(rounds(folder / point, point, address))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(point, os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
