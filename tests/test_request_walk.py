"""A request goes through few files, which a stranger can follow: counted by the script that developers use."""

from __future__ import annotations

import pytest

from tools.request_walk import Walk, walks

MAX_FILES = {"rank": 14, "feedback until served": 18}
MAX_CHANGES = {"rank": 35, "feedback until served": 50}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Walk]:
    return {walk.call: walk for walk in walks()}


@pytest.mark.parametrize("call", MAX_FILES)
def test_a_request_enters_few_files(recorded: dict[str, Walk], call: str) -> None:
    walk = recorded[call]
    assert len(walk.files) <= MAX_FILES[call], walk.files
    assert walk.changes <= MAX_CHANGES[call], walk.steps


def test_the_walks_go_through_all_layers(recorded: dict[str, Walk]) -> None:
    """From the socket through keys and the log to the learner worker: nothing is left out of the count."""
    layers = {"service/http", "service/application", "service/domain", "service/log", "service/stores", "core"}
    for walk in recorded.values():
        assert layers <= {file.rpartition("/")[0] for file in walk.files}
        assert {"server", "log", "learn"} <= set(walk.steps)
    learning = recorded["feedback until served"].steps["learn"]
    assert ("service/domain/trainer.py", "learn") in learning
    serving = [function for file, function in recorded["feedback until served"].steps["server"]]
    assert "_check_grant" in serving
