"""The HTTP application: the routes put together, errors as problem documents, the page and the reference."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Match
from starlette.staticfiles import StaticFiles

from rankloop import __version__
from rankloop.service.application.node import Node
from rankloop.service.http.codec import json
from rankloop.service.http.metrics import Metrics
from rankloop.service.http.middleware import AccessMiddleware, GatedApp
from rankloop.service.http.openapi import describe, reference_page
from rankloop.service.http.problems import FORESEEN, problem, problem_of, response_of
from rankloop.service.http.routes.aliases import add_aliases
from rankloop.service.http.routes.catalogues import add_catalogues
from rankloop.service.http.routes.comparisons import add_comparisons
from rankloop.service.http.routes.monitoring import add_monitoring
from rankloop.service.http.routes.people import add_people
from rankloop.service.http.routes.rankers import add_rankers
from rankloop.service.http.routes.ranking import RankingCalls, add_ranking
from rankloop.service.http.telemetry import Telemetry, TelemetryMiddleware, telemetry_from
from rankloop.service.settings import Settings
from rankloop.service.stores.base import Store
from rankloop.service.stores.open import open_store

PAGE = Path(__file__).parent / "static"


def make_app(
    settings: Settings,
    opened: Callable[[Node], Any] | None = None,
    store: Store | None = None,
    telemetry: Telemetry | None = None,
) -> FastAPI:
    """The application, on a store that is open already or on that of the settings; `opened` is awaited when ready."""
    metrics = Metrics()
    telemetry = telemetry or telemetry_from(os.environ)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opening = store if store is not None else await asyncio.to_thread(open_store, settings)
        app.state.service = Node(opening, settings)
        await service().open()
        metrics.watch(service())
        try:
            if opened is not None:
                await opened(service())
            yield
        finally:
            await service().close()
            if telemetry is not None:
                await asyncio.to_thread(telemetry.close)

    def service() -> Node:
        return app.state.service  # type: ignore[no-any-return]

    app = GatedApp(title="rankloop", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.settings = settings
    app.state.stopping = False
    app.state.metrics = metrics
    add_errors(app)
    ranking = add_ranking(app)
    app.gate = AccessMiddleware(RankingCalls(app.answer, ranking), settings, metrics, app.state)
    if telemetry is not None:
        app.gate = TelemetryMiddleware(app.gate, telemetry)
    describe(app)
    add_rankers(app, service)
    add_comparisons(app, service)
    add_catalogues(app, service)
    add_people(app, service)
    add_aliases(app, service)
    add_monitoring(app, service, metrics)
    add_pages(app)
    return app


def add_errors(app: FastAPI) -> None:
    """Every error that is foreseen is a problem document; the others meet the middleware."""

    async def refused(request: Request, error: Exception) -> Response:
        return response_of(problem_of(error))

    for kind in (*FORESEEN, Exception):
        app.add_exception_handler(kind, refused)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "error")
        headers = {"Allow": ", ".join(_methods(app, request))} if error.status_code == 405 else None
        return response_of(problem(error.status_code, kind, str(error.detail)), headers)


def _methods(app: FastAPI, request: Request) -> list[str]:
    """What may be done at the path of a request."""
    there = [route for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in there for method in getattr(route, "methods", None) or ()})


def add_pages(app: FastAPI) -> None:
    """The page, where it is installed, and the reference."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(reference_page(app.openapi()))

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", tags=["health"])
    async def alive() -> Response:
        """Whether the process answers."""
        return json({"status": "ok"})

    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        index = PAGE / "index.html"
        return FileResponse(index) if index.exists() else RedirectResponse("/docs")

    if PAGE.is_dir():
        app.mount("/page", StaticFiles(directory=PAGE), name="page")
