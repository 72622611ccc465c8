"""A live schema: what is added can be used at once, the same again changes nothing, what is wrong is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.service.cases import Location, report, running
from tests.service.shop import NAMED, SCHEMA, products, visit

from rankloop.core.errors import Rejected
from rankloop.features.schema import Schema
from rankloop.service.ranker.config import RankerConfig, config_of, next_schema
from rankloop.service.requests import BaseBody, CreateBody, ProblemBody, SchemaBody


def config(base: BaseBody | None = None) -> RankerConfig:
    return config_of(CreateBody(learner="click_regression", problem=ProblemBody(schema=SCHEMA), base=base))


def test_the_same_change_again_is_none() -> None:
    body = SchemaBody(features={"stock": "number"}, crosses=["segment * title"], remove=["new", "segment*brand"])
    first = next_schema(config(), body)
    assert first is not None
    assert (first.version, "stock" in first.features, "new" in first.features) == (2, True, False)
    assert set(first.crosses) == {"segment*title"}
    assert next_schema(config().with_schemas([first]), body) is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"features": {"stock": "nothing"}}, "features"),
        ({"features": {"price": "words"}}, "schema"),
        ({"context": {"mood": "category"}}, "schema"),
        ({"crosses": ["segment*nobody"]}, "crosses"),
        ({"remove": ["nobody"]}, "schema"),
        ({"remove": ["segment*nobody"]}, "schema"),
        ({"remove": ["score"]}, "remove"),
    ],
)
def test_a_change_that_makes_no_sense(change: dict[str, Any], field: str) -> None:
    with pytest.raises(Rejected) as refused:
        next_schema(config(BaseBody(feature="score")), SchemaBody(**change))
    assert refused.value.field == field, refused.value.reason


def test_a_field_is_used_as_soon_as_it_is_there(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=NAMED).raise_for_status()
        visit(client)
        new = products(stock=3)
        assert client.post("/rankers/shop/rank", json={"items": new}).status_code == 422
        before = client.post("/rankers/shop/rank", json={"items": products()}).json()
        change = {"features": {"stock": {"kind": "number", "scale": "log"}}, "remove": ["new"]}
        answer = client.patch("/rankers/shop/schema", json=change)
        assert (answer.status_code, answer.json()["schema"]["version"], answer.json()["state"]) == (200, 2, 2)
        assert client.patch("/rankers/shop/schema", json=change).json()["state"] == 2
        assert client.put("/rankers/shop", json=NAMED).status_code == 200
        assert client.post("/rankers/shop/rank", json={"items": products()}).status_code == 422
        for item in new:
            del item["features"]["new"]
        visit(client, items=new)
        late = {"impression": before["impression"], "clicks": before["ranking"][:1], "final": True}
        assert client.post("/rankers/shop/feedback", json=late).json()["verdict"] == "closed"
        assert (report(client)["counts"]["learned"], report(client)["counts"]["unfit"]) == (3, 0)
        assert client.post("/rankers/shop/clone", json={"name": "two"}).json()["schema"]["version"] == 2
        visit(client, "two", items=new)


def test_only_a_schema_can_evolve(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/dense", json={"learner": "3pr", "problem": {"n_features": 2}}).raise_for_status()
        answer = client.patch("/rankers/dense/schema", json={"features": {"stock": "number"}})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "schema")


def test_a_schema_from_a_file_goes_on() -> None:
    evolved = Schema.from_plain(SCHEMA).evolved(features={"stock": "number"})
    known = config_of(CreateBody(learner="fair_pairs", problem=ProblemBody(schema=evolved.to_plain())))
    assert known.schema is not None
    assert (known.schema.version, list(known.encoders)) == (2, [2])
