"""The calls of catalogues: rows by id, so that requests to rank need only name their items."""

from collections.abc import Callable

from fastapi import FastAPI, Request
from starlette.responses import Response

from rankloop.service.application.node import Node
from rankloop.service.application.reports import catalogue_report
from rankloop.service.http.codec import checked_name, content, decoder, json
from rankloop.service.http.openapi import gives, takes
from rankloop.service.requests import CatalogueBody

_body = decoder(CatalogueBody)


def add_catalogues(app: FastAPI, service: Callable[[], Node]) -> None:
    """Put rows, and see how many there are."""
    max_body = app.state.settings.max_body

    @app.put("/catalogues/{name}", openapi_extra=takes(CatalogueBody), tags=["catalogues"])
    async def put_catalogue(name: str, request: Request) -> Response:
        """Rows by id: each replaces that of its id, null takes it away, all others stay."""
        body = _body(await content(request, max_body))
        changed = await service().administration.put_catalogue(checked_name(name), body)
        return json(catalogue_report(service(), name) | {"changed": changed})

    @app.get("/catalogues", openapi_extra=gives(), tags=["catalogues"])
    async def catalogues() -> Response:
        """All catalogues."""
        return json(
            {"catalogues": [catalogue_report(service(), name) for name in sorted(service().directory.catalogues)]}
        )

    @app.get("/catalogues/{name}", openapi_extra=gives(), tags=["catalogues"])
    async def catalogue(name: str) -> Response:
        """How many rows there are, since which event, and who uses them."""
        await service().directory.find_catalogue(name)
        return json(catalogue_report(service(), name))
