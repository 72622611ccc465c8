"""The calls of the people who run it: create, look, freeze, go back, compare, export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from rankloop.core.errors import NotFound
from rankloop.service.bodies import CloneBody, CreateBody, ExperimentBody, FreezeBody, RollbackBody
from rankloop.service.events import Experiment, experiment_stream, ranker_stream
from rankloop.service.export import json_lines, parquet
from rankloop.service.metrics import Metrics
from rankloop.service.reading import checked_name, content, decoder, json
from rankloop.service.report import experiment_report, ranker_report
from rankloop.service.schemas import describe, gives, takes
from rankloop.service.service import Service
from rankloop.service.states import session_bytes

EVENTS_EVERY = 1.0  # seconds
_create, _experiment = decoder(CreateBody), decoder(ExperimentBody)
_rollback, _clone, _freeze = decoder(RollbackBody), decoder(CloneBody), decoder(FreezeBody)


def add_calls(app: FastAPI, metrics: Metrics) -> None:
    """Everything but rank and feedback."""
    describe(app)
    add_rankers(app)
    add_experiments(app)
    add_watching(app, metrics)


def add_rankers(app: FastAPI) -> None:
    most = app.state.settings.max_body

    def service() -> Service:
        return app.state.service  # type: ignore[no-any-return]

    @app.put("/rankers/{name}", openapi_extra=takes(CreateBody), tags=["rankers"])
    async def create(name: str, request: Request) -> Response:
        """Create a ranker; the same again changes nothing, another under the same name is refused."""
        body = _create(await content(request, most))
        new = await service().create(checked_name(name), body)
        return json(ranker_report(service(), name), 201 if new else 200)

    @app.get("/rankers", openapi_extra=gives(), tags=["rankers"])
    async def rankers() -> Response:
        """All rankers."""
        return json({"rankers": [ranker_report(service(), name) for name in sorted(service().rankers)]})

    @app.get("/rankers/{name}", openapi_extra=gives(), tags=["rankers"])
    async def ranker(name: str) -> Response:
        """Spec, state number, counts and health."""
        return json(ranker_report(service(), name))

    @app.get("/rankers/{name}/state", openapi_extra=gives(), tags=["rankers"])
    async def state(name: str) -> Response:
        """The model as a file that `rankloop.load` opens."""
        saved = await asyncio.to_thread(session_bytes, service().ranker(name).serving)
        headers = {"Content-Disposition": f'attachment; filename="{name}.rankloop"'}
        return Response(saved, media_type="application/octet-stream", headers=headers)

    @app.get("/rankers/{name}/snapshots", openapi_extra=gives(), tags=["rankers"])
    async def snapshots(name: str) -> Response:
        """The states that can be gone back to."""
        rows = await asyncio.to_thread(service().store.snapshots, service().ranker(name).stream)
        return json({"snapshots": [{"state": number, "seq": seq, "at": at} for number, seq, at in rows]})

    @app.post("/rankers/{name}/rollback", openapi_extra=takes(RollbackBody), tags=["rankers"])
    async def rollback(name: str, request: Request) -> Response:
        """Go back to a snapshot; exploration goes on with fresh draws."""
        body = _rollback(await content(request, most) or b"{}")
        to = await service().rollback(name, body.state)
        return json({"rolled_back_to": to, "state": service().ranker(name).published.number})

    @app.post("/rankers/{name}/freeze", openapi_extra=takes(FreezeBody), tags=["rankers"])
    async def freeze(name: str, request: Request) -> Response:
        """Stop learning; ranking goes on."""
        await service().freeze(name, _freeze(await content(request, most) or b"{}").reason[:500])
        return json({"frozen": True})

    @app.post("/rankers/{name}/resume", openapi_extra=gives(), tags=["rankers"])
    async def resume(name: str) -> Response:
        """Learn again."""
        await service().resume(name)
        return json({"frozen": False})

    @app.post("/rankers/{name}/clone", openapi_extra=takes(CloneBody), tags=["rankers"])
    async def clone(name: str, request: Request) -> Response:
        """Start a new ranker from the state of this one."""
        new = checked_name(_clone(await content(request, most)).name)
        await service().clone(name, new)
        return json(ranker_report(service(), new), 201)


def add_experiments(app: FastAPI) -> None:
    most = app.state.settings.max_body

    def service() -> Service:
        return app.state.service  # type: ignore[no-any-return]

    @app.put("/experiments/{name}", openapi_extra=takes(ExperimentBody), tags=["experiments"])
    async def create_experiment(name: str, request: Request) -> Response:
        """Compare two rankers, or a ranker and fixed weights, by interleaving."""
        body = _experiment(await content(request, most))
        new = await service().create_experiment(checked_name(name), Experiment(body))
        return json(experiment_report(service().experiment(name), name), 201 if new else 200)

    @app.get("/experiments", openapi_extra=gives(), tags=["experiments"])
    async def experiments() -> Response:
        """All experiments."""
        found = sorted(service().experiments.items())
        return json({"experiments": [experiment_report(live, name) for name, live in found]})

    @app.get("/experiments/{name}", openapi_extra=gives(), tags=["experiments"])
    async def experiment(name: str) -> Response:
        """Wins, ties, losses, win ratio and the sign test."""
        return json(experiment_report(service().experiment(name), name))


def add_watching(app: FastAPI, metrics: Metrics) -> None:
    def service() -> Service:
        return app.state.service  # type: ignore[no-any-return]

    @app.get("/events", openapi_extra=gives(), tags=["health"])
    async def events(request: Request, ranker: str | None = None) -> Response:
        """Server-sent events, one a second: what `GET /rankers` and `GET /experiments` say."""
        if ranker is not None:
            service().ranker(ranker)
        return StreamingResponse(_events(app, ranker), media_type="text/event-stream")

    @app.get("/log/{file}", openapi_extra=gives(), tags=["rankers"])
    async def log(file: str) -> Response:
        """The event log of a ranker or an experiment, as NAME.jsonl or NAME.parquet."""
        name, _, form = file.rpartition(".")
        stream = _stream(service(), name)
        records = service().store.read(stream, 0, service().log.last)
        if form == "jsonl":
            return StreamingResponse(_pieces(json_lines(records)), media_type="application/x-ndjson")
        if form == "parquet":
            return StreamingResponse(_pieces(parquet(records)), media_type="application/vnd.apache.parquet")
        raise NotFound(f"the log is there as {name}.jsonl and as {name}.parquet")

    @app.get("/readyz", openapi_extra=gives(), tags=["health"])
    async def ready() -> Response:
        """Whether rankings can be asked for."""
        return json({"ready": service().ready, "leads": service().leads}, 200 if service().ready else 503)

    @app.get("/metrics", openapi_extra=gives(), tags=["health"])
    async def prometheus() -> Response:
        """For Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _stream(service: Service, name: str) -> str:
    if name in service.rankers:
        return ranker_stream(name)
    if name in service.experiments:
        return experiment_stream(name)
    raise NotFound(f"there is no ranker and no experiment {name!r}")


async def _events(app: FastAPI, name: str | None) -> AsyncIterator[bytes]:
    service: Service = app.state.service
    while service.ready and not app.state.stopping:
        names = [name] if name is not None else sorted(service.rankers)
        report = {
            "rankers": [ranker_report(service, name) for name in names],
            "experiments": [experiment_report(live, name) for name, live in sorted(service.experiments.items())],
        }
        yield b"data: " + msgspec.json.encode(report) + b"\n\n"
        await asyncio.sleep(EVENTS_EVERY)


async def _pieces(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Read on a thread, so that rankings are not held up by an export."""
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part
