"""`--demo`: a shelf of prints to play with, people who can be let loose on it, and a search box that editors grade."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from fastapi import Request
from numpy.random import Generator
from starlette.responses import Response

from rankloop.core.errors import Conflict, RankloopError, Rejected
from rankloop.core.registry import build
from rankloop.core.types import Floats
from rankloop.service.application.node import Node
from rankloop.service.http.endpoints import Endpoints, JsonResponse, read_body
from rankloop.service.requests import (
    CreateBody,
    ExperimentBody,
    FeedbackBody,
    Item,
    ProblemBody,
    RankBody,
    SideBody,
    Strict,
)

PLAYGROUND, SEARCH, COMPARISON = "playground", "search", "learned-or-boldest"
SHELF = Path(__file__).parent / "static" / "shelf.json"
LIKED = 2  # prints that a simulated person likes
COMPARED = 5  # every fifth of them sees the learned order mixed with "boldest first"
MAX_USERS = 10_000
BREATH = 0.01  # seconds between two people, so that one can watch the shelf change
SIGNALS = ["title match", "body match", "freshness", "popularity", "length"]
WORTH = np.array([1.6, 1.0, 0.5, 0.3, -0.4])  # what the editors grade by; the ranker is not told
RESULTS, GRADES = 12, 4
PAUSE = 0.5  # seconds between two searches
SEARCHES = 20_000  # then the search box is quiet, so that a forgotten demo does not fill the disk


class Print(msgspec.Struct):
    """A picture on the shelf."""

    id: str
    features: list[float]


class People(msgspec.Struct):
    """What simulated people like, how many prints each is shown, and how many positions they look at."""

    likes: dict[str, float]
    prints: int
    places: int


class Shelf(msgspec.Struct):
    """What the playground shows; the page draws from the same file, which says more."""

    features: list[str]
    people: People
    prints: list[Print]

    @property
    def relevance(self) -> Floats:
        """Grade 4 for the prints that people like most, 0 for the others."""
        taste = np.array([self.people.likes.get(name, 0.0) for name in self.features])
        liking = np.array([entry.features for entry in self.prints]) @ taste
        return np.where(liking >= np.sort(liking)[-LIKED], 4.0, 0.0)


class PeopleBody(Strict):
    """How many people to let loose on the playground."""

    people: int = 500


class Progress(msgspec.Struct):
    """How far the people are."""

    people: int = 0
    done: int = 0
    running: bool = False
    problem: str = ""  # what stopped them, if something did


class Demo:
    """Rankers to look at: `begin` makes them, `add_endpoints` lets the page send people to the playground."""

    def __init__(self, seed: int = 0, pause: float = PAUSE) -> None:
        self.shelf = msgspec.json.decode(SHELF.read_bytes(), type=Shelf)
        self.progress = Progress()
        self._people_rng, self._search_rng = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
        self._people: Any = build({"kind": "cascade", "shown": self.shelf.people.places}, "feedback")
        self._pause = pause

    async def begin(self, node: Node) -> None:
        """Make the rankers, unless they are there already, and start searching."""
        create, prints = node.administration.create, ProblemBody(feature_names=self.shelf.features)
        signals = ProblemBody(feature_names=SIGNALS, max_grade=GRADES)
        await create(PLAYGROUND, CreateBody({"kind": "3pr", "warm": 3}, prints, snapshot_every=100))
        await create(SEARCH, CreateBody({"kind": "online_gradient", "learning_rate": 0.02}, signals))
        boldest = [float(name == "bold") for name in self.shelf.features]
        sides = ExperimentBody(SideBody(ranker=PLAYGROUND), SideBody(weights=boldest))
        await node.administration.create_experiment(COMPARISON, sides)
        node.spawn(self._keep_searching(node))

    def add_endpoints(self, endpoints: Endpoints) -> None:
        """`POST /demo/people` lets people loose, `GET /demo/people` says how far they are."""

        @endpoints.add("POST /demo/people", tag="demo", body=PeopleBody)
        async def let_loose(request: Request) -> Response:
            """Let simulated people use the playground."""
            body = await read_body(request, PeopleBody, is_optional=True)
            self.let_loose(endpoints.node, body.people)
            return JsonResponse(self.progress, 202)

        @endpoints.add("GET /demo/people", tag="demo")
        async def progress() -> Response:
            """How far the simulated people are."""
            return JsonResponse(self.progress)

    def let_loose(self, node: Node, people: int) -> None:
        """Let this many people use the playground, one after the other."""
        if not 1 <= people <= MAX_USERS:
            raise Rejected("people", f"must be a number from 1 to {MAX_USERS}, got {people}")
        if self.progress.running:
            raise Conflict(f"{self.progress.people} people are using the playground; wait until they are done")
        self.progress = Progress(people, running=True)
        node.spawn(self._use(node, self.progress))

    async def visit(self, node: Node, compared: bool) -> None:
        """Somebody looks at some of the prints from the first position on, and clicks the first that attracts."""
        chosen = np.argsort(self._people_rng.random(len(self.shelf.prints)))[: self.shelf.people.prints]
        prints = [self.shelf.prints[i] for i in chosen]
        body = RankBody([Item(entry.id, entry.features) for entry in prints])
        rank, name = (node.ranking.rank_experiment, COMPARISON) if compared else (node.ranking.rank, PLAYGROUND)
        answer = await rank(name, body)
        number = {entry.id: i for i, entry in enumerate(prints)}
        ranking = np.array([number[str(id)] for id in answer.ranking])
        seen = self._people.observe(ranking, self.shelf.relevance[chosen], self._people_rng)
        feedback = FeedbackBody(answer.impression, clicks=[prints[i].id for i in seen.items], final=True)
        await (node.feedback.receive_for_experiment if compared else node.feedback.receive)(name, feedback)

    async def search(self, node: Node) -> None:
        """Somebody searches, and an editor grades what came."""
        features = self._search_rng.random((RESULTS, len(SIGNALS)))
        found = [Item(str(i), row.tolist()) for i, row in enumerate(features)]
        answer = await node.ranking.rank(SEARCH, RankBody(found))
        grades = dict(enumerate(graded(features, self._search_rng)))
        relevances = {str(id): grades[int(id)] for id in answer.ranking}
        await node.feedback.receive(SEARCH, FeedbackBody(answer.impression, relevances=relevances, final=True))

    async def _use(self, node: Node, progress: Progress) -> None:
        try:
            for number in range(progress.people):
                await self.visit(node, compared=number % COMPARED == COMPARED - 1)
                progress.done += 1
                await asyncio.sleep(BREATH)
        except RankloopError as error:
            progress.problem = str(error)
        finally:
            progress.running = False

    async def _keep_searching(self, node: Node) -> None:
        for _ in range(SEARCHES):
            if not node.ready:
                return
            with suppress(RankloopError):
                await self.search(node)
            await asyncio.sleep(self._pause)


def graded(features: Floats, rng: Generator) -> list[float]:
    """Grades 0 to 4 by worth, with an editor's imprecision."""
    worth = features @ WORTH + 0.6 * (rng.random(len(features)) - 0.5)
    return np.clip(np.round(4.0 * (worth - worth.mean()) - 0.5), 0, GRADES).tolist()  # type: ignore[no-any-return]
