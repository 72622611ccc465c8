"""The calls of aliases: names that lead to rankers, so that an address stays when another ranker takes over."""

from collections.abc import Callable

from fastapi import FastAPI, Request
from starlette.responses import Response

from rankloop.service.application.node import Node
from rankloop.service.http.codec import checked_name, content, decoder, json
from rankloop.service.http.middleware import check_reach
from rankloop.service.http.openapi import gives, takes
from rankloop.service.requests import AliasBody

_body = decoder(AliasBody)


def add_aliases(app: FastAPI, service: Callable[[], Node]) -> None:
    """Put, list and take away."""

    @app.put("/aliases/{name}", openapi_extra=takes(AliasBody), tags=["aliases"])
    async def put(name: str, request: Request) -> Response:
        """Let a name lead to a ranker: rankings of the name are the ranker's; feedback finds those of before, too."""
        body = _body(await content(request, app.state.settings.max_body))
        check_reach(request.scope, body.ranker)
        await service().administration.set_alias(checked_name(name), body.ranker)
        return json({"alias": name, "ranker": body.ranker})

    @app.get("/aliases", openapi_extra=gives(), tags=["aliases"])
    async def aliases() -> Response:
        """All aliases, and where they lead."""
        return json({"aliases": {name: led[0] for name, led in sorted(service().directory.aliases.items())}})

    @app.delete("/aliases/{name}", openapi_extra=gives(), tags=["aliases"])
    async def delete(name: str) -> Response:
        """Take an alias away."""
        await service().administration.set_alias(name, "")
        return json({"deleted": name})
