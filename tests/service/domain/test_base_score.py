"""Today's ranker as the base: a declared number, with a weight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.cases import SHOP, Location, running
from tests.service.shop import NAMED, products, visit


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running(Location(tmp_path_factory.mktemp("limits"))) as client:
        yield client


def test_today_s_ranker_is_a_declared_number(client: httpx.Client) -> None:
    """A shadow shows its order; before the first update the ranker's own is the same."""
    body = NAMED | {"base": {"feature": "score"}}
    client.put("/rankers/based", json=body | {"learner": "online_gradient"}).raise_for_status()
    client.put("/rankers/shadow", json=body | {"shadow": True}).raise_for_status()
    client.put("/rankers/mixed", json=body | {"evaluation_share": 1.0, "guard": True}).raise_for_status()
    asked = {"items": list(reversed(products(4)))}
    for name in ("based", "shadow", "mixed"):
        shown = client.post(f"/rankers/{name}/rank", json=asked).json()
        assert shown["ranking"] == ["p0", "p1", "p2", "p3"], name
    for _ in range(3):
        visit(client, "shadow")
        visit(client, "mixed")
    assert visit(client, "shadow")["ranking"] == [f"p{i}" for i in range(6)]
    assert client.get("/rankers/shadow").json()["counts"]["learned"] == 4
    assert client.get("/rankers/mixed").json()["counts"]["evaluated"] == 4


@pytest.mark.parametrize("weight", [0, -1.0, 1e400, "2"])
def test_the_weight_of_the_base_is_above_zero(tmp_path: Path, weight: Any) -> None:
    with running(Location(tmp_path)) as client:
        body = SHOP | {"base": {"feature": "price", "weight": weight}}
        answer = client.put("/rankers/shop", content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500
        assert "Infinity" in answer.request.content.decode() or answer.json()["errors"][0]["field"] == "base.weight"


@pytest.mark.parametrize("weight", [None, 0.5, 5.0])
def test_the_base_begins_with_its_weight(tmp_path: Path, weight: float | None) -> None:
    """1, which is what it was in 0.1, unless it is said; and the report has it only then."""
    base = {"feature": "rating"} | ({} if weight is None else {"weight": weight})
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP | {"base": base}).raise_for_status()
        found = client.get("/rankers/shop").json()
    assert found["weights"] == {"price": 0.0, "rating": weight or 1.0, "age": 0.0}
    assert found["spec"]["base"] == {"feature": "rating", "weights": None} | ({"weight": weight} if weight else {})
