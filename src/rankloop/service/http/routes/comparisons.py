"""The calls of comparisons, which the address calls experiments: two rankers, or a ranker and fixed weights."""

from collections.abc import Callable

from fastapi import FastAPI, Request
from starlette.responses import Response

from rankloop.service.application.node import Node
from rankloop.service.application.reports import comparison_report
from rankloop.service.http.codec import checked_name, content, decoder, json
from rankloop.service.http.middleware import check_reach
from rankloop.service.http.openapi import gives, takes
from rankloop.service.requests import ExperimentBody

_body = decoder(ExperimentBody)


def add_comparisons(app: FastAPI, service: Callable[[], Node]) -> None:
    """Create a comparison, and see how it stands."""
    max_body = app.state.settings.max_body

    @app.put("/experiments/{name}", openapi_extra=takes(ExperimentBody), tags=["experiments"])
    async def create_experiment(name: str, request: Request) -> Response:
        """Compare two rankers, or a ranker and fixed weights, by interleaving."""
        body = _body(await content(request, max_body))
        check_reach(request.scope, body.a.ranker, body.b.ranker)
        new = await service().administration.create_comparison(checked_name(name), body)
        return json(comparison_report(service(), name), 201 if new else 200)

    @app.delete("/experiments/{name}", openapi_extra=gives(), tags=["experiments"])
    async def delete_experiment(name: str) -> Response:
        """Delete an experiment with its events and counts; its name may be used again."""
        await service().administration.delete((await service().directory.find_comparison(name)).entity)
        return json({"deleted": name})

    @app.get("/experiments", openapi_extra=gives(), tags=["experiments"])
    async def experiments() -> Response:
        """All experiments."""
        await service().learning.catch_up_with_all()
        return json(
            {"experiments": [comparison_report(service(), name) for name in sorted(service().directory.comparisons)]}
        )

    @app.get("/experiments/{name}", openapi_extra=gives(), tags=["experiments"])
    async def experiment(name: str) -> Response:
        """Wins, ties, losses, win ratio and the sign test."""
        await service().learning.catch_up(name)
        return json(comparison_report(service(), name))
