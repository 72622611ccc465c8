"""Careful: base, shadow, evaluation, guard, pins, freeze, rollback and clone; experiments that teach nobody."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pyarrow.parquet as pq
import pytest

from rankloop import load
from rankloop.core.errors import Conflict, InvalidInput, NotFound, Rejected
from rankloop.service.application.node import LocalService
from rankloop.service.application.rebuild import replay_records
from rankloop.service.domain.trainer import digest
from rankloop.service.request_bodies import BaseBody, CreateBody, Item, ProblemBody, RankBody
from rankloop.service.settings import Settings
from tests.service.cases import NAMES, SHOP, Location, feed, inside, items, learn, rank, report, running, until

BASE = SHOP | {"base": {"feature": "rating"}}
BY_RATING = ["i3", "i2", "i1", "i0"]
RATED = [{"id": f"i{i}", "features": {"rating": i / 4, "price": (i * 3) % 4 / 4}} for i in range(4)]


@pytest.fixture(scope="module")
def client(module_position: Location) -> Iterator[httpx.Client]:
    with running(module_position) as client:
        assert client.put("/rankers/shop", json=SHOP | {"snapshot_every": 5}).status_code == 201
        yield client


def _made(client: httpx.Client, name: str, **change: Any) -> str:
    response = client.put(f"/rankers/{name}", json=SHOP | change)
    assert response.status_code == 201, response.text
    return name


def test_a_base_is_where_a_ranker_begins(client: httpx.Client) -> None:
    quiet = {"kind": "3pr", "swap": 0.0}
    name = _made(client, "based", learner=quiet, base={"feature": "rating"})
    assert rank(client, name, items=RATED)["ranking"] == BY_RATING
    assert report(client, name)["weights"] == {"rating": 1.0, "price": 0.0, "age": 0.0}
    weighted = _made(client, "weighted", learner=quiet, base={"weights": [0.0, -2.0, 0.0]})
    assert rank(client, weighted, items=RATED)["ranking"] == BY_RATING[::-1]
    assert report(client, weighted)["weights"]["base score"] == 1.0


MODELLED = SHOP | {"base": {"feature": "rating", "model": "trees-1"}}


def test_the_model_behind_the_base_score_is_in_the_log(location: Location) -> None:
    """What a request names, else what the ranker began with; the score itself is logged, so the replay holds."""
    with running(location) as client:
        assert client.put("/rankers/shop", json=MODELLED).status_code == 201
        for model in ({}, {"base_model": "trees-2"}, {"base_model": "trees-2"}):
            shown = rank(client, **model)
            assert feed(client, shown["impression"], clicks=[shown["ranking"][1]], final=True).status_code == 200
        rows = pq.read_table(io.BytesIO(client.get("/log/shop.parquet").content)).to_pylist()
        lines = [json.loads(line) for line in client.get("/log/shop.jsonl").text.splitlines()]
        state, learned = report(client)["state"], digest(inside(client).directory.rankers["shop"].serving.state)
    assert [row["base_model"] for row in rows] == ["trees-1", "trees-2", "trees-2"]
    assert [line["base_model"] for line in lines if line["kind"] == "ranked"] == ["trees-1", "trees-2", "trees-2"]
    (replay,) = replay_records(iter(location.records()))
    assert (replay.learned, replay.digest) == (3, learned)
    with running(location) as client:
        assert report(client)["state"] == state == 3


def test_a_key_belongs_to_the_score_of_one_model(client: httpx.Client) -> None:
    name, key = _made(client, "keyed", base=MODELLED["base"]), {"Idempotency-Key": "once"}
    bodies = [{"items": items()} | more for more in ({}, {"base_model": "trees-1"}, {"base_model": "trees-2"})]
    answers = [client.post(f"/rankers/{name}/rank", json=body, headers=key) for body in bodies]
    assert [answer.status_code for answer in answers] == [200, 200, 409]
    assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize(
    ("base", "model", "field"),
    [
        ({"feature": "rating"}, "trees-2", "base_model"),
        ({"feature": "rating", "model": "trees-1"}, "", "base_model"),
        ({"feature": "rating", "model": "trees-1"}, "x" * 300, "base_model"),
        ({"feature": "rating", "model": "a\nb"}, None, "base.model"),
        ({"weights": [1, 0, 0], "model": "trees-1"}, None, "base.model"),
    ],
)
def test_a_model_that_cannot_be_named_is_refused(client: httpx.Client, base: Any, model: Any, field: str) -> None:
    answer = client.put("/rankers/modelled", json=SHOP | {"base": base})
    if model is not None:
        answer = client.post("/rankers/modelled/rank", json={"items": items(), "base_model": model})
        client.delete("/rankers/modelled")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_a_ranker_without_a_model_exports_as_before(client: httpx.Client) -> None:
    name = _made(client, "plain", base={"feature": "rating"})
    shown = rank(client, name)
    feed(client, shown["impression"], name, clicks=[], final=True)
    table = pq.read_table(io.BytesIO(client.get(f"/log/{name}.parquet").content))
    assert "base_model" not in table.column_names


def test_a_shadow_learns_but_shows_the_base_order(client: httpx.Client) -> None:
    name = _made(client, "shadow", base={"feature": "rating"}, shadow=True)
    for _ in range(6):
        shown = rank(client, name, items=RATED)
        assert (shown["ranking"], shown["log_propensity"]) == (BY_RATING, 0.0)
        assert feed(client, shown["impression"], name, clicks=["i0"], final=True).status_code == 200
    assert report(client, name)["counts"]["learned"] == 6
    assert report(client, name)["weights"]["price"] != 0.0


def test_evaluation_traffic_teaches_nobody(client: httpx.Client) -> None:
    name = _made(client, "judged", base={"feature": "rating"}, evaluation_share=1.0)
    for _ in range(5):
        shown = rank(client, name, items=RATED)
        assert shown["log_propensity"] is None
        feed(client, shown["impression"], name, clicks=shown["ranking"][:1], final=True)
    after = report(client, name)
    assert (after["counts"]["learned"], after["counts"]["evaluated"]) == (0, 5)
    assert sum(after["comparison"][key] for key in ("wins", "ties", "losses")) == 5


def _gone_back(service: Any) -> bool:
    """Whether the state is that of the newest snapshot at which the base did not lead."""
    runtime, course = service.directory.ranker("shop"), service.learning.worker.consumers["ranker/shop"]
    state = course.trainer.find_state(runtime.projection.last_good_state)
    return digest(runtime.serving.state) == digest(course.trainer.first if state is None else state)


def test_a_guard_goes_back_when_the_comparison_is_lost(location: Location) -> None:
    body = BASE | {"evaluation_share": 0.5, "guard": True, "snapshot_every": 5, "learner": {"kind": "3pr", "swap": 0.1}}
    with running(location) as client:
        client.put("/rankers/shop", json=body)
        runtime = inside(client).directory.ranker("shop")
        for _ in range(400):
            shown = rank(client, items=RATED)
            (logged,) = inside(client).store.records_of_impression("ranker/shop", shown["impression"])
            comparing = logged.event.mixed is not None
            # those who teach it mislead it, those who judge it like what the base puts first
            clicked = "i3" if comparing else "i0"
            feed(client, shown["impression"], clicks=[clicked], final=True)
            if runtime.projection.frozen:
                break
        assert runtime.projection.frozen
        assert "lost" in report(client)["reason"]
        until(lambda: _gone_back(inside(client)))
        learned = report(client)["counts"]["learned"]
        learn(client, 3)
        assert report(client)["counts"]["learned"] == learned
    (result,) = replay_records(location.records())
    assert result.differing == ()


def test_pins_and_exclusions_keep_propensities_right_or_null(client: httpx.Client) -> None:
    pinned = rank(client, pinned=["i3", "i1"])
    assert pinned["ranking"][:2] == ["i3", "i1"]
    assert pinned["log_propensity"] is not None  # of the two that were ranked, all of which are seen
    excluded = rank(client, excluded=["i0"])
    assert sorted(excluded["ranking"]) == ["i1", "i2", "i3"]
    assert excluded["log_propensity"] is not None
    name = _made(client, "narrow", problem={"feature_names": NAMES, "shown": 2})
    shown = rank(client, name, pinned=["i3"])
    assert shown["log_propensity"] is None
    assert feed(client, shown["impression"], name, clicks=["i3"], final=True).status_code == 200
    assert report(client, name)["counts"]["learned"] == 0
    fixed = _made(client, "fixed", learner={"kind": "top_rank"}, problem={"items": ["a", "b", "c"], "shown": 2})
    assert sorted(rank(client, fixed, items=[])["ranking"]) == ["a", "b", "c"]
    hidden = rank(client, fixed, items=[], excluded=["b"])
    assert (sorted(hidden["ranking"]), hidden["log_propensity"]) == (["a", "c"], None)


def test_the_propensity_is_that_of_what_was_ranked(client: httpx.Client) -> None:
    from math import exp

    name = _made(client, "uniform", learner={"kind": "pdgd"})
    assert exp(rank(client, name)["log_propensity"]) == pytest.approx(1 / (4 * 3 * 2))
    assert exp(rank(client, name, pinned=["i1"])["log_propensity"]) == pytest.approx(1 / (3 * 2))
    assert exp(rank(client, name, excluded=["i1", "i2"])["log_propensity"]) == pytest.approx(1 / 2)


def test_a_frozen_ranker_ranks_and_does_not_learn(client: httpx.Client) -> None:
    name = _made(client, "frozen")
    assert client.post(f"/rankers/{name}/freeze", json={"reason": "sale"}).json() == {"frozen": True}
    learn(client, 3, name)
    assert report(client, name)["counts"]["learned"] == 0
    assert report(client, name)["reason"] == "sale"
    client.post(f"/rankers/{name}/resume")
    learn(client, 3, name)
    assert report(client, name)["counts"]["learned"] == 3


def test_a_rollback_restores_the_state_but_not_the_generator(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 5})
        learn(client, 5)
        until(lambda: client.get("/rankers/shop/snapshots").json()["snapshots"][1:])
        runtime = inside(client).directory.ranker("shop")
        then, drawn = digest(runtime.serving.state), runtime.projection.generator_state
        learn(client, 4)
        later = runtime.projection.generator_state
        answer = client.post("/rankers/shop/rollback", json={"state": 5}).json()
        assert answer == {"rolled_back_to": 5, "state": 10}
        assert digest(runtime.serving.state) == then
        rank(client)
        report(client)
        assert runtime.projection.generator_state not in (drawn, later)
        learn(client, 3)
        client.post("/rankers/shop/rollback", json={"state": 0})
        learn(client, 2)
        state = digest(runtime.serving.state)
    with running(location) as client:
        assert digest(inside(client).directory.ranker("shop").serving.state) == state
    (result,) = replay_records(location.records())
    assert (result.digest, result.differing) == (state, ())


def test_a_clone_begins_with_the_state_of_the_other(client: httpx.Client) -> None:
    learn(client, 3)
    assert client.post("/rankers/shop/clone", json={"name": "copy"}).status_code == 201
    assert report(client, "copy")["weights"] == report(client)["weights"]
    assert report(client, "copy")["counts"]["learned"] == 0
    assert client.post("/rankers/shop/clone", json={"name": "copy"}).status_code == 409


def test_the_exported_state_opens_as_a_session(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "shop.rankloop").write_bytes(client.get("/rankers/shop/state").content)
    session = load(tmp_path / "shop.rankloop")
    assert digest(session.state) == digest(inside(client).directory.ranker("shop").serving.state)


def test_an_experiment_counts_who_wins(client: httpx.Client) -> None:
    body = {"a": {"weights": [0, 1, 0]}, "b": {"ranker": "shop"}}
    assert client.put("/experiments/duel", json=body).status_code == 201
    assert client.put("/experiments/duel", json=body).status_code == 200
    assert client.put("/experiments/duel", json=body | {"seed": 1}).status_code == 409
    before = report(client)["counts"]["learned"]
    for _ in range(20):
        shown = client.post("/experiments/duel/rank", json={"items": RATED}).json()
        clicked = {"impression": shown["impression"], "clicks": ["i3"], "final": True}
        assert client.post("/experiments/duel/feedback", json=clicked).status_code == 200
    after = client.get("/experiments/duel").json()
    assert after["wins"] + after["ties"] + after["losses"] == 20
    assert after["wins"] > after["losses"]
    assert report(client)["counts"]["learned"] == before


def test_an_experiment_throws_new_coins_after_a_restart(location: Location) -> None:
    variants = {"a": {"weights": [0, 1, 0]}, "b": {"ranker": "shop"}}
    firsts: list[str] = []
    for part in range(2):
        with running(location) as http:
            if part == 0:
                http.put("/rankers/shop", json=SHOP)
                assert http.put("/experiments/duel", json=variants).status_code == 201
            for _ in range(20):
                firsts.append(http.post("/experiments/duel/rank", json={"items": RATED}).json()["ranking"][0])
    assert set(firsts) == {"i3", "i0"}
    assert firsts[:20] != firsts[20:]  # equal by chance: once in a million


def test_many_at_once_each_with_its_own_verdict(client: httpx.Client) -> None:
    bodies = [{"items": items()}, {"items": []}, {"items": items(2)}]
    shown, wrong, other = client.post("/rankers/shop/rank:batch", json={"requests": bodies}).json()["results"]
    assert (len(shown["ranking"]), wrong["status"], len(other["ranking"])) == (4, 422, 2)
    given = [{"impression": shown["impression"], "clicks": [], "final": True}, {"impression": "x", "clicks": []}]
    first, second = client.post("/rankers/shop/feedback:batch", json={"feedback": given}).json()["results"]
    assert (first["verdict"], second["status"]) == ("closed", 404)


def test_the_log_can_be_read_by_other_tools(client: httpx.Client) -> None:
    name = _made(client, "logged")
    learn(client, 4, name)
    rank(client, name)
    table = pq.read_table(io.BytesIO(client.get(f"/log/{name}.parquet").content)).to_pylist()
    assert [row["items"] for row in table] == [[row["ranking"][1]] for row in table]
    assert len(table) == 4
    assert all(row["log_propensity"] is not None for row in table)
    lines = client.get(f"/log/{name}.jsonl").text.splitlines()
    assert len(lines) == 1 + 5 + 4


def test_the_stream_of_events_says_what_the_ranker_says(client: httpx.Client) -> None:
    import json

    with client.stream("GET", "/events") as response:
        line = next(line for line in response.iter_lines() if line.startswith("data: "))
    told = {entry["name"]: entry for entry in json.loads(line[6:])["rankers"]}
    assert told["shop"] == report(client)
    assert client.get("/rankers").json()["rankers"] == [told[name] for name in sorted(told)]


BODY = CreateBody(SHOP["learner"], ProblemBody(feature_names=SHOP["problem"]["feature_names"]), seed=3)


def threads() -> int:
    return sum(thread.name == "service" for thread in threading.enumerate())


def test_calls_give_what_they_give_and_raise_what_they_raise(tmp_path: Path) -> None:
    local = LocalService(Settings(data=tmp_path))
    assert local.call(local.node.administration.create("shop", BODY))
    with pytest.raises(NotFound, match="nobody"):
        local.call(local.node.administration.saved("nobody"))
    assert not local.call(local.node.administration.create("shop", BODY))
    local.close()
    local.close()
    again = LocalService(Settings(data=tmp_path))
    assert list(again.node.directory.rankers) == ["shop"]
    again.close()


def test_a_ranker_without_a_base_is_not_compared(tmp_path: Path) -> None:
    body = RankBody([Item(f"i{i}", [float(i), 0.0, 0.0]) for i in range(3)])
    local = LocalService(Settings(data=tmp_path))
    local.call(local.node.administration.create("shop", BODY))
    with pytest.raises(Rejected, match="no base"):
        local.call(local.node.ranking.rank("shop", body, compared=True))
    based = msgspec.structs.replace(BODY, base=BaseBody(feature="price"))
    local.call(local.node.administration.create("based", based))
    local.call(local.node.ranking.rank("based", body, compared=True))
    local.call(local.node.ranking.rank("based", body))
    mixed = [
        record.event.mixed is not None
        for record in local.node.store.read("ranker/based")
        if hasattr(record.event, "mixed")
    ]
    assert mixed == [True, False]
    local.close()


def test_after_the_end_a_call_is_refused(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    before = threads()
    local = LocalService(Settings(data=tmp_path))
    local.close()
    with pytest.raises(InvalidInput, match="closed"):
        local.call(asyncio.sleep(0))
    assert threads() == before
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]


def test_a_folder_in_use_leaves_nothing_behind(tmp_path: Path) -> None:
    local = LocalService(Settings(data=tmp_path))
    before = threads()
    with pytest.raises(Conflict, match="in use"):
        LocalService(Settings(data=tmp_path))
    assert threads() == before
    local.close()
