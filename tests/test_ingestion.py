"""Pages that others have shown, in a running service: in their order, once, learned from, and equal in a replay."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from rankloop import Ranker
from rankloop.cli.main import main
from rankloop.client import Client
from rankloop.ingestion import ingest
from rankloop.logs.reader import lists_in
from rankloop.logs.schema_guess import guessed_schema
from rankloop.service.application.rebuild import replay_records
from rankloop.service.domain.trainer import digest
from rankloop.service.records import Ranked
from tests.service.cases import Location, inside, rank, report, running

FIELDS = ["session", "query", "position", "sku", "price", "rating", "clicked"]


def written(path: Path, n_pages: int = 25) -> list[list[str]]:
    """Pages of four in the order of their price; people click what is rated above a half."""
    rng, orders = np.random.default_rng(4), []
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(FIELDS)
        for page in range(n_pages):
            prices, ratings = np.sort(rng.random(4)), rng.random(4)
            orders.append([f"p{page}-{i}" for i in range(4)])
            for i in range(4):
                rows.writerow(
                    [f"s{page}", "shoes", i + 1, f"p{page}-{i}", prices[i], ratings[i], int(ratings[i] > 0.5)]
                )
    return orders


@pytest.mark.parametrize("by_schema", [False, True])
def test_pages_are_taken_in_once_and_learned_from(tmp_path: Path, by_schema: bool) -> None:
    orders, location = written(tmp_path / "log.csv"), Location(tmp_path / "data")
    problem: dict[str, Any] = {"feature_names": ["price", "rating"]}
    if by_schema:
        problem = {"schema": {"features": {"price": "number", "rating": "number"}, "bits": 10}}
    with running(location) as client, Client(str(client.base_url)) as ours:
        ours.create("shop", learner="fair_pairs", problem=problem)
        first = ingest(ours, "shop", tmp_path / "log.csv")
        assert (first.pages, first.accepted, first.repeated) == (25, 25, 0)
        state = report(client)["state"]
        again = ingest(ours, "shop", tmp_path / "log.csv")
        assert (again.accepted, again.repeated, again.clicks) == (0, 25, first.clicks)
        assert report(client)["state"] == state > 0
        counts = report(client)["counts"]
        assert (counts["impressions"], counts["learned"], counts["with_feedback"]) == (25, 25, 25)
        learned = digest(inside(client).directory.rankers["shop"].serving.state)
        if not by_schema:
            assert report(client)["weights"]["rating"] > 0
    shown = [record.event for record in location.records() if isinstance(record.event, Ranked)]
    assert [[str(one.ids[i]) for i in one.order] for one in shown] == orders
    assert all(one.ingested and one.log_propensity is None and one.session for one in shown)
    (replay,) = replay_records(iter(location.records()))
    assert (replay.learned, replay.digest) == (25, learned)


def test_the_command_says_what_became_of_the_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "log.csv", 3)
    with running(Location(tmp_path / "data")) as client:
        address = str(client.base_url)
        client.put("/rankers/shop", json={"learner": "3pr", "problem": {"feature_names": ["price", "rating"]}})
        with pytest.raises(SystemExit, match="0"):
            main(["ingest", str(tmp_path / "log.csv"), "--ranker", "shop", "--to", address])
        said = capsys.readouterr()
        assert "3 accepted, 0 repeated" in said.out
        assert "item is sku" in said.err
        with pytest.raises(SystemExit, match=r"[12]"):
            main(["ingest", str(tmp_path / "log.csv"), "--ranker", "none", "--to", address])
        assert "there is no ranker 'none'" in capsys.readouterr().err


def test_an_order_that_is_none_is_refused(tmp_path: Path) -> None:
    with running(Location(tmp_path / "data")) as client:
        client.put("/rankers/shop", json={"learner": "3pr", "problem": {"feature_names": ["price"]}})
        items = [{"id": id, "features": [1.0]} for id in "abc"]
        for more in ({"order": ["a", "b"]}, {"order": ["a", "b", "b"]}, {"order": ["a", "b", "c"], "pinned": ["a"]}):
            answer: httpx.Response = client.post("/rankers/shop/rank", json={"items": items} | more)
            assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "order")
        assert report(client)["counts"]["impressions"] == 0
        assert rank(client, items=items, order=["c", "a", "b"])["ranking"] == ["c", "a", "b"]


def test_a_user_of_ingested_pages_is_exported_and_erased(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guessed schema has no field for users, the pages keep them, and one command erases each."""
    path, location = tmp_path / "log.csv", Location(tmp_path / "data")
    written(path)
    lines = path.read_text().splitlines()
    lines = [f"user,{lines[0]}", *(f"u{number // 8},{line}" for number, line in enumerate(lines[1:]))]
    path.write_text("\n".join(lines) + "\n")
    schema = guessed_schema(lists_in(path)).schema
    assert "user" not in {**schema.features, **schema.context}
    with running(location) as client, Client(str(client.base_url)) as ours:
        ours.create("shop", learner="fair_pairs", problem={"feature_names": ["price", "rating"]})
        ingest(ours, "shop", path)
        monkeypatch.setenv("RANKLOOP_KEY", "")
        address = ["--to", str(client.base_url)]
        for command in (["export", "u3"], ["erase", "u3", "--relearn"], ["erase", "u5", "--json"], ["export", "u5"]):
            with pytest.raises(SystemExit) as leaving:
                main(["user", *command, *address])
            assert not leaving.value.code
        printed = capsys.readouterr().out
        assert "2 impressions of u3 erased (user: 2)" in printed
        assert report(client)["counts"]["learned"] == 23  # of u5 the weights stay
        users = {record.event.user for record in location.records() if isinstance(record.event, Ranked)}
    assert users == {f"u{i}" for i in range(13)} - {"u3", "u5"}
    assert b"u3" not in b"".join(file.read_bytes() for file in location.data.rglob("*") if file.is_file())
    assert not replay_records(location.records())[0].differing


def test_outcomes_of_a_log_are_sent_and_learned(tmp_path: Path) -> None:
    rows = {"list": [1, 1, 2, 2], "item": ["a", "b", "b", "a"], "position": [1, 2, 1, 2], "click": [0, 1, 1, 1]}
    table = pyarrow.table(
        rows | {"price": [9.0, 5.0, 5.0, 9.0], "bought": [0, 1, 0, 1], "revenue": [0.0, 5.0, 0.0, 9.0]}
    )
    parquet.write_table(table, tmp_path / "log.parquet")
    outcomes = {"purchase": {"weight": 20}, "revenue": {"weight": 1}}
    local = Ranker("click_regression", features=["price"], outcomes=outcomes)
    assert local.ingest(tmp_path / "log.parquet") == 2
    plain = Ranker("click_regression", features=["price"])
    plain.ingest(tmp_path / "log.parquet")
    assert local.weights != plain.weights
    with running(Location(tmp_path / "data")) as client, Client(str(client.base_url)) as ours:
        ours.create("shop", learner="click_regression", problem={"feature_names": ["price"]}, outcomes=outcomes)
        for _ in range(2):
            ingest(ours, "shop", tmp_path / "log.parquet")
        totals = {name: counts["total"] for name, counts in report(client)["outcomes"].items()}
        assert totals == {"purchase": 2.0, "revenue": 14.0}
        # A user is erased with the outcomes.
        for user, item in (("u1", "a"), ("u2", "b")):
            shown = ours.rank("shop", {"a": {"price": 1.0}, "b": {"price": 2.0}}, user=user)
            ours.feedback("shop", shown, clicks=[item], final=True)
            ours.feedback("shop", shown, outcomes={"purchase": {item: 1}})
        client.delete("/users/u1?relearn=true").raise_for_status()
        assert report(client)["outcomes"]["purchase"]["total"] == 3.0
        served = report(client)["state"]
    (result,) = replay_records(Location(tmp_path / "data").records())
    assert (result.state, result.differing) == (served, ())
