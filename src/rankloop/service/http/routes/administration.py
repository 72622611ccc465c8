"""The endpoints of operators: rankers, experiments, catalogues, aliases, and users who are erased."""

import asyncio
import re

from fastapi import Request
from starlette.responses import Response

from rankloop.core.errors import Rejected
from rankloop.service import requests as bodies
from rankloop.service.application.jobs.history import history_of
from rankloop.service.application.reports import catalogue_report, experiment_report, ranker_report
from rankloop.service.http.endpoints import Endpoints, JsonResponse, read_body, read_content
from rankloop.service.http.middleware import check_reach
from rankloop.service.http.openapi import FILE
from rankloop.service.requests import NAME_PATTERN

_NAME = re.compile(NAME_PATTERN)
AT_ONCE = 50  # reports that are made without a pause in which other calls are answered


def checked_name(name: str) -> str:
    """Return a name that is safe in an address and in a file name, or raise `Rejected`."""
    if not _NAME.fullmatch(name):
        raise Rejected("name", "must be 1 to 64 letters, digits, dots, dashes or underscores, and not begin with a dot")
    return name


def add_rankers(endpoints: Endpoints) -> None:
    """Add the endpoints that create, show, change and delete rankers."""
    max_file = endpoints.settings.max_file

    @endpoints.add("PUT /rankers/{name}", tag="rankers", body=bodies.CreateBody, max_bytes=max_file)
    async def create(name: str, request: Request) -> Response:
        """Create a ranker; the same again changes nothing, another under the same name is refused."""
        body = await read_body(request, bodies.CreateBody)
        check_reach(request.scope, body.problem.catalogue)
        new = await endpoints.node.administration.create(checked_name(name), body)
        return JsonResponse(ranker_report(endpoints.node, name), 201 if new else 200)

    @endpoints.add("GET /rankers", tag="rankers")
    async def rankers() -> Response:
        """All rankers."""
        await endpoints.node.learning.catch_up_with_all()
        reports = []
        for name in sorted(endpoints.node.directory.rankers):
            if name in endpoints.node.directory.rankers:  # else it was deleted meanwhile
                reports.append(ranker_report(endpoints.node, name))
            if len(reports) % AT_ONCE == 0:
                await asyncio.sleep(0)
        return JsonResponse({"rankers": reports})

    @endpoints.add("GET /rankers/{name}", tag="rankers")
    async def ranker(name: str) -> Response:
        """Spec, state number, counts and health."""
        await endpoints.node.learning.catch_up(name)
        return JsonResponse(ranker_report(endpoints.node, name))

    @endpoints.add("PATCH /rankers/{name}", tag="rankers", body=bodies.RankerChangeBody)
    async def change(name: str, request: Request) -> Response:
        """Change the window of feedback of a live ranker, also for what is open; the same again changes nothing."""
        await endpoints.node.administration.set_window(name, (await read_body(request, bodies.RankerChangeBody)).window)
        return JsonResponse(ranker_report(endpoints.node, name))

    @endpoints.add("DELETE /rankers/{name}", tag="rankers")
    async def delete(name: str) -> Response:
        """Delete a ranker: events, snapshots and archive are gone; its name may be used again."""
        await endpoints.node.administration.delete((await endpoints.node.directory.find_ranker(name)).entity)
        return JsonResponse({"deleted": name})

    @endpoints.add("GET /rankers/{name}/state", tag="rankers")
    async def state(name: str) -> Response:
        """The model as a file that `rankloop.load` opens."""
        saved = await endpoints.node.administration.saved(name)
        headers = {"Content-Disposition": f'attachment; filename="{name}.rankloop"'}
        return Response(saved, media_type=FILE, headers=headers)

    @endpoints.add("PUT /rankers/{name}/state", tag="rankers", body=bytes, max_bytes=max_file)
    async def create_from_file(name: str, request: Request) -> Response:
        """Create a ranker from a file that `save` or `rankloop train` wrote; the same file again changes nothing."""
        saved = await read_content(request, FILE)
        new = await endpoints.node.administration.create_from_file(checked_name(name), saved)
        return JsonResponse(ranker_report(endpoints.node, name), 201 if new else 200)

    @endpoints.add("PATCH /rankers/{name}/schema", tag="rankers", body=bodies.SchemaBody)
    async def evolve(name: str, request: Request) -> Response:
        """Add fields and crosses to the schema of a live ranker, or remove some; the same again changes nothing."""
        await endpoints.node.administration.change_schema(name, await read_body(request, bodies.SchemaBody))
        return JsonResponse(ranker_report(endpoints.node, name))

    @endpoints.add("GET /rankers/{name}/explain", tag="rankers")
    async def explain(name: str, impression: str = "", id: str = "") -> Response:
        """What each value of an item adds to its score now, by name, the largest first."""
        return JsonResponse(await endpoints.node.administration.explain(name, impression, id))

    @endpoints.add("GET /rankers/{name}/weights", tag="rankers")
    async def weights(name: str) -> Response:
        """The largest weights by name; with a schema of the names in recent impressions, and who shares a column."""
        return JsonResponse(await endpoints.node.administration.weights(name))

    @endpoints.add("GET /rankers/{name}/snapshots", tag="rankers")
    async def snapshots(name: str) -> Response:
        """The states that can be gone back to."""
        runtime = await endpoints.node.directory.find_ranker(name)
        rows = await asyncio.to_thread(endpoints.node.store.snapshots, runtime.entity)
        return JsonResponse({"snapshots": [{"state": number, "seq": seq, "at": at} for number, seq, at in rows]})

    @endpoints.add("GET /rankers/{name}/history", tag="rankers")
    async def history(name: str) -> Response:
        """How counts, health and weights came about: at most a few hundred points, for curves."""
        points = await asyncio.to_thread(
            history_of, await endpoints.node.directory.find_ranker(name), endpoints.node.store
        )
        return JsonResponse({"points": [point._asdict() for point in points]})

    @endpoints.add("POST /rankers/{name}/rollback", tag="rankers", body=bodies.RollbackBody)
    async def rollback(name: str, request: Request) -> Response:
        """Go back to a snapshot; exploration goes on with fresh draws."""
        body = await read_body(request, bodies.RollbackBody, is_optional=True)
        to = await endpoints.node.administration.rollback(name, body.state)
        return JsonResponse({"rolled_back_to": to, "state": endpoints.node.directory.ranker(name).published.number})

    @endpoints.add("POST /rankers/{name}/freeze", tag="rankers", body=bodies.FreezeBody)
    async def freeze(name: str, request: Request) -> Response:
        """Stop learning; ranking goes on."""
        await endpoints.node.administration.freeze(
            name, (await read_body(request, bodies.FreezeBody, is_optional=True)).reason[:500]
        )
        return JsonResponse({"frozen": True})

    @endpoints.add("POST /rankers/{name}/resume", tag="rankers")
    async def resume(name: str) -> Response:
        """Learn again."""
        await endpoints.node.administration.resume(name)
        return JsonResponse({"frozen": False})

    @endpoints.add("POST /rankers/{name}/forget", tag="rankers", body=bodies.ForgetBody)
    async def forget_impressions(name: str, request: Request) -> Response:
        """Delete impressions from log, archive and snapshots, and learn again without them."""
        body = await read_body(request, bodies.ForgetBody)
        forgotten = await endpoints.node.administration.forget(
            name, query_id=body.query_id, user=body.user, before=body.shown_before
        )
        return JsonResponse({"forgotten": forgotten})

    @endpoints.add("POST /rankers/{name}/clone", tag="rankers", body=bodies.CloneBody)
    async def clone(name: str, request: Request) -> Response:
        """Start a new ranker from the state of this one."""
        new = checked_name((await read_body(request, bodies.CloneBody)).name)
        check_reach(request.scope, new)
        await endpoints.node.administration.clone(name, new)
        return JsonResponse(ranker_report(endpoints.node, new), 201)


def add_experiments(endpoints: Endpoints) -> None:
    """Add the endpoints of comparisons, which the address calls experiments."""

    @endpoints.add("PUT /experiments/{name}", tag="experiments", body=bodies.ExperimentBody)
    async def create_experiment(name: str, request: Request) -> Response:
        """Compare two rankers, or a ranker and fixed weights, by interleaving."""
        body = await read_body(request, bodies.ExperimentBody)
        check_reach(request.scope, body.a.ranker, body.b.ranker)
        new = await endpoints.node.administration.create_experiment(checked_name(name), body)
        return JsonResponse(experiment_report(endpoints.node, name), 201 if new else 200)

    @endpoints.add("DELETE /experiments/{name}", tag="experiments")
    async def delete_experiment(name: str) -> Response:
        """Delete an experiment with its events and counts; its name may be used again."""
        await endpoints.node.administration.delete((await endpoints.node.directory.find_experiment(name)).entity)
        return JsonResponse({"deleted": name})

    @endpoints.add("GET /experiments", tag="experiments")
    async def experiments() -> Response:
        """All experiments."""
        await endpoints.node.learning.catch_up_with_all()
        node = endpoints.node
        return JsonResponse(
            {"experiments": [experiment_report(node, name) for name in sorted(node.directory.experiments)]}
        )

    @endpoints.add("GET /experiments/{name}", tag="experiments")
    async def experiment(name: str) -> Response:
        """Wins, ties, losses, win ratio and the sign test."""
        await endpoints.node.learning.catch_up(name)
        return JsonResponse(experiment_report(endpoints.node, name))


def add_catalogues(endpoints: Endpoints) -> None:
    """Add the endpoints of catalogues: rows by id, so that requests to rank need only name their items."""

    @endpoints.add("PUT /catalogues/{name}", tag="catalogues", body=bodies.CatalogueBody)
    async def put_catalogue(name: str, request: Request) -> Response:
        """Rows by id: each replaces that of its id, null takes it away, all others stay."""
        body = await read_body(request, bodies.CatalogueBody)
        changed = await endpoints.node.administration.put_catalogue(checked_name(name), body)
        return JsonResponse(catalogue_report(endpoints.node, name) | {"changed": changed})

    @endpoints.add("GET /catalogues", tag="catalogues")
    async def catalogues() -> Response:
        """All catalogues."""
        node = endpoints.node
        return JsonResponse(
            {"catalogues": [catalogue_report(node, name) for name in sorted(node.directory.catalogues)]}
        )

    @endpoints.add("GET /catalogues/{name}", tag="catalogues")
    async def catalogue(name: str) -> Response:
        """How many rows there are, since which event, and who uses them."""
        await endpoints.node.directory.find_catalogue(name)
        return JsonResponse(catalogue_report(endpoints.node, name))


def add_aliases(endpoints: Endpoints) -> None:
    """Add the endpoints of aliases: names that lead to rankers, so that an address stays when a ranker changes."""

    @endpoints.add("PUT /aliases/{name}", tag="aliases", body=bodies.AliasBody)
    async def put_alias(name: str, request: Request) -> Response:
        """Let a name lead to a ranker: rankings of the name are the ranker's; feedback finds those of before, too."""
        body = await read_body(request, bodies.AliasBody)
        check_reach(request.scope, body.ranker)
        await endpoints.node.administration.set_alias(checked_name(name), body.ranker)
        return JsonResponse({"alias": name, "ranker": body.ranker})

    @endpoints.add("GET /aliases", tag="aliases")
    async def aliases() -> Response:
        """All aliases, and where they lead."""
        targets = endpoints.node.directory.aliases
        return JsonResponse({"aliases": {name: targets[name][0] for name in sorted(targets)}})

    @endpoints.add("DELETE /aliases/{name}", tag="aliases")
    async def delete_alias(name: str) -> Response:
        """Take an alias away."""
        await endpoints.node.administration.set_alias(name, "")
        return JsonResponse({"deleted": name})


def add_users(endpoints: Endpoints) -> None:
    """Add the endpoint that erases a user."""

    @endpoints.add("DELETE /users/{id:path}", tag="people")
    async def erase(id: str, relearn: bool = False) -> Response:
        """Erase a user's events from log, archive and snapshots of all rankers and experiments.

        What they taught stays as weights; relearn=true learns again without them.
        """
        erased = await endpoints.node.administration.erase_user(id, relearn)
        return JsonResponse({"user": id, "impressions": erased.impressions} | erased._asdict())
