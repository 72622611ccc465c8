"""The demo of `rankloop serve --demo`: a shelf of prints to click on, and simulated users who can use it."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from fastapi import Request
from starlette.responses import Response

from rankloop.core.errors import Conflict, RankloopError
from rankloop.core.registry import build
from rankloop.core.types import Floats
from rankloop.service import request_bodies as bodies
from rankloop.service.application.node import Node
from rankloop.service.http.endpoints import Endpoints, JsonResponse, read_body

PLAYGROUND_RANKER, EXPERIMENT_NAME = "playground", "learned-or-boldest"
SHELF_FILE = Path(__file__).parent / "static" / "shelf.json"
N_LIKED_PRINTS = 2  # of the shelf, by simulated users
EXPERIMENT_EVERY = 5  # one of five users sees the learned order interleaved with "boldest first"
MAX_USERS = 10_000
SECONDS_BETWEEN_USERS = 0.01  # so that the page can show the shelf change


class Print(msgspec.Struct):
    """A picture on the shelf."""

    id: str
    features: list[float]


class SimulatedUsers(msgspec.Struct):
    """The taste of simulated users, the number of prints each is shown, and the positions they look at."""

    likes: dict[str, float]
    prints: int
    positions: int


class Shelf(msgspec.Struct):
    """The prints of the playground; the page draws them from the same file."""

    features: list[str]
    users: SimulatedUsers
    prints: list[Print]

    @property
    def relevance(self) -> Floats:
        """Grade 4 for the prints that simulated users like most, 0 for the others."""
        taste = np.array([self.users.likes.get(name, 0.0) for name in self.features])
        liking = np.array([entry.features for entry in self.prints]) @ taste
        return np.where(liking >= np.sort(liking)[-N_LIKED_PRINTS], 4.0, 0.0)


class UsersBody(bodies.Strict):
    """Start simulated users."""

    users: Annotated[int, msgspec.Meta(ge=1, le=MAX_USERS)] = 500


class Progress(msgspec.Struct):
    """The progress of the simulated users."""

    users: int = 0
    done: int = 0
    running: bool = False
    problem: str = ""  # the error that stopped them, if there was one


class Demo:
    """The ranker and the experiment of the demo, and its endpoints."""

    def __init__(self, seed: int = 0) -> None:
        self.shelf = msgspec.json.decode(SHELF_FILE.read_bytes(), type=Shelf)
        self.progress = Progress()
        self._rng = np.random.default_rng(seed)
        self._users: Any = build({"kind": "cascade", "shown": self.shelf.users.positions}, "feedback")

    async def begin(self, node: Node) -> None:
        """Create the ranker and the experiment, unless they exist."""
        problem = bodies.ProblemBody(feature_names=self.shelf.features)
        learner = {"kind": "3pr", "warm": 3}
        await node.administration.create(PLAYGROUND_RANKER, bodies.CreateBody(learner, problem, snapshot_every=20))
        boldest = [float(name == "bold") for name in self.shelf.features]
        ranker, fixed = bodies.VariantBody(ranker=PLAYGROUND_RANKER), bodies.VariantBody(weights=boldest)
        await node.administration.create_experiment(EXPERIMENT_NAME, bodies.ExperimentBody(ranker, fixed))

    def add_endpoints(self, endpoints: Endpoints) -> None:
        """Add `POST /demo/users`, which starts simulated users, and `GET /demo/users` with their progress."""

        @endpoints.add("POST /demo/users", tag="demo", body=UsersBody)
        async def start_users(request: Request) -> Response:
            """Let simulated users use the playground."""
            users = (await read_body(request, UsersBody, is_optional=True)).users
            if self.progress.running:
                busy = f"{self.progress.users} simulated users are using the playground"
                raise Conflict(f"{busy}; wait until they are done")
            self.progress = Progress(users, running=True)
            endpoints.node.spawn(self._simulate(endpoints.node, self.progress))
            return JsonResponse(self.progress, 202)

        @endpoints.add("GET /demo/users", tag="demo")
        async def progress() -> Response:
            """Return the progress of the simulated users."""
            return JsonResponse(self.progress)

    async def _visit(self, node: Node, in_experiment: bool) -> None:
        """Simulate one user, who looks at the first positions and clicks the first attractive print."""
        print_numbers = np.argsort(self._rng.random(len(self.shelf.prints)))[: self.shelf.users.prints]
        prints = [self.shelf.prints[i] for i in print_numbers]
        body = bodies.RankBody([bodies.Item(entry.id, entry.features) for entry in prints])
        name = EXPERIMENT_NAME if in_experiment else PLAYGROUND_RANKER
        response = await node.ranking.rank(name, body, experiment=in_experiment)
        number = {entry.id: i for i, entry in enumerate(prints)}
        ranking = np.array([number[str(id)] for id in response.ranking])
        clicks = self._users.observe(ranking, self.shelf.relevance[print_numbers], self._rng)
        feedback = bodies.FeedbackBody(response.impression, clicks=[prints[i].id for i in clicks.items], final=True)
        await node.feedback.receive(name, feedback, in_experiment)

    async def _simulate(self, node: Node, progress: Progress) -> None:
        try:
            for number in range(progress.users):
                await self._visit(node, in_experiment=number % EXPERIMENT_EVERY == EXPERIMENT_EVERY - 1)
                progress.done += 1
                await asyncio.sleep(SECONDS_BETWEEN_USERS)
        except RankloopError as error:
            progress.problem = str(error)
        finally:
            progress.running = False
