"""A running demo for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.page.server import page_server


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with page_server(tmp_path_factory.mktemp("demo")) as address:
        yield address
