"""Where people click, by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rankloop.core.kernels import scores_of
from rankloop.core.learner import from_layers
from rankloop.service.domain.configuration import config_of
from rankloop.service.domain.counters import Counters
from rankloop.service.domain.health import StateView, clicks_of
from rankloop.service.domain.trainer import logged_query
from rankloop.service.records import FeedbackReceived, Ranked
from rankloop.service.request_bodies import CreateBody, ProblemBody
from tests.service.cases import SHOP, Location, feed, inside, items, learn, rank, report, running
from tests.service.shop import NAMED, visit


def test_before_the_first_click_nothing_is_known() -> None:
    assert clicks_of(Counters()) == {"ctr_first": None, "click_position": None}


def test_clicks_by_position(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP)
        for positions in ([0], [0, 2], [], [1]):
            shown = rank(client)
            clicks = [shown["ranking"][position] for position in positions]
            feed(client, shown["impression"], clicks=clicks, final=True)
        rank(client)  # still open
        found = clicks_of(inside(client).directory.rankers["shop"].projection.counters)
        assert found == {"ctr_first": 2 / 4, "click_position": (1 + 1 + 3 + 2) / 4}
        assert found.keys().isdisjoint(report(client)["health"])  # the report is without them


def test_feedback_of_another_kind_has_no_clicks(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        body = {"learner": "online_gradient", "problem": SHOP["problem"] | {"max_grade": 2}}
        client.put("/rankers/shop", json=body).raise_for_status()
        shown = rank(client)
        grades = dict.fromkeys(shown["ranking"], 1.0)
        assert feed(client, shown["impression"], relevances=grades, final=True).status_code == 200
        counters = inside(client).directory.rankers["shop"].projection.counters
        assert clicks_of(counters) == {"ctr_first": None, "click_position": None}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(Location(tmp_path_factory.mktemp("explained"))) as client:
        client.put("/rankers/shop", json=NAMED).raise_for_status()
        client.put("/rankers/dense", json=SHOP | {"base": {"weights": [1.0, 0.5, 0.25]}}).raise_for_status()
        for _ in range(5):
            visit(client)
        learn(client, 5, "dense")
        yield client


def test_contributions_add_up_to_the_score(client: httpx.Client) -> None:
    shown = client.post("/rankers/shop/rank", json={"items": [{"id": 7, "features": {"price": 3, "score": 2}}]}).json()
    runtime = inside(client).directory.rankers["shop"]
    (logged, *_) = inside(client).store.records_of_impression(runtime.entity, shown["impression"])
    ranked = logged.event
    found = client.get("/rankers/shop/explain", params={"impression": shown["impression"], "id": "7"}).json()
    query = logged_query(ranked, runtime.config)
    table = from_layers(runtime.serving.state, "table")
    columns = [*query.features.columns, runtime.config.schema.n_hashed]
    weights = table.at(np.array(columns))[:, 0].copy()
    assert found["score"] == pytest.approx(scores_of(query.features, weights)[0])
    assert found["score"] == pytest.approx(sum(part["contribution"] for part in found["contributions"]))
    assert {part["name"] for part in found["contributions"]} >= {"brand missing", "sku = 7", "score", "new missing"}
    assert (found["id"], found["position"]) == (7, 0)


def test_without_a_schema_too(client: httpx.Client) -> None:
    shown = rank(client, "dense", items=items())
    found = client.get("/rankers/dense/explain", params={"impression": shown["impression"], "id": "i1"}).json()
    weights = client.get("/rankers/dense").json()["weights"]
    row = dict(zip(["price", "rating", "age"], items()[1]["features"]))
    row["base score"] = row["price"] + 0.5 * row["rating"] + 0.25 * row["age"]
    parts = {part["name"]: part["contribution"] for part in found["contributions"]}
    assert parts == pytest.approx({name: value * weights[name] for name, value in row.items()})
    named = client.get("/rankers/dense/weights").json()["weights"]
    assert {part["name"]: part["weight"] for part in named} == weights


def test_weights_have_names(client: httpx.Client) -> None:
    found = client.get("/rankers/shop/weights").json()
    names = [part["name"] for part in found["weights"]]
    assert {"segment = sport × brand = Acme", "score", "title = red"} <= set(names)
    sizes = [abs(part["weight"]) for part in found["weights"]]
    assert sizes == sorted(sizes, reverse=True)
    assert found["impressions"][0]["ranking"]


def test_what_cannot_be_explained(client: httpx.Client) -> None:
    shown = rank(client, "dense", items=items())
    for impression, id in (("nobody", "i1"), (shown["impression"], "nobody")):
        answer = client.get("/rankers/dense/explain", params={"impression": impression, "id": id})
        assert answer.status_code == 404
    client.put("/rankers/random", json=SHOP | {"learner": "random_order"}).raise_for_status()
    shown = rank(client, "random", items=items())
    answer = client.get("/rankers/random/explain", params={"impression": shown["impression"], "id": "i1"})
    assert (answer.status_code, "no weight per feature" in answer.json()["detail"]) == (422, True)
    assert client.get("/rankers/random/weights").json()["weights"] == []
    nothing = client.get("/rankers/random/explain", params={"impression": "x"})
    assert (nothing.status_code, nothing.json()["errors"][0]["field"]) == (422, "id")


def test_a_change_of_the_click_rate_raises_the_drift_alarm() -> None:
    """A steady rate stays below the alarm; when clicks stop, the recent rate leaves the long-term one behind."""
    counters, config = Counters(), config_of(CreateBody("3pr", ProblemBody(n_features=1)))
    ranked = Ranked("i", ["a"], b"", [0])
    state = config.learner.init(config.problem)

    def see(clicks: list[bool]) -> dict[str, Any]:
        for click in clicks:
            counters.close(ranked, FeedbackReceived("i", "clicks", [0] if click else []), None, None)
        return StateView(config, state).health(counters, 0)

    steady = see([i % 2 == 0 for i in range(2_000)])
    assert (abs(steady["click_rate_z_score"]) < 1, steady["drift_alarm"]) == (True, False)
    stopped = see([False] * 200)
    rate, recent = counters.long_term_click_rate, counters.recent_click_rate
    assert stopped["click_rate_z_score"] == pytest.approx((recent - rate) / math.sqrt(rate * (1 - rate) * 0.01 / 1.99))
    assert stopped["drift_alarm"]
