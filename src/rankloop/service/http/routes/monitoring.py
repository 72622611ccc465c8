"""The endpoints of monitoring: events as they come, the log as a file, health, metrics."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from rankloop.core.errors import NotFound
from rankloop.features.schema import Schema
from rankloop.service.application.export import json_lines, parquet, ubi_bulk
from rankloop.service.application.node import Node
from rankloop.service.application.reports import experiment_report, ranker_report
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.errors import Unavailable
from rankloop.service.http.endpoints import Endpoints, JsonResponse, stream
from rankloop.service.http.metrics import Metrics
from rankloop.service.http.middleware import check_reach
from rankloop.service.http.problems import problem, response_of
from rankloop.service.log.archive import read_records
from rankloop.service.records import experiment_entity, ranker_entity

EVENTS_EVERY = 1.0  # seconds
MAX_STEP = 0.002  # seconds in which reports are made without a pause
Report = Callable[[Node, str], dict[str, Any]]
KINDS = ("ranker", "experiment")
FAILING = "the log cannot be written now"
STOPPING = "this process is about to stop"


def add_monitoring(endpoints: Endpoints, metrics: Metrics) -> None:
    """Add the endpoints of events, exports, health and metrics."""
    watching, state = EventStream(endpoints.app), endpoints.app.state

    @endpoints.add("GET /events", tag="health")
    async def events(ranker: str | None = None) -> Response:
        """Server-sent events, one a second: what `GET /rankers` and `GET /experiments` say."""
        if ranker is not None:
            await endpoints.node.directory.find_ranker(ranker)
        return StreamingResponse(watching.events(ranker), media_type="text/event-stream")

    @endpoints.add("GET /log/{file}", tag="rankers", ranker=None)
    async def log(file: str, request: Request, of: str = "", format: str = "", who: bool = False) -> Response:
        """The event log of a ranker or an experiment, as NAME.jsonl or NAME.parquet; of=experiment where both exist.

        who=true adds user, session and tags to the table of a ranker without a schema. NAME?format=ubi, or NAME.ubi, is
        that of a ranker as a bulk file of User Behavior Insights, queries and events.
        """
        name, _, form = (file, "", format) if format else file.rpartition(".")
        check_reach(request.scope, name)
        await endpoints.node.learning.catch_up(name)
        entity = _entity(endpoints.node, name, of)
        store, data = endpoints.node.store, endpoints.node.settings.data
        until = await asyncio.to_thread(store.last)
        # A file that is missing is told before an answer begins.
        records = await asyncio.to_thread(read_records, store, entity, data, until)
        if form == "jsonl":
            return stream(json_lines(records), "application/x-ndjson")
        if form == "parquet":
            schemas, catalogue = _schemas(endpoints.node, entity)
            content = parquet(records, schemas, catalogue, who)
            return stream(content, "application/vnd.apache.parquet")
        if form == "ubi":
            return stream(ubi_bulk(records, name), "application/x-ndjson")
        raise NotFound(f"the log is there as {name}.jsonl, as {name}.parquet and as {name}?format=ubi")

    @endpoints.add("HEAD /readyz", role="anyone")
    @endpoints.add("GET /readyz", tag="health", role="anyone")
    async def ready() -> Response:
        """Whether rankings can be asked for: it has started, and the log can be written."""
        if endpoints.node.store.shared:
            with suppress(Unavailable):
                await endpoints.node.log.append(None)  # asks the database
        ready = endpoints.node.ready and not endpoints.node.log.is_failing and not state.stopping
        report = {"ready": ready, "leads": endpoints.node.learning.is_leader}
        reason = STOPPING if state.stopping else FAILING
        return JsonResponse(report) if ready else response_of(problem(503, "unavailable", reason) | report)

    @endpoints.add("GET /metrics", tag="health")
    async def prometheus() -> Response:
        """For Prometheus."""
        await endpoints.node.learning.catch_up_with_all()
        text = await asyncio.to_thread(metrics.text)  # of many rankers it takes long
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _entity(node: Node, name: str, of: str) -> str:
    if name in node.directory.rankers and of != "experiment":
        return ranker_entity(name)
    if name in node.directory.experiments and of != "ranker":
        return experiment_entity(name)
    raise NotFound(f"there is no {of if of in KINDS else ' and no '.join(KINDS)} {name!r}")


def _schemas(node: Node, entity: str) -> tuple[list[Schema], ItemCatalogue | None]:
    """All schemas by which an entity ranked, and the catalogue that it read: of a comparison those of both sides."""
    name = entity.partition("/")[2]
    if entity == ranker_entity(name):
        runtime = node.directory.rankers[name]
        return [encoder.schema for encoder in runtime.config.encoders.values()], runtime.catalogue
    comparison = node.directory.experiments[name]
    found = [side.ranker.config.schema for side in comparison.sides if side.ranker is not None]
    return [schema for schema in found if schema is not None], comparison.catalogue


class EventStream:
    """Reports for all who watch: each is made once for all of them, with pauses in which other calls are answered."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._made: dict[tuple[Report, str], tuple[float, bytes]] = {}

    async def events(self, name: str | None) -> AsyncIterator[bytes]:
        """One a second, of one ranker or of all, as long as the service runs."""
        node: Node = self._app.state.node
        while node.ready and not self._app.state.stopping:
            await node.learning.catch_up_with_all()
            rankers = await self._reports(node, ranker_report, node.directory.rankers if name is None else [name])
            experiments = await self._reports(node, experiment_report, node.directory.experiments)
            at = msgspec.json.encode(time.time())
            yield b'data: {"at":%b,"rankers":[%b],"experiments":[%b]}\n\n' % (at, rankers, experiments)
            await asyncio.sleep(EVENTS_EVERY)

    async def _reports(self, node: Node, report: Report, names: Iterable[str]) -> bytes:
        paused, reports = time.monotonic(), []
        for name in sorted(names):
            made, content = self._made.get((report, name), (-math.inf, b""))
            now = time.monotonic()
            if now - made > EVENTS_EVERY / 2:
                try:
                    content = msgspec.json.encode(report(node, name))
                except NotFound:  # it was deleted meanwhile
                    self._made.pop((report, name), None)
                    continue
                self._made[report, name] = now, content
            reports.append(content)
            if now - paused > MAX_STEP:
                await asyncio.sleep(0)
                paused = time.monotonic()
        return b",".join(reports)
