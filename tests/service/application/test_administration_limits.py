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

from rankloop import Session, build
from rankloop.cli import main
from rankloop.client import Client
from rankloop.core.saved_session import HEADER_NAME, dumps, save, size_of, starts_within
from rankloop.core.types import Problem
from rankloop.service.domain.configuration import RankerConfig, config_of
from rankloop.service.http import workers
from rankloop.service.request_bodies import CreateBody, ProblemBody
from rankloop.service.settings import Settings, limits_from
from tests.service.cases import SHOP, Location, items, rank, running

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


def fits(config: RankerConfig, most: int) -> bool:
    return starts_within(config.body.learner, config.problem, most)


def test_a_file_cannot_demand_what_a_request_cannot(client: httpx.Client) -> None:
    content = io.BytesIO(dumps(Session(build("linear_thompson"), Problem(n_features=2), 0)))
    with zipfile.ZipFile(content) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[HEADER_NAME] = parts[HEADER_NAME].replace(b'"n_features": 2', b'"n_features": 9000')
    with zipfile.ZipFile(invented := io.BytesIO(), "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    answer = client.put("/rankers/invented/state", content=invented.getvalue())
    assert answer.status_code == 422
    assert "larger sizes than its arrays" in answer.json()["detail"]


def test_a_file_with_a_large_table_is_refused(tmp_path: Path) -> None:
    content = dumps(Session(build("given_order"), Problem(2**13, n_hashed=2**13)))
    with running(Location(tmp_path), **limits_from(["state=100000"])) as client:
        answer = client.put("/rankers/large/state", content=content)
        assert answer.status_code == 422
        assert "8192 hashed columns, the limit is 6250" in answer.json()["detail"]


def test_a_learner_that_is_too_large_is_found_out_without_its_memory() -> None:
    config = config_of(CreateBody(learner="linear_thompson", problem=ProblemBody(n_features=8_000)))  # 512 MB
    tracemalloc.start()
    assert not fits(config, MEGABYTE)
    assert tracemalloc.get_traced_memory()[1] < 16 * MEGABYTE
    tracemalloc.stop()


def test_the_limit_is_exact_at_full_size() -> None:
    config = config_of(CreateBody(learner="linear_thompson", problem=ProblemBody(n_features=300)))
    size = int(size_of(build("linear_thompson").init(config.problem)))
    assert size == 8 * (300 + 300**2 + 300)
    assert fits(config, size)
    assert not fits(config, size - 1)


@pytest.mark.parametrize(
    "body",
    [
        CreateBody(learner={"kind": "fixed_weights", "weights": [1.0] * 100}, problem=ProblemBody(n_features=100)),
        CreateBody(learner={"kind": "ftpl", "horizon": 10**12}, problem=ProblemBody(items=["a", "b"])),
        CreateBody(learner="3pr", problem=ProblemBody(n_features=10_000)),
    ],
)
def test_what_is_small_passes_whatever_its_numbers(body: CreateBody) -> None:
    assert fits(config_of(body), MEGABYTE)


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
    with running(Location(tmp_path), **limits_from(["items=3", "rankers=1", "body=5000"])) as client:
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
        workers, "_serve_with_workers", lambda settings, say, arguments: begun.append((settings, arguments))
    )
    limits = ["--limit", "items=5", "--limit", "rate=2.5"]
    with pytest.raises(SystemExit) as left:
        main(["serve", "--data", str(tmp_path), "--workers", "2", *limits])
    assert left.value.code == 0
    ((settings, arguments),) = begun
    assert (settings.max_items, settings.rate) == (5, 2.5)
    assert arguments[-4:] == limits
    assert workers.share_of(settings).rate == 1.25  # together they allow what was asked


@pytest.mark.parametrize("given", ["option", "variable"])
def test_limits_are_options_and_a_variable(tmp_path: Path, given: str) -> None:
    wanted = ["items=3", "cooks=2"]  # the second is wrong, and said to be so: both were read
    options = [part for limit in wanted for part in ("--limit", limit)] if given == "option" else []
    variable = {"RANKLOOP_LIMITS": " ".join(wanted)} if given == "variable" else {}
    command = [sys.executable, "-m", "rankloop", "serve", "--port", "0", "--data", str(tmp_path), *options]
    done = subprocess.run(command, env=os.environ | variable, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("rankloop: --limit cooks=2: ")
