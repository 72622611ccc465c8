"""The endpoints for administrators: rankers, experiments, catalogues, aliases, and erasing a user."""

import asyncio
import re
from typing import Any

import msgspec
from fastapi import Request
from starlette.responses import Response

from rankloop.core.errors import Rejected
from rankloop.rules import Rules
from rankloop.service import request_bodies as bodies
from rankloop.service.application.event_removal import Selection
from rankloop.service.http.endpoints import Endpoints, JsonResponse, read_body
from rankloop.service.http.keys_and_limits import FILE_MEDIA, check_reach

MAX_REPORTS_AT_ONCE = 50  # without a pause for other calls


def add_administration(endpoints: Endpoints) -> None:
    """Add the endpoints of rankers, experiments, catalogues, aliases and users."""
    for add in (_add_rankers, _add_experiments, _add_catalogues, _add_aliases, _add_users):
        add(endpoints)


def _checked_name(name: str) -> str:
    """Return a name that is safe in an address and in a file name, or raise `Rejected`."""
    if not re.fullmatch(bodies.NAME_PATTERN, name):
        raise Rejected("name", "must be 1 to 64 letters, digits, dots, dashes or underscores, and not begin with a dot")
    return name


def _settings_of(request: Request) -> dict[str, Any]:
    """Return the settings in an address: values are JSON or texts, and a dot leads into a part."""
    settings: dict[str, Any] = {}
    for path, text in request.query_params.items():
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            value = text
        *parts, name = path.split(".")
        target: Any = settings
        for part in parts:
            target = target.setdefault(part, {})
            if not isinstance(target, dict):
                raise Rejected(part, f"is a value, but a table in {path!r:.80}: leave one out")
        target[name] = value
    if not isinstance(settings.get("problem", {}), dict):
        raise Rejected("problem", "must be an object")
    return settings


def _add_rankers(endpoints: Endpoints) -> None:
    max_file = endpoints.settings.max_file

    @endpoints.add("PUT /rankers/{name}", tag="rankers", body=bodies.CreateBody, max_bytes=max_file)
    async def create(name: str, request: Request) -> Response:
        """Create a ranker; repeating the request changes nothing, another ranker under the name is refused."""
        body = await read_body(request, bodies.CreateBody)
        check_reach(request.scope, body.problem.catalogue)
        new = await endpoints.node.administration.create(_checked_name(name), body)
        return JsonResponse(endpoints.node.reports.ranker(name), 201 if new else 200)

    @endpoints.add("GET /rankers", tag="rankers")
    async def rankers() -> Response:
        """Return the reports of all rankers."""
        await endpoints.node.learning.catch_up_with_all()
        reports = []
        for name in sorted(endpoints.node.directory.rankers):
            if name in endpoints.node.directory.rankers:  # it may have been deleted during the pause
                reports.append(endpoints.node.reports.ranker(name))
            if len(reports) % MAX_REPORTS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return JsonResponse({"rankers": reports})

    @endpoints.add("GET /rankers/{name}", tag="rankers")
    async def ranker(name: str) -> Response:
        """Return the spec, state number, counts and health of a ranker."""
        await endpoints.node.learning.catch_up(name)
        return JsonResponse(endpoints.node.reports.ranker(name))

    @endpoints.add("PATCH /rankers/{name}", tag="rankers", body=bodies.RankerChangeBody)
    async def change(name: str, request: Request) -> Response:
        """Change the feedback window of a ranker, also for open impressions."""
        await endpoints.node.administration.set_window(name, (await read_body(request, bodies.RankerChangeBody)).window)
        return JsonResponse(endpoints.node.reports.ranker(name))

    @endpoints.add("DELETE /rankers/{name}", tag="rankers")
    async def delete(name: str) -> Response:
        """Delete a ranker with its events and snapshots; its name may be used again."""
        await endpoints.node.administration.delete((await endpoints.node.directory.find_ranker(name)).entity)
        return JsonResponse({"deleted": name})

    @endpoints.add("GET /rankers/{name}/state", tag="rankers")
    async def state(name: str) -> Response:
        """Return the model as a file that `rankloop.load` opens."""
        saved = await endpoints.node.administration.saved(name)
        headers = {"Content-Disposition": f'attachment; filename="{name}.rankloop"'}
        return Response(saved, media_type=FILE_MEDIA, headers=headers)

    @endpoints.add("PUT /rankers/{name}/state", tag="rankers", body=bytes, max_bytes=max_file)
    async def create_from_file(name: str, request: Request) -> Response:
        """Create a ranker from a file of `save` or `rankloop train`; repeating the request changes nothing.

        Settings of a new ranker may follow the address, as in `?guard=true` and `&base.kind=given_order`.
        """
        settings = _settings_of(request)
        check_reach(request.scope, settings.get("problem", {}).get("catalogue"))
        saved = await read_body(request, bytes)
        new = await endpoints.node.administration.create_from_file(_checked_name(name), saved, settings)
        return JsonResponse(endpoints.node.reports.ranker(name), 201 if new else 200)

    @endpoints.add("PATCH /rankers/{name}/schema", tag="rankers", body=bodies.SchemaBody)
    async def evolve(name: str, request: Request) -> Response:
        """Add fields and crosses to the schema of a ranker, or remove some; repeating the request changes nothing."""
        await endpoints.node.administration.change_schema(name, await read_body(request, bodies.SchemaBody))
        return JsonResponse(endpoints.node.reports.ranker(name))

    @endpoints.add("PUT /rankers/{name}/rules", tag="rankers", body=Rules)
    async def set_rules(name: str, request: Request) -> Response:
        """Replace the rules that are applied to the learned order; an empty object removes them."""
        await endpoints.node.administration.set_rules(name, await read_body(request, Rules))
        return JsonResponse(endpoints.node.reports.ranker(name))

    @endpoints.add("GET /rankers/{name}/explain", tag="rankers")
    async def explain(name: str, impression: str = "", id: str = "") -> Response:
        """Return the contribution of each value of an item to its score now, the largest first."""
        return JsonResponse(await endpoints.node.administration.explain(name, impression, id))

    @endpoints.add("GET /rankers/{name}/weights", tag="rankers")
    async def weights(name: str) -> Response:
        """Return the largest weights by name; with a schema, of the names in recent impressions."""
        return JsonResponse(await endpoints.node.administration.weights(name))

    @endpoints.add("GET /rankers/{name}/snapshots", tag="rankers")
    async def snapshots(name: str) -> Response:
        """Return the states that a rollback can restore, the initial one first, and the number of the served one."""
        states = await endpoints.node.administration.states(name)
        published = endpoints.node.directory.ranker(name).published
        return JsonResponse({"state": published.number, "snapshots": [row._asdict() for row in states.rows]})

    @endpoints.add("GET /rankers/{name}/history", tag="rankers")
    async def history(name: str) -> Response:
        """Return counts, health and weights at each snapshot, of at most a few dozen, and now."""
        await endpoints.node.directory.find_ranker(name)
        return JsonResponse({"points": await asyncio.to_thread(endpoints.node.reports.history, name)})

    @endpoints.add("POST /rankers/{name}/rollback", tag="rankers", body=bodies.RollbackBody)
    async def rollback(name: str, request: Request) -> Response:
        """Roll back to a state, or one step; exploration continues with fresh random numbers.

        A preview says how many recent lists would get another order, and changes nothing.
        """
        body = await read_body(request, bodies.RollbackBody, is_optional=True)
        if body.preview:
            return JsonResponse(await endpoints.node.administration.preview_rollback(name, body.state))
        to = await endpoints.node.administration.rollback(name, body.state)
        return JsonResponse({"rolled_back_to": to, "state": endpoints.node.directory.ranker(name).published.number})

    @endpoints.add("POST /rankers/{name}/freeze", tag="rankers", body=bodies.FreezeBody)
    async def freeze(name: str, request: Request) -> Response:
        """Stop learning; ranking continues."""
        body = await read_body(request, bodies.FreezeBody, is_optional=True)
        await endpoints.node.administration.freeze(name, body.reason[:500])
        return JsonResponse({"frozen": True})

    @endpoints.add("POST /rankers/{name}/resume", tag="rankers")
    async def resume(name: str) -> Response:
        """Start learning again."""
        await endpoints.node.administration.resume(name)
        return JsonResponse({"frozen": False})

    @endpoints.add("POST /rankers/{name}/forget", tag="rankers", body=bodies.ForgetBody)
    async def forget_impressions(name: str, request: Request) -> Response:
        """Delete impressions from log and snapshots, and retrain without them."""
        selection = await read_body(request, Selection)
        return JsonResponse({"forgotten": await endpoints.node.administration.forget(name, selection)})

    @endpoints.add("POST /rankers/{name}/clone", tag="rankers", body=bodies.CloneBody)
    async def clone(name: str, request: Request) -> Response:
        """Create a new ranker from the state of this one."""
        new = _checked_name((await read_body(request, bodies.CloneBody)).name)
        check_reach(request.scope, new)
        await endpoints.node.administration.clone(name, new)
        return JsonResponse(endpoints.node.reports.ranker(new), 201)


def _add_experiments(endpoints: Endpoints) -> None:
    @endpoints.add("PUT /experiments/{name}", tag="experiments", body=bodies.ExperimentBody)
    async def create_experiment(name: str, request: Request) -> Response:
        """Compare two rankers, fixed weights or the order of the request, by interleaving or by users (an A/B test)."""
        body = await read_body(request, bodies.ExperimentBody)
        check_reach(request.scope, body.a.ranker, body.b.ranker)
        new = await endpoints.node.administration.create_experiment(_checked_name(name), body)
        return JsonResponse(endpoints.node.reports.experiment(name), 201 if new else 200)

    @endpoints.add("DELETE /experiments/{name}", tag="experiments")
    async def delete_experiment(name: str) -> Response:
        """Delete an experiment with its events and counts; its name may be used again."""
        await endpoints.node.administration.delete((await endpoints.node.directory.find_experiment(name)).entity)
        return JsonResponse({"deleted": name})

    @endpoints.add("GET /experiments", tag="experiments")
    async def experiments() -> Response:
        """Return the reports of all experiments."""
        await endpoints.node.learning.catch_up_with_all()
        node = endpoints.node
        reports = [node.reports.experiment(name) for name in sorted(node.directory.experiments)]
        return JsonResponse({"experiments": reports})

    @endpoints.add("GET /experiments/{name}", tag="experiments")
    async def experiment(name: str) -> Response:
        """Return wins and losses, or the means per user of an A/B test, with p-values that are valid at any time."""
        await endpoints.node.learning.catch_up(name)
        return JsonResponse(endpoints.node.reports.experiment(name))


def _add_catalogues(endpoints: Endpoints) -> None:
    @endpoints.add("PUT /catalogues/{name}", tag="catalogues", body=bodies.CatalogueBody)
    async def put_catalogue(name: str, request: Request) -> Response:
        """Put rows by id: each replaces the row of its id, null deletes it, other rows stay."""
        body = await read_body(request, bodies.CatalogueBody)
        changed = await endpoints.node.administration.put_catalogue(_checked_name(name), body)
        return JsonResponse(endpoints.node.reports.catalogue(name) | {"changed": changed})

    @endpoints.add("GET /catalogues", tag="catalogues")
    async def catalogues() -> Response:
        """Return the reports of all catalogues."""
        node = endpoints.node
        reports = [node.reports.catalogue(name) for name in sorted(node.directory.catalogues)]
        return JsonResponse({"catalogues": reports})

    @endpoints.add("GET /catalogues/{name}", tag="catalogues")
    async def catalogue(name: str) -> Response:
        """Return the number of rows, the event of the last change, and the rankers that use the catalogue."""
        await endpoints.node.directory.find_catalogue(name)
        return JsonResponse(endpoints.node.reports.catalogue(name))


def _add_aliases(endpoints: Endpoints) -> None:
    @endpoints.add("PUT /aliases/{name}", tag="aliases", body=bodies.AliasBody)
    async def put_alias(name: str, request: Request) -> Response:
        """Point an alias to a ranker; feedback on rankings of its earlier rankers is still accepted."""
        body = await read_body(request, bodies.AliasBody)
        check_reach(request.scope, body.ranker)
        await endpoints.node.administration.set_alias(_checked_name(name), body.ranker)
        return JsonResponse({"alias": name, "ranker": body.ranker})

    @endpoints.add("GET /aliases", tag="aliases")
    async def aliases() -> Response:
        """Return all aliases with their rankers."""
        targets = endpoints.node.directory.aliases
        return JsonResponse({"aliases": {name: targets[name][0] for name in sorted(targets)}})

    @endpoints.add("DELETE /aliases/{name}", tag="aliases")
    async def delete_alias(name: str) -> Response:
        """Delete an alias."""
        await endpoints.node.administration.set_alias(name, "")
        return JsonResponse({"deleted": name})


def _add_users(endpoints: Endpoints) -> None:
    @endpoints.add("GET /users/{id:path}", tag="users")
    async def find_user(id: str) -> Response:
        """Return everything that is stored of a user, in all rankers and experiments."""
        return JsonResponse(await endpoints.node.administration.find_user(id))

    @endpoints.add("DELETE /users/{id:path}", tag="users")
    async def erase(id: str, relearn: bool = False) -> Response:
        """Erase a user's events from log and snapshots of all rankers and experiments, and return the proof.

        Weights learned from them stay; relearn=true retrains without them.
        """
        return JsonResponse(await endpoints.node.administration.erase_user(id, relearn))
