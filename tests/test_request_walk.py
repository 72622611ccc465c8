"""A request walks through few files, which a stranger can follow: counted by the script that developers use."""

from __future__ import annotations

import asyncio

import pytest

from tools.request_walk import Walk, walks

MAX_FILES = 14
HTTP = "service/http/middleware.py"


@pytest.fixture(scope="module")
def walked() -> dict[str, Walk]:
    return {walk.call: walk for walk in asyncio.run(walks())}


@pytest.mark.parametrize("call", ["rank", "feedback", "lesson"])
def test_a_request_enters_few_files(walked: dict[str, Walk], call: str) -> None:
    assert len(walked[call].files) <= MAX_FILES, walked[call].files


def test_the_walks_are_those_of_the_design_page(walked: dict[str, Walk]) -> None:
    """They go where the pictures say; on a busy machine the thread of the log comes in between."""
    for call in ("rank", "feedback"):
        assert {HTTP, "service/log/stores/sqlite.py"} <= set(walked[call].files)
    assert "core/learner.py" in walked["lesson"].files
