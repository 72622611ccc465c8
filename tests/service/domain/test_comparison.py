"""Comparisons of rankers with schemas: each side is told the fields that it has, and one field means one thing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.service.cases import Location, running
from tests.service.shop import NAMED, SCHEMA, products, visit

PLAIN = {"features": {"price": "number"}, "bits": 10}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(Location(tmp_path_factory.mktemp("compared"))) as client:
        client.put("/catalogues/c", json={"rows": {f"p{i}": {"price": i, "brand": "Acme"} for i in range(5)}})
        schemas: dict[str, Any] = {
            "wide": {"schema": SCHEMA},
            "narrow": {"schema": PLAIN},
            "other": {"schema": {"features": {"price": "category"}}},
            "turned": {"schema": SCHEMA | {"context": {"segment": "id"}}},
            "wide-c": {"schema": SCHEMA, "catalogue": "c"},
            "narrow-c": {"schema": PLAIN, "catalogue": "c"},
            "dense": {"n_features": 2},
        }
        for name, problem in schemas.items():
            learner = "3pr" if name == "dense" else "click_regression"
            client.put(f"/rankers/{name}", json={"learner": learner, "problem": problem}).raise_for_status()
        visit(client, "wide")
        yield client


def compare(client: httpx.Client, a: str, b: Any) -> httpx.Response:
    other = b if isinstance(b, dict) else {"ranker": b}
    return client.put(f"/experiments/{a}-{b if isinstance(b, str) else 'x'}", json={"a": {"ranker": a}, "b": other})


def test_each_side_is_told_what_it_knows(client: httpx.Client) -> None:
    assert compare(client, "narrow", "wide").status_code == 201
    asked = {"items": products(), "context": {"segment": "sport"}, "excluded": ["p0"]}
    shown = client.post("/experiments/narrow-wide/rank", json=asked, headers={"Idempotency-Key": "k"})
    assert shown.status_code == 200, shown.text
    assert (
        client.post("/experiments/narrow-wide/rank", json=asked, headers={"Idempotency-Key": "k"}).json()
        == shown.json()
    )
    assert sorted(shown.json()["ranking"]) == [f"p{i}" for i in range(1, 6)]
    click = {"impression": shown.json()["impression"], "clicks": shown.json()["ranking"][:1], "final": True}
    assert client.post("/experiments/narrow-wide/feedback", json=click).json()["verdict"] == "closed"
    for wrong, field in (({"colour": 1}, "items"), ({"price": "x"}, "items"), ({"title": 3}, "items")):
        answer = client.post("/experiments/narrow-wide/rank", json={"items": [{"id": 1, "features": wrong}]})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_a_side_may_evolve(client: httpx.Client) -> None:
    compare(client, "narrow", "wide")
    client.patch("/rankers/narrow/schema", json={"features": {"stock": "number"}}).raise_for_status()
    answer = client.post("/experiments/narrow-wide/rank", json={"items": products(stock=3)})
    assert answer.status_code == 200, answer.text


def test_ids_are_enough_where_both_have_the_same_catalogue(client: httpx.Client) -> None:
    assert compare(client, "wide-c", "narrow-c").status_code == 201
    assert client.post("/experiments/wide-c-narrow-c/rank", json={"ids": ["p1", "p2"]}).status_code == 200


@pytest.mark.parametrize(
    ("b", "field"),
    [
        ("other", "b"),
        ("turned", "b"),
        ("dense", "b"),
        ("wide-c", "b"),
        ({"weights": [1.0] * 6}, "b.weights"),
    ],
)
def test_sides_that_do_not_fit(client: httpx.Client, b: Any, field: str) -> None:
    answer = compare(client, "wide", b)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    assert NAMED["problem"]["schema"] is SCHEMA
