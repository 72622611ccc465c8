"""The calls of the people who run rankers: create, look, freeze, go back, copy."""

import asyncio
from collections.abc import Callable

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response

from rankloop.service.application.jobs.history import history_of
from rankloop.service.application.node import Node
from rankloop.service.application.reports import ranker_report
from rankloop.service.http.codec import FILE, checked_name, content, decoder, json
from rankloop.service.http.middleware import check_reach
from rankloop.service.http.openapi import gives, takes, takes_file
from rankloop.service.requests import (
    CloneBody,
    CreateBody,
    ForgetBody,
    FreezeBody,
    RankerBody,
    RollbackBody,
    SchemaBody,
)

_create, _schema = decoder(CreateBody), decoder(SchemaBody)
_rollback, _clone, _freeze = decoder(RollbackBody), decoder(CloneBody), decoder(FreezeBody)
_forget, _change = decoder(ForgetBody), decoder(RankerBody)
AT_ONCE = 50  # reports that are made without a pause in which other calls are answered


def add_rankers(app: FastAPI, service: Callable[[], Node]) -> None:
    """Create, look, freeze, go back, copy."""
    max_body = app.state.settings.max_body

    @app.put("/rankers/{name}", openapi_extra=takes(CreateBody), tags=["rankers"])
    async def create(name: str, request: Request) -> Response:
        """Create a ranker; the same again changes nothing, another under the same name is refused."""
        body = await asyncio.to_thread(_create, await content(request, app.state.settings.max_file))
        check_reach(request.scope, body.problem.catalogue)
        new = await service().administration.create(checked_name(name), body)
        return json(ranker_report(service(), name), 201 if new else 200)

    @app.get("/rankers", openapi_extra=gives(), tags=["rankers"])
    async def rankers() -> Response:
        """All rankers."""
        await service().learning.catch_up_with_all()
        reports = []
        for name in sorted(service().directory.rankers):
            if name in service().directory.rankers:  # else it was deleted meanwhile
                reports.append(ranker_report(service(), name))
            if len(reports) % AT_ONCE == 0:
                await asyncio.sleep(0)
        return json({"rankers": reports})

    @app.get("/rankers/{name}", openapi_extra=gives(), tags=["rankers"])
    async def ranker(name: str) -> Response:
        """Spec, state number, counts and health."""
        await service().learning.catch_up(name)
        return json(ranker_report(service(), name))

    @app.patch("/rankers/{name}", openapi_extra=takes(RankerBody), tags=["rankers"])
    async def change(name: str, request: Request) -> Response:
        """Change the window of feedback of a live ranker, also for what is open; the same again changes nothing."""
        await service().administration.set_window(name, _change(await content(request, max_body)).window)
        return json(ranker_report(service(), name))

    @app.delete("/rankers/{name}", openapi_extra=gives(), tags=["rankers"])
    async def delete(name: str) -> Response:
        """Delete a ranker: events, snapshots and archive are gone; its name may be used again."""
        await service().administration.delete((await service().directory.find_ranker(name)).entity)
        return json({"deleted": name})

    @app.get("/rankers/{name}/state", openapi_extra=gives(), tags=["rankers"])
    async def state(name: str) -> Response:
        """The model as a file that `rankloop.load` opens."""
        saved = await service().administration.saved(name)
        headers = {"Content-Disposition": f'attachment; filename="{name}.rankloop"'}
        return Response(saved, media_type=FILE, headers=headers)

    @app.put("/rankers/{name}/state", openapi_extra=takes_file(), tags=["rankers"])
    async def create_from_file(name: str, request: Request) -> Response:
        """Create a ranker from a file that `save` or `rankloop train` wrote; the same file again changes nothing."""
        saved = await content(request, app.state.settings.max_file, FILE)
        new = await service().administration.create_from_file(checked_name(name), saved)
        return json(ranker_report(service(), name), 201 if new else 200)

    @app.patch("/rankers/{name}/schema", openapi_extra=takes(SchemaBody), tags=["rankers"])
    async def evolve(name: str, request: Request) -> Response:
        """Add fields and crosses to the schema of a live ranker, or remove some; the same again changes nothing."""
        await service().administration.evolve(name, _schema(await content(request, max_body)))
        return json(ranker_report(service(), name))

    @app.get("/rankers/{name}/explain", openapi_extra=gives(), tags=["rankers"])
    async def explain(name: str, impression: str = "", id: str = "") -> Response:
        """What each value of an item adds to its score now, by name, the largest first."""
        return json(await service().administration.explain(name, impression, id))

    @app.get("/rankers/{name}/weights", openapi_extra=gives(), tags=["rankers"])
    async def weights(name: str) -> Response:
        """The largest weights by name; with a schema of the names in recent impressions, and who shares a column."""
        return json(await service().administration.weights(name))

    @app.get("/rankers/{name}/snapshots", openapi_extra=gives(), tags=["rankers"])
    async def snapshots(name: str) -> Response:
        """The states that can be gone back to."""
        runtime = await service().directory.find_ranker(name)
        rows = await asyncio.to_thread(service().store.snapshots, runtime.entity)
        return json({"snapshots": [{"state": number, "seq": seq, "at": at} for number, seq, at in rows]})

    @app.get("/rankers/{name}/history", openapi_extra=gives(), tags=["rankers"])
    async def history(name: str) -> Response:
        """How counts, health and weights came about: at most a few hundred points, for curves."""
        points = await asyncio.to_thread(history_of, await service().directory.find_ranker(name), service().store)
        return json({"points": [point._asdict() for point in points]})

    @app.post("/rankers/{name}/rollback", openapi_extra=takes(RollbackBody), tags=["rankers"])
    async def rollback(name: str, request: Request) -> Response:
        """Go back to a snapshot; exploration goes on with fresh draws."""
        body = _rollback(await content(request, max_body) or b"{}")
        to = await service().administration.rollback(name, body.state)
        return json({"rolled_back_to": to, "state": service().directory.ranker(name).published.number})

    @app.post("/rankers/{name}/freeze", openapi_extra=takes(FreezeBody), tags=["rankers"])
    async def freeze(name: str, request: Request) -> Response:
        """Stop learning; ranking goes on."""
        await service().administration.freeze(name, _freeze(await content(request, max_body) or b"{}").reason[:500])
        return json({"frozen": True})

    @app.post("/rankers/{name}/resume", openapi_extra=gives(), tags=["rankers"])
    async def resume(name: str) -> Response:
        """Learn again."""
        await service().administration.resume(name)
        return json({"frozen": False})

    @app.post("/rankers/{name}/forget", openapi_extra=takes(ForgetBody), tags=["rankers"])
    async def forget(name: str, request: Request) -> Response:
        """Delete impressions from log, archive and snapshots, and learn again without them."""
        body = _forget(await content(request, max_body))
        return json({"forgotten": await service().administration.forget(name, **msgspec.structs.asdict(body))})

    @app.post("/rankers/{name}/clone", openapi_extra=takes(CloneBody), tags=["rankers"])
    async def clone(name: str, request: Request) -> Response:
        """Start a new ranker from the state of this one."""
        new = checked_name(_clone(await content(request, max_body)).name)
        check_reach(request.scope, new)
        await service().administration.clone(name, new)
        return json(ranker_report(service(), new), 201)
