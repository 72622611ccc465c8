"""What a ranker is told to be, by a request or a file, and how its schema changes while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from rankloop import Ranker, Session, build
from rankloop.client import Client, Refused
from rankloop.core.errors import Rejected
from rankloop.core.saved_session import dumps, save
from rankloop.core.types import Problem
from rankloop.features.schema import Schema
from rankloop.service.domain.configuration import RankerConfig, config_of
from rankloop.service.request_bodies import BaseBody, CreateBody, ProblemBody, SchemaBody
from tests.service.cases import Location, report, running
from tests.service.shop import NAMED, SCHEMA, products, visit


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running(Location(tmp_path_factory.mktemp("limits"))) as client:
        yield client


WRONG_SCHEMAS: list[tuple[dict[str, Any], str]] = [
    ({"problem": {"schema": {"features": {"price": "nothing"}}}}, "problem.schema.features"),
    ({"problem": {"schema": {"features": {}}}}, "problem.schema"),
    ({"problem": {"schema": {"features": ["price"]}}}, "problem.schema.features"),
    ({"problem": {"schema": {"features": {"a": "number"}, "crosses": ["a*b"]}}}, "problem.schema.crosses"),
    ({"problem": {"schema": {"features": {"a": "number"}, "bits": 60}}}, "problem.schema.bits"),
    ({"problem": {"schema": {"features": {"a": "number"}, "bits": 24}}}, "problem.schema.bits"),  # larger than allowed
    ({"problem": {"schema": {"features": {"a": "number"}, "context": {"b": "id"}}}}, "problem.schema"),
    ({"problem": {"schema": {"featurs": {"a": "number"}}}}, "problem.schema"),
    ({"problem": {"schema": SCHEMA, "n_features": 3}}, "problem.n_features"),
    ({"problem": {"schema": SCHEMA, "feature_names": ["a"]}}, "problem.feature_names"),
    ({"problem": {"schema": SCHEMA, "n_context": 2}}, "problem.n_context"),
    ({"problem": {"schema": SCHEMA, "context": {"columns": [], "values": [], "means": []}}}, "problem.context"),
    ({"problem": {"schema": SCHEMA, "shown": 0}}, "problem.shown"),
    ({"learner": "linear_thompson"}, "learner"),
    ({"learner": "kernel_perceptron"}, "learner"),
    ({"learner": {"kind": "online_gradient", "radius": 2.0}}, "learner"),
    ({"learner": {"kind": "hashed", "inner": "fair_pairs", "start": [1.0, 2.0]}}, "learner"),
    ({"base": {"weights": [1.0]}}, "base.weights"),
    ({"base": {"feature": "price"}}, "base.feature"),
    ({"base": {"feature": "brand"}}, "base.feature"),
    ({"base": {"feature": "nobody"}}, "base.feature"),
    ({"base": {"feature": 0}}, "base.feature"),
    ({"shadow": True}, "shadow"),
]


@pytest.mark.parametrize(("change", "field"), WRONG_SCHEMAS)
def test_a_schema_that_makes_no_sense_is_told_with_its_part(
    client: httpx.Client, change: dict[str, Any], field: str
) -> None:
    answer = client.put("/rankers/new", json=NAMED | change)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field, answer.text
    assert client.get("/rankers/new").status_code == 404


def test_a_schema_is_kept_in_its_normal_form() -> None:
    """However it is written, and whatever the defaults of the table become later."""
    written = {
        "features": {"price": {"kind": "number"}},
        "context": {"segment": "category"},
        "crosses": ["segment * price"],
    }
    config = config_of(CreateBody(learner="fair_pairs", problem=ProblemBody(schema=written)))
    short = {
        "features": {"price": "number"},
        "context": {"segment": "category"},
        "crosses": ["segment*price"],
        "bits": 20,
    }
    assert config.body.problem.schema == short
    assert isinstance(config.body.learner, dict)
    assert (config.body.learner["kind"], config.body.learner["rate"]) == ("hashed", 0.3)
    assert config_of(config.body).body == config.body
    assert config.problem.n_hashed == 2**20


def test_a_context_that_would_be_ignored_is_refused_for_new_rankers_only(client: httpx.Client) -> None:
    ignored: dict[str, Any] = {"learner": "3pr", "problem": {"n_features": 2, "n_context": 1}}
    answer = client.put("/rankers/deaf", json=ignored)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "problem.n_context")
    assert "crosses" in answer.json()["detail"]
    body = CreateBody(learner="3pr", problem=ProblemBody(n_features=2, n_context=1))
    assert config_of(body).problem.n_context == 1  # one that is in a log goes on
    old = Session(build("3pr"), Problem(2, n_context=1))
    assert client.put("/rankers/old/state", content=dumps(old)).status_code == 201
    assert client.post("/rankers/old/clone", json={"name": "copy"}).status_code == 201


def test_a_ranker_with_a_schema_travels_as_a_file(client: httpx.Client, tmp_path: Path) -> None:
    """From `Ranker.save` to the service, on there, and back: names and weights survive every step."""
    ranker = Ranker("click_regression", features=Schema.from_plain(SCHEMA), shown=4)
    row = {"price": 3, "brand": "Acme", "score": 1.0}
    shown = ranker.rank({"a": row, "b": {"brand": "Bolt"}}, context={"segment": "sport"}, at=0.0)
    ranker.learn(shown, clicks=["b"])
    ranker.evolve(features={"stock": {"kind": "number", "scale": "log"}})
    ranker.save(tmp_path / "shop.rankloop")
    with Client(str(client.base_url)) as typed:
        assert typed.upload("travelled", tmp_path / "shop.rankloop")["schema"]["version"] == 2
        assert typed.upload("travelled", tmp_path / "shop.rankloop")["state"] == 0
        visit(client, "travelled", items=products(stock=3))
        typed.download("travelled", tmp_path / "back.rankloop")
        with pytest.raises(Refused, match="no ranker 'nobody'"):
            typed.download("nobody", tmp_path / "none.rankloop")
    back = Ranker.load(tmp_path / "back.rankloop")
    assert back.schema == ranker.schema
    assert back.session.learned == 1
    assert back.rank({"a": row | {"stock": 2}}).ids == ["a"]


def test_a_file_whose_schema_is_missing_is_refused(client: httpx.Client, tmp_path: Path) -> None:
    ranker = Ranker("click_regression", features=Schema.from_plain(SCHEMA))
    for notes in ({}, {"schemas": []}, {"schemas": [{"features": {"a": "id"}, "bits": 10}]}, {"schemas": 3}):
        save(ranker.session, tmp_path / "bare.rankloop", notes)
        with Client(str(client.base_url)) as typed, pytest.raises(Refused, match="422 invalid input: state"):
            typed.upload("bare", tmp_path / "bare.rankloop")


def config(base: BaseBody | None = None) -> RankerConfig:
    return config_of(CreateBody(learner="click_regression", problem=ProblemBody(schema=SCHEMA), base=base))


def test_the_same_change_again_is_none() -> None:
    body = SchemaBody(features={"stock": "number"}, crosses=["segment * title"], remove=["new", "segment*brand"])
    first = config().next_schema(body)
    assert first is not None
    assert (first.version, "stock" in first.features, "new" in first.features) == (2, True, False)
    assert set(first.crosses) == {"segment*title"}
    assert config().with_schemas([first]).next_schema(body) is None


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
        config(BaseBody(feature="score")).next_schema(SchemaBody(**change))
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
        assert (report(client)["counts"]["learned"], report(client)["counts"]["rejected"]) == (3, 0)
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
