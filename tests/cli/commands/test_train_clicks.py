"""`train-clicks --guess-schema`, then `--schema`, then `evaluate --log`: names all the way, outcomes nowhere."""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from rankloop import Ranker
from rankloop.cli import main
from rankloop.features import Schema
from tests.service.cases import Location, running
from tests.service.shop import NAMED, products, visit

COLUMNS = "impression,query,sku,position,click,purchased,price,brand,title,segment,propensity"


def write_log(path: Path, n_lists: int = 150, seed: int = 0) -> Path:
    rng, lines = random.Random(seed), [COLUMNS]
    products = [(f"{i:04}", 5 * i, "abc"[i % 3], f"{['red', 'blue'][i % 2]} {['hat', 'sock'][i % 4 // 2]} {i}")
                for i in range(24)]  # fmt: skip
    for impression in range(n_lists):
        query, segment = rng.choice(["red hat", "blue sock"]), rng.choice(["x", "y"])
        for position, (sku, price, brand, title) in enumerate(rng.sample(products, 4)):
            good = sum(word in title for word in query.split()) / 3 + (0.3 if (segment == "x") == (brand == "a") else 0)
            click = int(rng.random() < good / (1 + position / 2))
            cells = [impression, query, sku, position + 1, click, int(click and rng.random() < 0.4)]
            cells += ["" if price % 7 == 1 else price, brand, title, segment, 1 / math.perm(4, 4)]
            lines.append(",".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n")
    return path


def ran(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[str, str]:
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert not leaving.value.code, captured.err
    return captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    assert leaving.value.code == 2
    return capsys.readouterr().err


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with a log and the schema that it suggests."""
    write_log(tmp_path / "shop.csv")
    ran(capsys, "train-clicks", tmp_path / "shop.csv", "--guess-schema", tmp_path / "shop.toml")
    return tmp_path


def test_a_guess_is_written_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, to = write_log(tmp_path / "shop.csv"), tmp_path / "shop.toml"
    text, _ = ran(capsys, "train-clicks", log, "--guess-schema", to)
    assert "an outcome: named like an outcome" in text
    assert "crosses: query*brand, query*title, query*sku, segment*brand" in text
    assert f"rankloop train-clicks {log} --schema {to}" in text.replace(" -m ", " ")
    schema = Schema.from_toml(to)
    kinds = {"sku": "id", "price": "number", "brand": "category", "title": "words"}
    assert schema.to_plain()["features"] == kinds
    answer = json.loads(ran(capsys, "train-clicks", log, "--guess-schema", to, "--json", "--without", "title")[0])
    assert (answer["outcomes"], answer["columns"]["item"]) == ({"purchased": "named like an outcome"}, "sku")
    assert "title" not in answer["schema"]["features"]


def test_training_keeps_the_names_and_beats_the_log(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = "train-clicks", shop / "shop.csv", "--schema", shop / "shop.toml", "--out", shop / "out", "--passes", "2"
    answer = json.loads(ran(capsys, *given, "--json")[0])
    assert answer["held_out"][f"{answer['passes']:g}"] > answer["logged"]
    assert (answer["lists"], answer["notes"]) == (150, [])
    ranker = Ranker.load(answer["model"])
    assert ranker.features == ["sku", "price", "brand", "title"]
    items = {"0001": {"price": 5, "brand": "b", "title": "blue sock 1"}, "new": {"title": "red hat"}}
    shown = ranker.rank(items, context={"query": "red hat"})
    assert any(part.name.startswith("query = red × title = red") for part in ranker.explain(shown, "new").contributions)
    text, notes = ran(capsys, *given)
    assert "150 lists; features: sku, price, brand, title; context: query, segment" in text
    assert "as logged" in text
    assert notes == ""


def test_a_parquet_log_teaches_the_same(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = pyarrow.csv.ConvertOptions(column_types={"sku": "string"})
    pq.write_table(pyarrow.csv.read_csv(shop / "shop.csv", convert_options=texts), shop / "shop.parquet")
    given = "--schema", shop / "shop.toml", "--out", shop / "out", "--passes", "1", "--json"
    answers = [json.loads(ran(capsys, "train-clicks", shop / name, *given)[0]) for name in ("shop.csv", "shop.parquet")]
    assert answers[0] == answers[1]


def test_an_outcome_in_the_schema_is_noted(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "leaky.toml").write_text('[features]\nbrand = "category"\npurchased = "flag"\n')
    given = "train-clicks", shop / "shop.csv", "--schema", shop / "leaky.toml", "--out", shop / "out", "--passes", "1"
    _, notes = ran(capsys, *given)
    assert notes.startswith("note: purchased (named like an outcome) looks like an outcome, which is not known when")
    assert json.loads(ran(capsys, *given, "--json")[0])["notes"]
    assert ran(capsys, *given, "--feature", "purchased")[1] == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learner", "fair_pairs"], "fair_pairs learns from its own exploration"),
        (["--loss", "list_net", "--solver", "online"], "--loss is for --solver batch"),
        (["--loss", "list_net", "--passes", "2"], "--passes is for --solver online"),
        (["--without", "prise"], "the schema has no such field; did you mean 'price'?"),
        (["--column", "time=when"], "no column 'when'"),
        (["--position-bias", "1,x"], "write them separated by commas"),
    ],
)
def test_what_is_wrong_is_one_line(
    shop: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    given = "train-clicks", shop / "shop.csv", "--schema", shop / "shop.toml", "--out", shop / "out"
    assert message in refused(capsys, *given, *arguments)


def test_mixed_columns_are_trained_without_options(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The guessed schema is that of --guess-schema, and the result is that of --schema with it."""
    given = "train-clicks", shop / "shop.csv", "--out", shop / "out", "--json"
    by_file = json.loads(ran(capsys, *given, "--schema", shop / "shop.toml")[0])
    answer, notes = ran(capsys, *given)
    assert json.loads(answer) == by_file
    assert notes.startswith("note: the schema was guessed: sku (id), price (number), brand (category), title (words)")
    assert "outcomes, so not features: purchased" in notes
    fields = ["sku", "price", "title"]
    for options in (["--learner", "click_regression"], ["--passes", "2"], ["--loss", "ordinal"]):
        answer = json.loads(ran(capsys, *given, "--without", "brand", *options)[0])
        assert list(answer["schema"]["features"]) == fields
    assert "there is no file" in refused(capsys, "train-clicks", shop / "shop.csv", "--schema", shop / "no.toml")


def test_evaluate_takes_context_that_differs_inside_a_list_and_skips_bad_rows(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A context field that varies counts for each item: the crosses are those that were learned."""
    ran(capsys, "train-clicks", shop / "shop.csv", "--out", shop / "out", "--passes", "2")
    later = write_log(shop / "later.csv", 100, seed=1)
    lines = later.read_text().splitlines()
    given = "evaluate", shop / "out" / "model.rankloop", "--log", later
    plain, notes = ran(capsys, *given)
    assert notes == ""
    later.write_text("\n".join([*lines, "99,red hat"]) + "\n")
    assert "row 401 has 2 columns, not 11" in refused(capsys, *given)
    text, notes = ran(capsys, *given, "--skip-bad-rows")
    assert (text, notes) == (plain, "note: 1 bad rows were left out\n")
    other = lines[1].replace(",x,", ",y,") if ",x," in lines[1] else lines[1].replace(",y,", ",x,")
    later.write_text("\n".join([lines[0], other, *lines[2:]]) + "\n")
    text, notes = ran(capsys, *given)
    assert notes == "note: segment: differs inside lists of later.csv, so it counts as a field of the items\n"
    assert "ranker of model.rankloop" in text


def test_evaluate_judges_by_a_table_of_lists(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every order was equally likely in this log, so its weights can be checked: 24 · P(list)."""
    given = "train-clicks", shop / "shop.csv", "--schema", shop / "shop.toml", "--out", shop / "out", "--passes", "1"
    ran(capsys, *given)
    model, later = shop / "out" / "model.rankloop", write_log(shop / "later.csv", 300, seed=1)
    answer: dict[str, Any] = json.loads(
        ran(capsys, "evaluate", model, "--log", later, "--estimator", "ips", "--json")[0]
    )
    found = answer["estimates"]["ranker of model.rankloop"]
    assert answer["unit"] == "per page"
    assert answer["n_rows"] == 300
    by_hand = _ips(model, later)
    assert found["value"] == pytest.approx(by_hand)
    text = later.read_text().replace("propensity", "score")
    later.write_text(text)
    by_lists = "evaluate", model, "--log", later, "--estimator", "snips"
    assert "no column with the probability of each list" in refused(capsys, *by_lists)
    err = refused(
        capsys, "evaluate", model, "--log", later, "--column", "propensity=score", "--estimator", "cascade_ips"
    )
    assert "cascade_ips needs those of positions" in err
    (shop / "test.txt").write_text("1 qid:1 1:0.5\n")
    assert "ranks values by a schema" in refused(capsys, "evaluate", model, shop / "test.txt")


def _ips(model: Path, log: Path) -> float:
    """Σ clicks · P(list) / (1/24) over the lists, each asked from the loaded ranker by hand."""
    ranker, lists = Ranker.load(model), {}
    header, *rows = (line.split(",") for line in log.read_text().splitlines())
    for row in rows:
        cells = dict(zip(header, row))
        lists.setdefault(cells["impression"], []).append(cells)
    total = 0.0
    for cells in lists.values():
        rows_ = [{name: one[name] for name in ("sku", "brand", "title")} for one in cells]
        for row, one in zip(rows_, cells):
            row |= {"price": float(one["price"])} if one["price"] else {}
        context = {"query": cells[0]["query"], "segment": cells[0]["segment"]}
        request = ranker.adapter.query([one["sku"] for one in cells], rows_, context)
        log_prob = ranker.session.log_prob(request.query, list(range(len(cells))))
        total += sum(int(one["click"]) for one in cells) * math.exp(log_prob) * 24
    return total / len(lists)


def test_the_batch_solver_reaches_the_optimum_of_a_loss(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = "train-clicks", shop / "shop.csv", "--schema", shop / "shop.toml", "--out", shop / "out"
    given = *given, "--solver", "batch", "--regularisation", "0.1,0.01"
    answer = json.loads(ran(capsys, *given, "--loss", "clicked_items", "--json")[0])
    assert set(answer["held_out"]) == {"0.1", "0.01"}
    assert answer["held_out"][f"{answer['regularisation']:g}"] > answer["logged"]
    assert 0 <= answer["gap"] <= 1e-4
    assert (answer["lists"], answer["loss"]) == (150, "clicked_items")
    assert Ranker.load(answer["model"]).schema.to_plain() == answer["schema"]
    text, notes = ran(capsys, *given)
    assert "150 lists; features: sku, price, brand, title; context: query, segment; " in text
    assert "chosen regularisation: 0." in text
    assert notes == ""
    later = write_log(shop / "later.csv", 100, seed=1)
    by_examination = "evaluate", answer["model"], "--log", later, "--json"
    judged = ran(capsys, *by_examination)
    assert json.loads(judged[0])["n_rows"] == 100
    assert ran(capsys, *by_examination, "--engine", "local", "--workers", "1") == judged
    weighted = "evaluate", answer["model"], "--log", later, "--json", "--estimator", "ips"
    assert ran(capsys, *weighted, "--engine", "local", "--workers", "1") == ran(capsys, *weighted)
    for arguments, message in (
        (["--passes", "2"], "--passes is for --solver online"),
        (["--loss", "ordinary"], "no loss 'ordinary'; did you mean 'ordinal'?"),
        (["--solver", "both"], "'both' is not one of 'online', 'batch'"),
        (["--ranker", "shop"], "--ranker is for the log of a service"),
    ):
        assert message in refused(capsys, *given, *arguments)


def test_the_folder_of_a_service_teaches_as_its_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a schema and with plain numbers, by both solvers."""
    location, rng = Location(tmp_path / "data"), random.Random(0)
    plain = {"learner": "fair_pairs", "problem": {"feature_names": ["price"], "shown": 3}}
    with running(location) as client:
        client.put("/rankers/shop", json=NAMED)
        client.put("/rankers/plain", json=plain)
        for _ in range(12):
            visit(client, items=rng.sample(products(), 6))
        for _ in range(12):
            items = [{"id": f"i{i}", "features": [rng.random()]} for i in rng.sample(range(5), 4)]
            visit(client, "plain", items=items, context=[])
        for name in ("shop", "plain"):
            (tmp_path / f"{name}.parquet").write_bytes(client.get(f"/log/{name}.parquet").content)
    for name, more in (("shop", ["--passes", "1"]), ("shop", ["--solver", "batch"]), ("plain", [])):
        rest = *more, "--out", tmp_path / "out", "--position-bias", "1,1,1,1,1,1", "--json"
        answers = [
            json.loads(ran(capsys, "train-clicks", *log, *rest)[0])
            for log in ((location.data, "--ranker", name), (tmp_path / f"{name}.parquet",))
        ]
        assert answers[0] == answers[1]
    assert "the rankers plain, shop: choose one" in refused(capsys, "train-clicks", location.data)
    assert "there is no log" in refused(capsys, "train-clicks", tmp_path / "out")


def test_without_matplotlib_the_model_is_saved_and_the_plot_is_not(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out, _ = ran(capsys, "train-clicks", shop / "shop.csv", "--out", shop / "trained")
    assert "no plot: this needs the package matplotlib" in out
    assert (shop / "trained" / "model.rankloop").exists()
    model = shop / "trained" / "model.rankloop"
    assert "matplotlib" in refused(capsys, "evaluate", model, "--log", shop / "shop.csv", "--plot", shop / "plot.png")
