"""How much is allowed: states that are too large are refused before they are built, and an operator may allow more."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.cases import SHOP, Location, items, rank, running
from tests.service.shop import NAMED, SCHEMA, products, visit

from rankloop import Ranker, Session, build
from rankloop.cli import main
from rankloop.client import Client, Refused
from rankloop.core.errors import Rejected
from rankloop.core.saved_session import HEADER, dumps, save
from rankloop.core.types import Problem
from rankloop.features.schema import Schema
from rankloop.service.http import workers
from rankloop.service.ranker.config import RankerConfig, config_of
from rankloop.service.ranker.state_size import check_fits, size_of
from rankloop.service.requests import CreateBody, ProblemBody
from rankloop.service.settings import Settings, limits_from

MEGABYTE = 1_000_000
TOO_LARGE: list[dict[str, Any]] = [
    {"learner": {"kind": "auc_policy", "buffer": 10**9}, "problem": {"items": ["a", "b"], "n_context": 2}},
    {"learner": {"kind": "auc_policy", "buffer": 10**12}, "problem": {"items": ["a", "b"], "n_context": 2}},
    {"learner": "linear_thompson", "problem": {"n_features": 10_000}},
    {"learner": {"kind": "standardised", "inner": "linear_thompson"}, "problem": {"n_features": 9_000}},
    {"learner": "top_rank", "problem": {"items": list(range(9_000))}},
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running(Location(tmp_path_factory.mktemp("limits"))) as client:
        yield client


@pytest.mark.parametrize("body", TOO_LARGE, ids=lambda body: json.dumps(body["learner"]))
def test_a_state_that_is_too_large_is_refused(client: httpx.Client, body: dict[str, Any]) -> None:
    answer = client.put("/rankers/large", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == "learner"
    assert client.get("/rankers/large").status_code == 404


def test_others_are_served_while_a_learner_begins(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    kind = type(build("linear_thompson"))
    begin = kind.init

    def slowly(self: Any, problem: Problem) -> Any:
        if not slept:
            slept.append(1.0)
            time.sleep(1.0)
        return begin(self, problem)

    slept: list[float] = []
    monkeypatch.setattr(kind, "init", slowly)
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(client.put, "/rankers/slow", json=SHOP | {"learner": "linear_thompson"})
        time.sleep(0.2)
        begun = time.monotonic()
        assert client.get("/healthz").status_code == 200
        assert time.monotonic() - begun < 0.6
        assert made.result().status_code == 201


def fits(config: RankerConfig, most: int) -> None:
    check_fits(config.body.learner, config.problem, most)


def test_a_file_cannot_demand_what_a_request_cannot(client: httpx.Client) -> None:
    content = io.BytesIO(dumps(Session(build("linear_thompson"), Problem(n_features=2), 0)))
    with zipfile.ZipFile(content) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[HEADER] = parts[HEADER].replace(b'"n_features": 2', b'"n_features": 9000')
    with zipfile.ZipFile(invented := io.BytesIO(), "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    answer = client.put("/rankers/invented/state", content=invented.getvalue())
    assert answer.status_code == 422
    assert "which is the limit for a state" in answer.json()["detail"]


def test_a_learner_that_is_too_large_is_found_out_without_its_memory() -> None:
    config = config_of(CreateBody(learner="linear_thompson", problem=ProblemBody(n_features=8_000)))  # 512 MB
    tracemalloc.start()
    with pytest.raises(Rejected, match="more than 1000000 bytes"):
        fits(config, MEGABYTE)
    assert tracemalloc.get_traced_memory()[1] < 16 * MEGABYTE
    tracemalloc.stop()


def test_the_limit_is_exact_at_full_size() -> None:
    config = config_of(CreateBody(learner="linear_thompson", problem=ProblemBody(n_features=300)))
    size = int(size_of(config.learner.init(config.problem)))
    assert size == 8 * (300 + 300**2 + 300)
    fits(config, size)
    with pytest.raises(Rejected):
        fits(config, size - 1)


@pytest.mark.parametrize(
    "body",
    [
        CreateBody(learner={"kind": "fixed_weights", "weights": [1.0] * 100}, problem=ProblemBody(n_features=100)),
        CreateBody(learner={"kind": "ftpl", "horizon": 10**12}, problem=ProblemBody(items=["a", "b"])),
        CreateBody(learner="3pr", problem=ProblemBody(n_features=10_000)),
    ],
)
def test_what_is_small_passes_whatever_its_numbers(body: CreateBody) -> None:
    fits(config_of(body), MEGABYTE)


def test_a_state_larger_than_a_request_can_come_back(client: httpx.Client, tmp_path: Path) -> None:
    session = Session(build("linear_thompson"), Problem(n_features=520), 0)
    save(session, tmp_path / "wide.rankloop")
    assert (tmp_path / "wide.rankloop").stat().st_size > Settings().max_body
    with Client(str(client.base_url)) as typed:
        assert typed.upload("wide", tmp_path / "wide.rankloop")["state"] == 0
    assert client.post("/rankers/wide/rank", content=bytes(2 * MEGABYTE + 1)).status_code == 413
    for path in ("/rankers/other", "/rankers/other/state"):  # either may bring a file
        assert client.put(path, content=bytes(66 * MEGABYTE + 1)).status_code == 413


def test_limits_are_set_by_the_operator(tmp_path: Path) -> None:
    with running(Location(tmp_path), **limits_from(["items=3", "open=2", "rankers=1", "body=5000"])) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        assert client.put("/rankers/second", json=SHOP).status_code == 409
        assert client.post("/rankers/shop/rank", json={"items": items(4)}).status_code == 413
        for _ in range(3):  # what is open is not limited any more
            rank(client, items=items(3))
        assert client.post("/rankers/shop/rank", content=bytes(5001)).status_code == 413


def test_limits_that_make_no_sense_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("items", "items=", "items=many", "cooks=3", "items=0", "rate=nan", "rate=inf", "items=-1"):
        with pytest.raises(SystemExit) as left:
            main(["serve", "--data", str(tmp_path), "--limit", wrong])
        assert left.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_every_worker_gets_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[Settings, list[str]]] = []
    monkeypatch.setenv("RANKLOOP_STORE", "postgresql://nobody@127.0.0.1:1/nothing")
    monkeypatch.setattr(
        workers, "serve_with_workers", lambda settings, say, arguments: begun.append((settings, arguments))
    )
    limits = ["--limit", "items=5", "--limit", "rate=2.5"]
    with pytest.raises(SystemExit) as left:
        main(["serve", "--data", str(tmp_path), "--workers", "2", *limits])
    assert left.value.code == 0
    ((settings, arguments),) = begun
    assert (settings.max_items, settings.rate) == (5, 2.5)
    assert arguments[-6:] == [*limits, "--limit", "rate=1.25"]  # together they allow what was asked


@pytest.mark.parametrize("given", ["option", "variable"])
def test_limits_are_options_and_a_variable(tmp_path: Path, given: str) -> None:
    wanted = ["items=3", "cooks=2"]  # the second is wrong, and said to be so: both were read
    options = [part for limit in wanted for part in ("--limit", limit)] if given == "option" else []
    variable = {"RANKLOOP_LIMITS": " ".join(wanted)} if given == "variable" else {}
    command = [sys.executable, "-m", "rankloop.cli", "serve", "--port", "0", "--data", str(tmp_path), *options]
    done = subprocess.run(command, env=os.environ | variable, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("rankloop: --limit cooks=2: ")


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
    assert size_of(config.learner.init(config.problem)) >= 16 * 2**20


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


def test_today_s_ranker_is_a_declared_number(client: httpx.Client) -> None:
    """A shadow shows its order; before the first lesson the ranker's own is the same."""
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
