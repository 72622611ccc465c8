"""Names survive every step: from a log to a trained ranker, into the service, out of its log and back again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from rankloop import Ranker
from rankloop.cli import main
from rankloop.features import Schema
from rankloop.logs.reader import lists_in
from tests.service.cases import Location, feed, rank, running

SCHEMA = Schema(
    {"price": "number", "brand": "category", "tags": "category", "sku": "id"},
    {"segment": "category"},
    ("segment*brand",),
    bits=12,
)


def ran(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    with pytest.raises(SystemExit) as leaving:
        main([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    assert not leaving.value.code, captured.err
    return dict(json.loads(captured.out))


def upload(client: httpx.Client, name: str, model: str | Path) -> None:
    answer = client.put(f"/rankers/{name}/state", content=Path(model).read_bytes())
    assert answer.status_code in (200, 201), answer.text


def numbers_log(path: Path) -> Path:
    """`stars` are what people like."""
    rng, lines = random.Random(0), ["impression,item,position,click,price,stars"]
    for impression in range(200):
        for position, item in enumerate(rng.sample(range(6), 4)):
            click = int(rng.random() < item / 6 / (1 + position))
            lines.append(f"{impression},{item},{position},{click},{(item * 5) % 7},{item}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_numbers_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Log, train, upload, serve; then the service's own log, twice round."""
    log = numbers_log(tmp_path / "clicks.csv")
    with running(Location(tmp_path / "data")) as client:
        for turn in ("first", "second"):
            model = ran(capsys, "train-clicks", log, "--out", tmp_path / turn, "--regularisation", "1")
            assert model["features"] == ["price", "stars"]
            assert Ranker.load(model["model"]).features == ["price", "stars"]
            upload(client, turn, model["model"])
            weights = {one["name"]: one["weight"] for one in client.get(f"/rankers/{turn}/weights").json()["weights"]}
            assert weights["stars"] > abs(weights["price"])
            rng = random.Random(1)
            for _ in range(60):
                items = [{"id": f"i{i}", "features": {"stars": i, "price": 3}} for i in rng.sample(range(6), 4)]
                shown = rank(client, turn, items=items)
                assert shown["ranking"] == sorted(shown["ranking"], reverse=True)
                feed(client, shown["impression"], turn, clicks=shown["ranking"][:1], final=True)
            unknown = {"items": [{"id": "a", "features": {"star": 1}}]}
            assert "star" in client.post(f"/rankers/{turn}/rank", json=unknown).json()["detail"]
            log = tmp_path / f"{turn}.parquet"
            log.write_bytes(client.get(f"/log/{turn}.parquet").content)
            assert lists_in(log).export.feature_names == ("price", "stars")


def values_log(path: Path) -> Path:
    rng, lines = random.Random(0), ["impression,sku,position,click,purchased,price,brand,tags,segment"]
    for impression in range(150):
        segment = rng.choice(["x", "y"])
        for position, item in enumerate(rng.sample(range(12), 4)):
            brand = "ab"[item % 2]
            click = int(rng.random() < (0.7 if (segment == "x") == (brand == "a") else 0.1) / (1 + position / 2))
            tags = f'"[""t{item % 3}"", ""all""]"'
            lines.append(f"{impression},{item:03},{position},{click},{click},{item * 5},{brand},{tags},{segment}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_values_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same with a schema: it comes back out of the service's log without being named again."""
    log, toml = values_log(tmp_path / "shop.csv"), tmp_path / "shop.toml"
    toml.write_text(SCHEMA.to_toml())
    model = ran(capsys, "train-clicks", log, "--schema", toml, "--out", tmp_path / "one", "--passes", "1")["model"]
    with running(Location(tmp_path / "data")) as client:
        upload(client, "shop", model)
        first = first_item_by_segment(client)
        assert {segment: item[-1] for segment, item in first.items()} == {"x": "a", "y": "b"}
        export = tmp_path / "shop.parquet"
        export.write_bytes(client.get("/log/shop.parquet").content)
        (tmp_path / "same.rankloop").write_bytes(client.get("/rankers/shop/state").content)
    (schema,) = lists_in(export).schemas
    assert {name: kind for name, kind in schema.features.items() if name != "logged_score"} == dict(SCHEMA.features)
    names = pq.ParquetFile(export).schema_arrow.names
    assert {"item.price", "item.brand", "item.tags", "context.segment"} <= set(names)
    shown = lists_in(export).lists(SCHEMA)[0]
    by_id = dict(zip(shown.ids, shown.rows))
    assert by_id["1b"] == {"brand": "b", "price": 5.0, "tags": ["t1", "all"]}
    assert by_id["0a"] == {"brand": "a", "tags": ["t0", "all"]}
    again = ran(capsys, "train-clicks", export, "--out", tmp_path / "two", "--passes", "1")
    assert again["schema"] == schema.to_plain()
    ranker = Ranker.load(again["model"])
    items = {"0a": {"brand": "a"}, "1b": {"brand": "b"}}
    liked = ranker.explain(ranker.rank(items, context={"segment": "x"}), "0a")
    assert "segment = x × brand = a" in [part.name for part in liked.contributions]
    for where in (export, tmp_path / "data"):
        judged = ran(capsys, "evaluate", tmp_path / "same.rankloop", "--log", where, "--estimator", "ips")
        assert judged["estimates"]["current"]["value"] == pytest.approx(1.0)
        assert judged["estimates"]["ranker of same.rankloop"]["n"] == 40


def first_item_by_segment(client: httpx.Client) -> dict[str, str]:
    """Frozen, so that what ranks stays what was trained; the predicted first item is the one shown most often."""
    client.post("/rankers/shop/freeze")
    first: dict[str, list[str]] = {"x": [], "y": []}
    for turn in range(40):
        segment = "xy"[turn % 2]
        items = [
            {"id": "0a", "features": {"brand": "a", "price": None, "tags": ["t0", "all"]}},
            {"id": "1b", "features": {"brand": "b", "price": 5, "tags": ["t1", "all"]}},
        ]
        shown = rank(client, items=items, context={"segment": segment})
        first[segment].append(shown["ranking"][0])
        feed(client, shown["impression"], clicks=shown["ranking"][:1], final=True)
    return {segment: max(set(found), key=found.count) for segment, found in first.items()}


def test_another_schema_is_judged_on_the_same_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log holds what was said, not what one schema made of it."""
    log, out = values_log(tmp_path / "shop.csv"), tmp_path / "out"
    for name, schema in (("shop", SCHEMA), ("plain", Schema({"brand": "category"}, bits=8))):
        (tmp_path / f"{name}.toml").write_text(schema.to_toml())
        ran(capsys, "train-clicks", log, "--schema", tmp_path / f"{name}.toml", "--out", out / name, "--passes", "1")
    with running(Location(tmp_path / "data")) as client:
        upload(client, "shop", out / "shop" / "model.rankloop")
        first_item_by_segment(client)
        (tmp_path / "shop.parquet").write_bytes(client.get("/log/shop.parquet").content)
    for where in (tmp_path / "shop.parquet", tmp_path / "data"):
        judged = ran(capsys, "evaluate", out / "plain" / "model.rankloop", "--log", where)
        assert judged["n_rows"] == 40
    stars = Ranker("click_regression", features={"brand": "category", "stars": "number"})
    stars.save(tmp_path / "stars.rankloop")
    numbers = Ranker("fair_pairs", features=["price"])
    numbers.save(tmp_path / "numbers.rankloop")
    for where in (tmp_path / "shop.parquet", tmp_path / "data"):
        for model, message in (("stars", "learned from stars, which"), ("numbers", "learned from plain numbers; ")):
            with pytest.raises(SystemExit):
                main(["evaluate", str(tmp_path / f"{model}.rankloop"), "--log", str(where)])
            assert message in capsys.readouterr().err


def test_what_evolved_and_what_a_catalogue_knew_is_exported(tmp_path: Path) -> None:
    problem = {"schema": {"features": {"brand": "category"}}, "catalogue": "goods"}
    with running(Location(tmp_path)) as client:
        rows = {"a": {"brand": "acme", "stars": 3}, "b": {"brand": "bolt"}}
        assert client.put("/catalogues/goods", json={"rows": rows}).status_code < 300
        created = client.put("/rankers/shop", json={"learner": "click_regression", "problem": problem})
        assert created.status_code == 201, created.text
        for turn in range(2):
            shown = client.post("/rankers/shop/rank", json={"ids": ["a", "b"]}).json()
            feed(client, shown["impression"], clicks=["a"], final=True)
            if turn == 0:
                evolved = client.patch("/rankers/shop/schema", json={"features": {"stars": "number"}})
                assert evolved.status_code == 200, evolved.text
        export = tmp_path / "shop.parquet"
        export.write_bytes(client.get("/log/shop.parquet").content)
        lines = client.get("/log/shop.jsonl").text.splitlines()
    log = lists_in(export)
    assert [schema.version for schema in log.schemas] == [1, 2]
    first, second = log.lists(log.schemas[-1])
    assert dict(zip(second.ids, second.rows)) == {"a": {"brand": "acme", "stars": 3.0}, "b": {"brand": "bolt"}}
    assert dict(zip(first.ids, first.rows))["b"] == {"brand": "bolt"}
    ranked = [event for event in map(json.loads, lines) if event["kind"] == "ranked"]
    assert [event["rows"][0] for event in ranked] == [{"brand": "acme"}, {"brand": "acme", "stars": 3}]
    assert all("features" not in event for event in ranked)
