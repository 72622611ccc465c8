"""The call by which a person's events are erased."""

from collections.abc import Callable

from fastapi import FastAPI
from starlette.responses import Response

from rankloop.service.application.node import Node
from rankloop.service.http.codec import json
from rankloop.service.http.openapi import gives


def add_people(app: FastAPI, service: Callable[[], Node]) -> None:
    """Erase a person."""

    @app.delete("/users/{id:path}", openapi_extra=gives(), tags=["people"])
    async def erase(id: str, relearn: bool = False) -> Response:
        """Erase a user's events from log, archive and snapshots of all rankers and experiments.

        What they taught stays as weights; relearn=true learns again without them.
        """
        erased = await service().administration.erase_user(id, relearn)
        return json({"user": id, "impressions": erased.impressions} | erased._asdict())
