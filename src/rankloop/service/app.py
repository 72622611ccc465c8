"""The HTTP application: every call of the service, its OpenAPI, its errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from rankloop import __version__
from rankloop.core.errors import RankloopError
from rankloop.service.calls import add_experiments, add_rankers
from rankloop.service.gate import Gate
from rankloop.service.hot_calls import add_hot_calls
from rankloop.service.metrics import Metrics
from rankloop.service.problems import problem, problem_of, response_of
from rankloop.service.reading import json
from rankloop.service.reference import reference_page
from rankloop.service.schemas import describe
from rankloop.service.service import Service
from rankloop.service.settings import Settings
from rankloop.service.stores.opening import open_store
from rankloop.service.stores.port import Store
from rankloop.service.watching import add_watching

PAGE = Path(__file__).parent / "page"
logger = logging.getLogger("rankloop.service")


def make_app(settings: Settings, opened: Callable[[Service], Any] | None = None, store: Store | None = None) -> FastAPI:
    """The application, on a store that is open already or on that of the settings; `opened` is awaited when ready."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = Service(store if store is not None else await asyncio.to_thread(open_store, settings), settings)
        await service.open()
        metrics.watch(service)
        app.state.service = service
        try:
            if opened is not None:
                await opened(service)
            yield
        finally:
            await service.close()

    app = FastAPI(title="rankloop", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.settings = settings
    app.state.stopping = False
    app.add_middleware(Gate, settings=settings, metrics=metrics)
    add_errors(app)
    add_hot_calls(app)
    describe(app)
    add_rankers(app)
    add_experiments(app)
    add_watching(app, metrics)
    add_pages(app)
    return app


def add_errors(app: FastAPI) -> None:
    """Every error is a problem document."""

    async def refused(request: Request, error: Exception) -> Response:
        return response_of(problem_of(error))

    for kind in (RankloopError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        app.add_exception_handler(kind, refused)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "error")
        return response_of(problem(error.status_code, kind, str(error.detail)))

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        logger.error("unforeseen", exc_info=error)
        return response_of(problem_of(error))


def add_pages(app: FastAPI) -> None:
    """The page, where it is installed, and the reference."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(reference_page(app.openapi()))

    @app.get("/healthz", tags=["health"])
    async def alive() -> Response:
        """Whether the process answers."""
        return json({"status": "ok"})

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        index = PAGE / "index.html"
        return FileResponse(index) if index.exists() else RedirectResponse("/docs")

    if PAGE.is_dir():
        app.mount("/page", StaticFiles(directory=PAGE), name="page")
