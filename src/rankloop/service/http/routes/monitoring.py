"""The calls of those who watch: events as they come, the log as a file, health, metrics."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.responses import Response, StreamingResponse

from rankloop.core.errors import NotFound
from rankloop.features.schema import Schema
from rankloop.service.application.export import json_lines, parquet, ubi_bulk
from rankloop.service.application.node import Node
from rankloop.service.application.reports import comparison_report, ranker_report
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.errors import Unavailable
from rankloop.service.http.codec import json
from rankloop.service.http.metrics import Metrics
from rankloop.service.http.openapi import gives
from rankloop.service.http.problems import problem, response_of
from rankloop.service.log.archive import read_records
from rankloop.service.records import comparison_entity, ranker_entity

EVENTS_EVERY = 1.0  # seconds
MAX_STEP = 0.002  # seconds in which reports are made without a pause
Report = Callable[[Node, str], dict[str, Any]]
KINDS = ("ranker", "experiment")
FAILING = "the log cannot be written now"
STOPPING = "this process is about to stop"


def add_monitoring(app: FastAPI, service: Callable[[], Node], metrics: Metrics) -> None:
    """Events, exports, health."""
    watching = EventStream(app)

    @app.get("/events", openapi_extra=gives(), tags=["health"])
    async def events(ranker: str | None = None) -> Response:
        """Server-sent events, one a second: what `GET /rankers` and `GET /experiments` say."""
        if ranker is not None:
            await service().directory.find_ranker(ranker)
        return StreamingResponse(watching.events(ranker), media_type="text/event-stream")

    @app.get("/log/{file}", openapi_extra=gives(), tags=["rankers"])
    async def log(file: str, of: str = "", format: str = "", who: bool = False) -> Response:
        """The event log of a ranker or an experiment, as NAME.jsonl or NAME.parquet; of=experiment where both exist.

        who=true adds user, session and tags to the table of a ranker without a schema. NAME?format=ubi, or NAME.ubi, is
        that of a ranker as a bulk file of User Behavior Insights, queries and events.
        """
        name, _, form = (file, "", format) if format else file.rpartition(".")
        await service().learning.catch_up(name)
        entity = _entity(service(), name, of)
        until = await asyncio.to_thread(service().store.last)
        where = service().store, entity, service().settings.data, until
        records = await asyncio.to_thread(
            read_records, *where
        )  # a file that is missing is told before an answer begins
        if form == "jsonl":
            return StreamingResponse(_pieces(json_lines(records)), media_type="application/x-ndjson")
        if form == "parquet":
            content = parquet(records, *_schemas(service(), entity), who)
            return StreamingResponse(_pieces(content), media_type="application/vnd.apache.parquet")
        if form == "ubi":
            return StreamingResponse(_pieces(ubi_bulk(records, name)), media_type="application/x-ndjson")
        raise NotFound(f"the log is there as {name}.jsonl, as {name}.parquet and as {name}?format=ubi")

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", openapi_extra=gives(), tags=["health"])
    async def ready() -> Response:
        """Whether rankings can be asked for: it has started, and the log can be written."""
        if service().store.shared:
            with suppress(Unavailable):
                await service().log.append(None)  # asks the database
        ready = service().ready and not service().log.is_failing and not app.state.stopping
        report = {"ready": ready, "leads": service().learning.is_leader}
        reason = STOPPING if app.state.stopping else FAILING
        return json(report) if ready else response_of(problem(503, "unavailable", reason) | report)

    @app.get("/metrics", openapi_extra=gives(), tags=["health"])
    async def prometheus() -> Response:
        """For Prometheus."""
        await service().learning.catch_up_with_all()
        text = await asyncio.to_thread(metrics.text)  # of many rankers it takes long
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _entity(service: Node, name: str, of: str) -> str:
    if name in service.directory.rankers and of != "experiment":
        return ranker_entity(name)
    if name in service.directory.comparisons and of != "ranker":
        return comparison_entity(name)
    raise NotFound(f"there is no {of if of in KINDS else ' and no '.join(KINDS)} {name!r}")


def _schemas(service: Node, entity: str) -> tuple[list[Schema], ItemCatalogue | None]:
    """All schemas by which an entity ranked, and the catalogue that it read: of a comparison those of both sides."""
    name = entity.partition("/")[2]
    if entity == ranker_entity(name):
        runtime = service.directory.rankers[name]
        return [encoder.schema for encoder in runtime.config.encoders.values()], runtime.catalogue
    comparison = service.directory.comparisons[name]
    found = [side.ranker.config.schema for side in comparison.sides if side.ranker is not None]
    return [schema for schema in found if schema is not None], comparison.catalogue


class EventStream:
    """Reports for all who watch: each is made once for all of them, with pauses in which other calls are answered."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._made: dict[tuple[Report, str], tuple[float, bytes]] = {}

    async def events(self, name: str | None) -> AsyncIterator[bytes]:
        """One a second, of one ranker or of all, as long as the service runs."""
        service: Node = self._app.state.service
        while service.ready and not self._app.state.stopping:
            await service.learning.catch_up_with_all()
            rankers = await self._reports(service, ranker_report, service.directory.rankers if name is None else [name])
            experiments = await self._reports(service, comparison_report, service.directory.comparisons)
            at = msgspec.json.encode(time.time())
            yield b'data: {"at":%b,"rankers":[%b],"experiments":[%b]}\n\n' % (at, rankers, experiments)
            await asyncio.sleep(EVENTS_EVERY)

    async def _reports(self, service: Node, report: Report, names: Iterable[str]) -> bytes:
        paused, reports = time.monotonic(), []
        for name in sorted(names):
            made, content = self._made.get((report, name), (-math.inf, b""))
            now = time.monotonic()
            if now - made > EVENTS_EVERY / 2:
                try:
                    content = msgspec.json.encode(report(service, name))
                except NotFound:  # it was deleted meanwhile
                    self._made.pop((report, name), None)
                    continue
                self._made[report, name] = now, content
            reports.append(content)
            if now - paused > MAX_STEP:
                await asyncio.sleep(0)
                paused = time.monotonic()
        return b",".join(reports)


async def _pieces(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Read on a thread, so that rankings are not held up by an export."""
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part
