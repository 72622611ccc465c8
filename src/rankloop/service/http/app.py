"""The HTTP application: all routes, errors as problem documents, the live page and the API reference."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from rankloop import __version__
from rankloop.service.application.node import Node
from rankloop.service.http.cross_origin import FEEDBACK_PATHS, CrossOriginAccess, check_origins
from rankloop.service.http.endpoints import Endpoints, JsonResponse
from rankloop.service.http.keys_and_limits import AccessMiddleware, RankloopApp
from rankloop.service.http.metrics import Metrics
from rankloop.service.http.problems import EXPECTED_ERRORS, ProblemDocument, problem_of, response_of
from rankloop.service.http.routes.administration import add_administration
from rankloop.service.http.routes.monitoring import add_monitoring
from rankloop.service.http.routes.ranking import add_ranking
from rankloop.service.settings import Settings
from rankloop.service.stores.base import Store
from rankloop.service.stores.open import open_store

PAGE_FOLDER = Path(__file__).parent / "static"


class Addition(Protocol):
    """An addition to a service, such as the demo or the search box, with its own endpoints."""

    async def begin(self, node: Node) -> None:
        """Start; called once the node is ready."""

    def add_endpoints(self, endpoints: Endpoints) -> None:
        """Add the endpoints."""


def make_app(settings: Settings, store: Store | None = None, addition: Addition | None = None) -> FastAPI:
    """Build the application.

    Args:
      settings: The settings of the service.
      store: An open store; the store of the settings unless given.
      addition: The demo or the search box.
    """
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opening = store if store is not None else await asyncio.to_thread(open_store, settings)
        node = app.state.node = Node(opening, settings)
        await node.open()
        metrics.watch(node)
        try:
            if addition is not None:
                await addition.begin(node)
            yield
        finally:
            await node.close()

    app = RankloopApp(title="rankloop", version=__version__, openapi_url=None, lifespan=lifespan)
    app.state.settings, app.state.metrics, app.state.stopping = settings, metrics, False
    endpoints = app.state.endpoints = Endpoints(app, settings)
    app.entry = AccessMiddleware(app.answer, endpoints, metrics, app.state)
    if settings.origins:
        app.entry = CrossOriginAccess(app.entry, check_origins(settings.origins), FEEDBACK_PATHS)
    _add_errors(app)
    add_ranking(endpoints)
    add_administration(endpoints)
    add_monitoring(endpoints)
    _add_pages(endpoints)
    if addition is not None:
        addition.add_endpoints(endpoints)
    return app


def _add_errors(app: FastAPI) -> None:
    """Turn every error into a problem document."""

    async def refused(request: Request, error: Exception) -> Response:
        return response_of(problem_of(error))

    for kind in (*EXPECTED_ERRORS, Exception):
        app.add_exception_handler(kind, refused)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return response_of(ProblemDocument.of(422, "invalid-input", first["msg"], str(first["loc"][-1])))

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "error")
        matches = [route for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = sorted({method for route in matches for method in getattr(route, "methods", None) or ()})
        response = response_of(ProblemDocument.of(error.status_code, kind, str(error.detail)))
        if error.status_code == 405:
            response.headers["Allow"] = ", ".join(methods)
        return response


def _add_pages(endpoints: Endpoints) -> None:
    """Add the live page, the API reference, and the liveness probe."""

    @endpoints.add("GET /openapi.json")
    async def openapi() -> Response:
        return JsonResponse(endpoints.app.openapi())

    @endpoints.add("HEAD /healthz", role="anyone")
    @endpoints.add("GET /healthz", tag="health", role="anyone")
    async def alive() -> Response:
        """Return ok: the process is alive."""
        return JsonResponse({"status": "ok"})

    endpoints.add_file("/", PAGE_FOLDER / "index.html")
    endpoints.add_file("/docs", PAGE_FOLDER / "docs.html", role="admin")
    endpoints.add_file("/rankloop.js", PAGE_FOLDER / "rankloop.js", max_age=3600)
    endpoints.add_files("/page", PAGE_FOLDER)
