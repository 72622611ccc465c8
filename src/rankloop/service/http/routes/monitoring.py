"""The endpoints for monitoring: live events, the log as a file, readiness and metrics."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from rankloop.core.errors import NotFound
from rankloop.core.extras import import_extra
from rankloop.features.schema import Schema
from rankloop.service.application.export import json_lines, parquet, ubi_bulk
from rankloop.service.application.node import Node
from rankloop.service.errors import Unavailable
from rankloop.service.http.endpoints import Endpoints, JsonResponse, stream
from rankloop.service.http.keys_and_limits import check_reach
from rankloop.service.http.problems import ProblemDocument, response_of

EVENT_SECONDS = 1.0  # between two events
MAX_BLOCK_SECONDS = 0.002  # in which reports are made without a pause for other calls
Report = Callable[[str], dict[str, Any]]
ENTITY_KINDS = ("ranker", "experiment")
MAX_READY_SECONDS = 2.0  # for the log to take a write, before the service is called not ready
FAILING_REASON = "the log cannot be written now"
STOPPING_REASON = "this process is stopping"


def add_monitoring(endpoints: Endpoints) -> None:
    """Add the endpoints for events, exports, readiness and metrics."""
    event_stream, state = EventStream(endpoints.app), endpoints.app.state

    @endpoints.add("GET /events", tag="health")
    async def events(ranker: str | None = None) -> Response:
        """Send server-sent events, one a second, with the content of `GET /rankers` and `GET /experiments`."""
        if ranker is not None:
            await endpoints.node.directory.find_ranker(ranker)
        return StreamingResponse(event_stream.events(ranker), media_type="text/event-stream")

    @endpoints.add("GET /log/{file}", tag="rankers", ranker=None)
    async def log(file: str, request: Request, of: str = "", format: str = "", who: bool = False) -> Response:
        """Return the event log of a ranker or an experiment, as NAME.jsonl or NAME.parquet.

        of=experiment chooses the experiment if both have the name. who=true adds user, session and tags to the table of
        a ranker without a schema. NAME?format=ubi, or NAME.ubi, is a bulk file of User Behavior Insights.
        """
        name, _, form = (file, "", format) if format else file.rpartition(".")
        check_reach(request.scope, name)
        await endpoints.node.learning.catch_up(name)
        store = endpoints.node.store
        until = await asyncio.to_thread(store.last)
        entity, schemas = _entity_and_schemas(endpoints.node, name, of)
        read = partial(store.read, entity, until=until)
        if form == "jsonl":
            return stream(json_lines(read()), "application/x-ndjson")
        if form == "parquet":
            import_extra("pyarrow")  # A stream that has begun cannot say what is missing.
            return stream(parquet(read, schemas, who), "application/vnd.apache.parquet")
        if form == "ubi":
            return stream(ubi_bulk(read(), name), "application/x-ndjson")
        raise NotFound(f"unknown format: ask for {name}.jsonl, {name}.parquet or {name}?format=ubi")

    @endpoints.add("HEAD /readyz", role="anyone")
    @endpoints.add("GET /readyz", tag="health", role="anyone")
    async def ready() -> Response:
        """Return ready if the service has started and the log can be written; 503 otherwise."""
        can_write = False
        with suppress(Unavailable, TimeoutError):  # writes nothing, but as a transaction of its own
            await asyncio.wait_for(asyncio.ensure_future(endpoints.node.log.append(None)), MAX_READY_SECONDS)
            can_write = True
        ready = can_write and endpoints.node.ready and not endpoints.node.log.is_failing and not state.stopping
        report = {"ready": ready, "leads": endpoints.node.learning.learns_all}
        reason = STOPPING_REASON if state.stopping else FAILING_REASON
        return JsonResponse(report) if ready else response_of(ProblemDocument.of(503, "unavailable", reason), **report)

    @endpoints.add("GET /metrics", tag="health")
    async def prometheus() -> Response:
        """Return the metrics in the format of Prometheus."""
        await endpoints.node.learning.catch_up_with_all()
        text = await asyncio.to_thread(state.metrics.text)  # with many rankers it takes long
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _entity_and_schemas(node: Node, name: str, of: str) -> tuple[str, list[Schema]]:
    """Return a ranker or an experiment, and all its schemas."""
    if name in node.directory.rankers and of != "experiment":
        return f"ranker/{name}", node.directory.rankers[name].config.schemas
    if name in node.directory.experiments and of != "ranker":
        schemas = [ranker.config.schema for ranker in node.directory.experiments[name].compared]
        return f"experiment/{name}", [schema for schema in schemas if schema is not None]
    raise NotFound(f"there is no {of if of in ENTITY_KINDS else ' and no '.join(ENTITY_KINDS)} {name!r}")


class EventStream:
    """The reports of all rankers and experiments, made once for all listeners."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._made: dict[tuple[Report, str], tuple[float, bytes]] = {}

    async def events(self, name: str | None) -> AsyncIterator[bytes]:
        """Yield one event a second, of one ranker or of all, as long as the service runs."""
        node: Node = self._app.state.node
        while node.ready and not self._app.state.stopping:
            await node.learning.catch_up_with_all()
            rankers = await self._reports(node.reports.ranker, node.directory.rankers if name is None else [name])
            experiments = await self._reports(node.reports.experiment, node.directory.experiments)
            at = msgspec.json.encode(time.time())
            yield b'data: {"at":%b,"rankers":[%b],"experiments":[%b]}\n\n' % (at, rankers, experiments)
            await asyncio.sleep(EVENT_SECONDS)

    async def _reports(self, report: Report, names: Iterable[str]) -> bytes:
        paused, reports = time.monotonic(), []
        for name in sorted(names):
            made, content = self._made.get((report, name), (-math.inf, b""))
            now = time.monotonic()
            if now - made > EVENT_SECONDS / 2:
                try:
                    content = msgspec.json.encode(report(name))
                except NotFound:  # it was just deleted
                    self._made.pop((report, name), None)
                    continue
                self._made[report, name] = now, content
            reports.append(content)
            if now - paused > MAX_BLOCK_SECONDS:
                await asyncio.sleep(0)
                paused = time.monotonic()
        return b",".join(reports)
