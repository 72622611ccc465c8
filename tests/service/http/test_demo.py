"""simulated users use the playground by the calls that anybody uses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from rankloop.service.http.demo import Demo
from tests.service.page.server import page_server


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """A caller of what `rankloop serve --demo` serves."""
    with page_server(tmp_path) as address, httpx.Client(base_url=address) as client:
        yield client


def test_they_come_one_after_the_other_and_are_counted(client: httpx.Client) -> None:
    begun = client.post("/demo/users", json={"users": 40})
    assert begun.status_code == 202
    assert begun.json() == {"users": 40, "done": 0, "running": True, "problem": ""}
    assert client.post("/demo/users", json={"users": 1}).status_code == 409
    seen = [0]
    while (progress := client.get("/demo/users").json())["running"]:
        seen.append(progress["done"])
        time.sleep(0.01)
    assert seen == sorted(seen)
    assert progress == {"users": 40, "done": 40, "running": False, "problem": ""}
    counts = client.get("/rankers/playground").json()["counts"]
    assert (counts["impressions"], counts["with_feedback"], counts["learned"]) == (32, 32, 32)
    assert client.get("/experiments/learned-or-boldest").json()["impressions"] == 8


@pytest.mark.parametrize("users", [0, -1, 10_001])
def test_too_many_or_too_few(client: httpx.Client, users: int) -> None:
    refused = client.post("/demo/users", json={"users": users})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "users"
    assert client.get("/demo/users").json()["running"] is False


def test_a_second_start_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    learned = []
    for _ in range(2):
        with page_server(tmp_path) as address, httpx.Client(base_url=address) as client:
            client.post("/demo/users", json={"users": 5})
            while client.get("/demo/users").json()["running"]:
                time.sleep(0.01)
            learned.append(client.get("/rankers/playground").json()["counts"]["learned"])
    assert learned == [4, 8]


def test_without_the_demo_there_are_no_users(tmp_path: Path) -> None:
    with page_server(tmp_path, demo=False) as address, httpx.Client(base_url=address) as client:
        assert client.get("/demo/users").status_code == 404
        assert client.get("/rankers").json() == {"rankers": []}


def test_users_like_the_warm_round_and_quiet_prints() -> None:
    shelf = Demo().shelf
    liked = [entry.features for entry, grade in zip(shelf.prints, shelf.relevance) if grade]
    assert len(liked) == 2
    assert (np.array(liked)[:, :3] * [1, 1, -1] > 0).all()
