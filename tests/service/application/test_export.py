"""The exported log says what the learner ranked and learned: propensities, features and feedback fit together."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

from rankloop import load
from rankloop.evaluation.off_policy.estimators import Options
from rankloop.evaluation.off_policy.evaluate import evaluate_on_impressions
from rankloop.logs.impressions import read_impressions, read_shown_lists
from rankloop.service.records import Ranked
from tests.service.cases import NAMES, SHOP, Location, feed, rank, running

PDGD: dict[str, Any] = {"learner": "pdgd", "problem": {"feature_names": NAMES}}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one pin": (PDGD, {"pinned": ["i1"]}),
    "two pins and an exclusion": (PDGD, {"pinned": ["i1", "i0"], "excluded": ["i2"]}),
    "an exclusion": (PDGD, {"excluded": ["i2"]}),
    "a base by its weights": (PDGD | {"base": {"weights": [1, 0, 0]}}, {}),
    "both": (PDGD | {"base": {"weights": [1, 0, 0]}}, {"pinned": ["i1"]}),
}


def exported(client: httpx.Client, name: str = "shop") -> list[dict[str, Any]]:
    rows = pq.read_table(io.BytesIO(client.get(f"/log/{name}.parquet").content)).to_pylist()
    return [dict(row) for row in rows]


@pytest.mark.parametrize("case", CASES)
def test_a_ranker_judged_by_its_own_export_earns_what_it_earned(case: str, tmp_path: Path) -> None:
    """With the state that drew the rankings every weight is 1, so the estimate is the plain mean."""
    body, more = CASES[case]
    rng = np.random.default_rng(0)
    with running(Location(tmp_path)) as client:
        assert client.put("/rankers/shop", json=body).status_code == 201
        client.post("/rankers/shop/freeze")
        for turn in range(20):
            given = [{"id": f"i{i}", "features": rng.random(3).tolist()} for i in range(5)]
            shown = rank(client, items=given, **more)
            feed(client, shown["impression"], clicks=[shown["ranking"][turn % 4]], final=True)
        (tmp_path / "log.parquet").write_bytes(client.get("/log/shop.parquet").content)
        (tmp_path / "same.rankloop").write_bytes(client.get("/rankers/shop/state").content)
        pins = [row["pinned"] for row in exported(client)]
    log = list(read_impressions(tmp_path / "log.parquet"))
    judged = evaluate_on_impressions(load(tmp_path / "same.rankloop"), log, "same", "ips", Options()).estimates
    rewards = [shown.reward() for shown in log]
    assert judged["same"].value == pytest.approx(np.mean(rewards))
    assert judged["same"].overlap.mean_weight == pytest.approx(1.0)
    assert pins == [more.get("pinned", [])] * 20


def test_the_export_has_the_feedback_that_counted(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP)
        shown = rank(client)
        feed(client, shown["impression"], clicks={"i0": 5})
        feed(client, shown["impression"], clicks={"i0": 1, "i2": 2}, final=True)
        client.put("/rankers/orders", json=SHOP | {"learner": "preference_perceptron"})
        shown = rank(client, "orders")
        better = [shown["ranking"][i] for i in (1, 0, 2, 3)]
        feed(client, shown["impression"], "orders", preferred=shown["ranking"][::-1])
        feed(client, shown["impression"], "orders", preferred=better, final=True)
        ads = {"learner": "auc_policy", "problem": {"items": ["x", "y"], "n_context": 1}}
        assert client.put("/rankers/ads", json=ads).status_code == 201
        slot = rank(client, "ads", items=[], context=[1.0])
        feed(client, slot["impression"], "ads", reward=0.25)
        feed(client, slot["impression"], "ads", reward=0.75, final=True)
        silent = rank(client, "ads", items=[], context=[1.0])
        feed(client, silent["impression"], "ads", clicks=[], final=True)
        (row,) = exported(client)
        assert (row["feedback"], dict(zip(row["items"], row["values"]))) == ("clicks", {"i0": 5.0, "i2": 2.0})
        (row,) = exported(client, "orders")
        assert (row["feedback"], row["items"]) == ("preferred", better)
        row = exported(client, "ads")[0]
        assert (row["feedback"], row["items"], row["values"]) == ("reward", slot["ranking"][:1], [0.75])


def test_users_and_sessions_are_in_the_table_of_a_ranker_with_a_schema(tmp_path: Path) -> None:
    """And in the lines of every ranker; the table of plain numbers has them where it is asked for."""
    schema = {"features": {"price": "number", "brand": "category"}}
    named = [{"id": f"i{i}", "features": {"price": i, "brand": "acme"}} for i in range(3)]
    with running(Location(tmp_path)) as client:
        client.put("/rankers/named", json={"learner": "fair_pairs", "problem": {"schema": schema}}).raise_for_status()
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        for who in ({"user": "anne", "session": "s1"}, {}):
            shown = rank(client, "named", items=named, **who)
            feed(client, shown["impression"], "named", clicks=shown["ranking"][:1], final=True)
            feed(client, rank(client, **who)["impression"], clicks=[], final=True)
        assert [(row["user"], row["session"]) for row in exported(client, "named")] == [("anne", "s1"), (None, None)]
        assert {"user", "session"}.isdisjoint(exported(client)[0])
        for name in ("named", "shop"):
            first, *_ = [line for line in client.get(f"/log/{name}.jsonl").text.splitlines() if "anne" in line]
            assert '"user":"anne"' in first
        (row, *_) = pq.read_table(io.BytesIO(client.get("/log/shop.parquet?who=true").content)).to_pylist()
        assert (row["user"], row["session"], row["tags"]) == ("anne", "s1", None)
        for field in ("user", "session"):
            answer = client.post("/rankers/shop/rank", json={"items": [], field: "x" * 257})
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"] == field


def test_tags_are_in_the_log_and_in_the_exports(location: Location) -> None:
    schema = {"features": {"price": "number"}}
    named = [{"id": f"i{i}", "features": {"price": i}} for i in range(3)]
    tags = {"page": "home", "variante": "b\u00e4"}
    with running(location) as client:
        client.put("/rankers/named", json={"learner": "fair_pairs", "problem": {"schema": schema}}).raise_for_status()
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        for name, given in (("named", {"items": named}), ("shop", {})):
            for more in ({"tags": tags}, {}):
                shown = rank(client, name, **given, **more)
                feed(client, shown["impression"], name, clicks=shown["ranking"][:1], final=True)
        content = client.get("/log/named.parquet").content
        assert [row["tags"] for row in pq.read_table(io.BytesIO(content)).to_pylist()] == [list(tags.items()), None]
        assert "tags" not in exported(client)[0]
        lines = client.get("/log/shop.jsonl").text.splitlines()
        assert [json.loads(line).get("tags") for line in lines if '"ranked"' in line] == [tags, None]
        (location.data / "named.parquet").write_bytes(content)
        assert len(list(read_shown_lists(location.data / "named.parquet"))) == 2  # our own reader takes it
        for wrong in ({"": "x"}, {"x" * 65: "x"}, {"x": "x" * 257}, {str(i): "" for i in range(17)}, {"x": 1}, ["x"]):
            answer = client.post("/rankers/shop/rank", json={"items": [], "tags": wrong})
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"].startswith("tags")
    ranked = [record.event for record in location.records() if isinstance(record.event, Ranked)]
    assert [event.tags for event in ranked] == [tags, {}] * 2
