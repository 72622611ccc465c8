"""Notes that are searched: a box of one's own for tests that teach, one for all that only look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.search.page.server import search_server


@pytest.fixture(scope="session")
def notes_box(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with search_server(tmp_path_factory.mktemp("box")) as address:
        yield address


@pytest.fixture
def fresh(browser: object, tmp_path: Path) -> Iterator[str]:
    """A box that has learned nothing."""
    with search_server(tmp_path) as address:
        yield address
