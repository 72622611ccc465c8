"""Today's ranker as the base: a declared number, with a weight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from rankloop.client import Client
from rankloop.service.application.rebuild import replay_records
from rankloop.service.domain.counters import LOST_TO_BASE
from tests.service.cases import SHOP, Location, feed, inside, items, learn, rank, report, running, until
from tests.service.shop import NAMED, SCHEMA, products, visit


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


@pytest.mark.parametrize("weight", [-0.1, -1.0, 1e400, "2"])
def test_the_weight_of_the_base_is_a_number_from_zero(tmp_path: Path, weight: Any) -> None:
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


GIVEN: dict[str, Any] = {"kind": "given_order"}
BY_NAME = {"learner": "click_regression", "problem": {"schema": SCHEMA | {"context": {}, "crosses": []}, "shown": 4}}


@pytest.mark.parametrize("body", [SHOP, BY_NAME])
def test_the_order_of_the_request_is_the_base(tmp_path: Path, body: dict[str, Any]) -> None:
    """The first state shows it, a shadow keeps it, clicks change it, and a replay agrees."""
    location, named = Location(tmp_path), "schema" in body["problem"]
    rows = list(reversed(products(4) if named else items()))
    order, base = [row["id"] for row in rows], GIVEN | {"weight": 0.1}
    with running(location) as client:
        client.put("/rankers/shop", json=body | {"base": base, "evaluation_share": 0.5, "guard": True})
        client.put("/rankers/shadow", json=body | {"base": base, "shadow": True}).raise_for_status()
        request = {"items": rows}
        for name in ("shop", "shadow"):
            client.put(f"/experiments/{name}", json={"a": {"ranker": name}, "b": GIVEN}).raise_for_status()
            shown = client.post(f"/experiments/{name}/rank", json=request).json()
            assert shown["ranking"] == order  # both variants show it
        for _ in range(30):
            for name in ("shop", "shadow"):
                shown = rank(client, name, items=rows)
                assert name == "shop" or shown["ranking"] == order
                click = {"impression": shown["impression"], "clicks": [order[-1]], "final": True}
                client.post(f"/rankers/{name}/feedback", json=click).raise_for_status()
        predicted = client.post("/experiments/shadow/rank", json=request).json()["ranking"]
        assert predicted != order  # it has learned that the last is clicked
        assert report(client)["counts"]["evaluated"] > 0
    assert [result.differing for result in replay_records(location.records())] == [(), ()]


def test_a_base_of_weight_zero_is_only_compared_with(tmp_path: Path) -> None:
    """No feature is added, so the report has the weights of the ranker alone; weights of the base order the shadow."""
    with running(Location(tmp_path)) as client:
        for name, base in (("given", GIVEN), ("weighted", {"weights": [0.0, 0.0, 1.0]}), ("named", {"feature": "age"})):
            body = SHOP | {"base": base | {"weight": 0}, "shadow": True}
            client.put(f"/rankers/{name}", json=body).raise_for_status()
            assert report(client, name)["weights"] == dict.fromkeys(["price", "rating", "age"], 0.0)
            ranking = rank(client, name)["ranking"]
            assert ranking == ([f"i{i}" for i in range(4)] if name == "given" else ["i3", "i2", "i1", "i0"])


def test_an_uploaded_model_takes_the_settings_of_a_new_ranker(tmp_path: Path) -> None:
    """When it loses to the order of the request, that order is shown until an operator resumes."""
    with running(Location(tmp_path)) as service, Client(str(service.base_url)) as client:
        service.put("/rankers/first", json=BY_NAME)
        for _ in range(10):
            visit(service, "first", context={})
        client.download("first", tmp_path / "model.rankloop")
        settings = {"base": GIVEN, "guard": True, "evaluation_share": 1e-9, "window": 60.0, "problem": {"shown": 3}}
        assert client.upload("shop", tmp_path / "model.rankloop", **settings)["spec"]["guard"] is True
        spec = client.upload("shop", tmp_path / "model.rankloop", **settings)["spec"]
        assert (spec["base"]["kind"], spec["base"]["weight"], spec["window"], spec["problem"]["shown"]) == (
            "given_order",
            0.0,
            60.0,
            3,
        )
        address = "/rankers/curl/state?base.kind=given_order&guard=true&evaluation_share=1e-9&window=60&problem.shown=3"
        file = (tmp_path / "model.rankloop").read_bytes()
        sent = service.put(address, content=file, headers={"Content-Type": "application/octet-stream"})
        assert sent.json()["spec"] == spec
        order = [row["id"] for row in products()]
        runtime = inside(service).directory.ranker("shop")
        shown = rank(service, items=products())
        assert shown["ranking"] != order
        inside(service).learning.worker.consumers["ranker/shop"].projection.now.counters.losses = 16
        feed(service, shown["impression"], clicks=[], final=True)
        until(lambda: runtime.projection.frozen)
        assert report(service)["reason"] == LOST_TO_BASE
        fallback = [visit(service, context={}) for _ in range(8)]
        assert all(shown["ranking"] == order and shown["log_propensity"] is None for shown in fallback)
        service.post("/rankers/shop/resume").raise_for_status()
        assert rank(service, items=products())["ranking"] == shown["ranking"]


def test_a_model_keeps_the_score_of_its_base_over_a_download(tmp_path: Path) -> None:
    base = {"weights": [0.0, 0.0, 1.0], "weight": 2.0}
    with running(Location(tmp_path)) as service, Client(str(service.base_url)) as client:
        service.put("/rankers/shop", json=SHOP | {"base": base}).raise_for_status()
        learn(service, 6)
        client.download("shop", tmp_path / "model.rankloop")
        client.upload("copy", tmp_path / "model.rankloop", base=base, shadow=True)
        assert report(service, "copy")["weights"] == report(service)["weights"]
        assert rank(service, "copy")["ranking"] == ["i3", "i2", "i1", "i0"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("learner=3pr", "learner"),
        ("problem.n_features=3", "problem.n_features"),
        ("problem=3", "problem"),
        ("guards=true", "settings"),
        ("guard=perhaps", "settings"),
        ("guard=true", "guard"),
        ("base.kind=given_order&base.weight=1", "base.weight"),
    ],
)
def test_settings_that_do_not_fit_the_file_are_refused(client: httpx.Client, query: str, field: str) -> None:
    client.put("/rankers/saved", json=SHOP)
    file = client.get("/rankers/saved/state").content
    media = {"Content-Type": "application/octet-stream"}
    answer = client.put(f"/rankers/refused/state?{query}", content=file, headers=media)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_a_ranker_that_shows_the_given_order_is_a_side_against_any_items(client: httpx.Client) -> None:
    client.put("/rankers/today", json={"learner": "given_order", "problem": {"n_features": 0}}).raise_for_status()
    client.put("/rankers/with-schema", json=NAMED).raise_for_status()
    variants = {"a": {"ranker": "with-schema"}, "b": {"ranker": "today"}}
    client.put("/experiments/against-today", json=variants).raise_for_status()
    shown = client.post("/experiments/against-today/rank", json={"items": products()}).json()
    assert sorted(shown["ranking"]) == [f"p{i}" for i in range(6)]
