"""The stores that the service is tested on: one suite, both adapters."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.service.cases import Location


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """A real PostgreSQL, started here; every call makes an empty database and gives its address."""
    from tests.service.postgres_servers import postgres_server

    with postgres_server() as server:
        server.run("ALTER SYSTEM SET fsync = off")  # processes are killed here, not machines
        server.run("SELECT pg_reload_conf()")
        yield server.database


@pytest.fixture
def broken_connections_end_here() -> Iterator[None]:
    """What a test broke on purpose is collected with it, and not as somebody's warning later on.

    What outlives it is set aside, so that the next collection walks only what the next test has made.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """Where a service keeps its log."""
    return _place(request, tmp_path)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def module_position(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Location:
    """The same, shared by the tests of a module."""
    return _place(request, tmp_path_factory.mktemp("service"))


def _place(request: pytest.FixtureRequest, folder: Path) -> Location:
    from tests.service.cases import Location

    store = request.getfixturevalue("postgres")() if request.param == "postgres" else ""
    return Location(folder, store)
