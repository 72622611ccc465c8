"""The calls of the people who run it: create, look, freeze, go back, compare."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI, Request
from starlette.responses import Response

from rankloop.core.saved_session import dumps
from rankloop.service import managing
from rankloop.service.http.codec import FILE, checked_name, content, decoder, json
from rankloop.service.http.openapi import gives, takes, takes_file
from rankloop.service.jobs.history import history_of
from rankloop.service.log.events import Experiment
from rankloop.service.ranker.comparison import check_experiment
from rankloop.service.ranker.config import notes_of
from rankloop.service.reports import experiment_report, ranker_report
from rankloop.service.requests import CloneBody, CreateBody, ExperimentBody, FreezeBody, RollbackBody
from rankloop.service.service import Service

_create, _experiment = decoder(CreateBody), decoder(ExperimentBody)
_rollback, _clone, _freeze = decoder(RollbackBody), decoder(CloneBody), decoder(FreezeBody)


def add_rankers(app: FastAPI) -> None:
    most = app.state.settings.max_body

    def service() -> Service:
        return app.state.service  # type: ignore[no-any-return]

    @app.put("/rankers/{name}", openapi_extra=takes(CreateBody), tags=["rankers"])
    async def create(name: str, request: Request) -> Response:
        """Create a ranker; the same again changes nothing, another under the same name is refused."""
        body = _create(await content(request, most))
        new = await managing.create(service(), checked_name(name), body)
        return json(ranker_report(service(), name), 201 if new else 200)

    @app.get("/rankers", openapi_extra=gives(), tags=["rankers"])
    async def rankers() -> Response:
        """All rankers."""
        return json({"rankers": [ranker_report(service(), name) for name in sorted(service().rankers)]})

    @app.get("/rankers/{name}", openapi_extra=gives(), tags=["rankers"])
    async def ranker(name: str) -> Response:
        """Spec, state number, counts and health."""
        await service().look_for(name)
        return json(ranker_report(service(), name))

    @app.get("/rankers/{name}/state", openapi_extra=gives(), tags=["rankers"])
    async def state(name: str) -> Response:
        """The model as a file that `rankloop.load` opens."""
        await service().look_for(name)
        live = service().ranker(name)
        saved = await asyncio.to_thread(dumps, live.serving, notes_of(live.plan))
        headers = {"Content-Disposition": f'attachment; filename="{name}.rankloop"'}
        return Response(saved, media_type=FILE, headers=headers)

    @app.put("/rankers/{name}/state", openapi_extra=takes_file(), tags=["rankers"])
    async def create_from_file(name: str, request: Request) -> Response:
        """Create a ranker from a file that `save` or `rankloop train` wrote; the same file again changes nothing."""
        saved = await content(request, app.state.settings.largest_file, FILE)
        new = await managing.create_from_file(service(), checked_name(name), saved)
        return json(ranker_report(service(), name), 201 if new else 200)

    @app.get("/rankers/{name}/snapshots", openapi_extra=gives(), tags=["rankers"])
    async def snapshots(name: str) -> Response:
        """The states that can be gone back to."""
        await service().look_for(name)
        rows = await asyncio.to_thread(service().store.snapshots, service().ranker(name).stream)
        return json({"snapshots": [{"state": number, "seq": seq, "at": at} for number, seq, at in rows]})

    @app.get("/rankers/{name}/history", openapi_extra=gives(), tags=["rankers"])
    async def history(name: str) -> Response:
        """How counts, health and weights came about: at most a few hundred points, for curves."""
        await service().look_for(name)
        points = await asyncio.to_thread(history_of, service().ranker(name))
        return json({"points": [point._asdict() for point in points]})

    @app.post("/rankers/{name}/rollback", openapi_extra=takes(RollbackBody), tags=["rankers"])
    async def rollback(name: str, request: Request) -> Response:
        """Go back to a snapshot; exploration goes on with fresh draws."""
        body = _rollback(await content(request, most) or b"{}")
        to = await managing.rollback(service(), name, body.state)
        return json({"rolled_back_to": to, "state": service().ranker(name).published.number})

    @app.post("/rankers/{name}/freeze", openapi_extra=takes(FreezeBody), tags=["rankers"])
    async def freeze(name: str, request: Request) -> Response:
        """Stop learning; ranking goes on."""
        await managing.freeze(service(), name, _freeze(await content(request, most) or b"{}").reason[:500])
        return json({"frozen": True})

    @app.post("/rankers/{name}/resume", openapi_extra=gives(), tags=["rankers"])
    async def resume(name: str) -> Response:
        """Learn again."""
        await managing.resume(service(), name)
        return json({"frozen": False})

    @app.post("/rankers/{name}/clone", openapi_extra=takes(CloneBody), tags=["rankers"])
    async def clone(name: str, request: Request) -> Response:
        """Start a new ranker from the state of this one."""
        new = checked_name(_clone(await content(request, most)).name)
        await managing.clone(service(), name, new)
        return json(ranker_report(service(), new), 201)


def add_experiments(app: FastAPI) -> None:
    most = app.state.settings.max_body

    def service() -> Service:
        return app.state.service  # type: ignore[no-any-return]

    @app.put("/experiments/{name}", openapi_extra=takes(ExperimentBody), tags=["experiments"])
    async def create_experiment(name: str, request: Request) -> Response:
        """Compare two rankers, or a ranker and fixed weights, by interleaving."""
        body = _experiment(await content(request, most))
        check_experiment(body)
        for side in (body.a, body.b):
            await service().look_for(side.ranker or "")
        new = await managing.create_experiment(service(), checked_name(name), Experiment(body))
        return json(experiment_report(service().experiment(name), name), 201 if new else 200)

    @app.get("/experiments", openapi_extra=gives(), tags=["experiments"])
    async def experiments() -> Response:
        """All experiments."""
        found = sorted(service().experiments.items())
        return json({"experiments": [experiment_report(live, name) for name, live in found]})

    @app.get("/experiments/{name}", openapi_extra=gives(), tags=["experiments"])
    async def experiment(name: str) -> Response:
        """Wins, ties, losses, win ratio and the sign test."""
        await service().look_for(name)
        return json(experiment_report(service().experiment(name), name))
