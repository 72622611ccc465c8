"""Lists out of tables: fields of the items and the context, in the order shown, as the encoder takes them."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow
import pytest

from rankloop.cli import main
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Clicks, Relevances, Reward
from rankloop.features import Encoder, Schema
from rankloop.logs.list_table import read_list_table
from rankloop.logs.reader import lists_in
from tests.service.cases import SHOP as SERVED
from tests.service.cases import Location, feed, rank, running

SCHEMA = Schema({"price": "number", "brand": "category", "item": "id"}, {"segment": "category"}, ("segment*brand",))
LOG = """impression,query,item,position,click,price,brand,segment,propensity
1,shoes,007,2,0,20,acme,sport,0.25
1,shoes,8,1,1,,bolt,sport,0.25
2,hats,007,1,0,20,acme,,0.5
"""


def written(folder: Path, text: str = LOG) -> Path:
    (folder / "log.csv").write_text(text)
    return folder / "log.csv"


def test_lists_stand_in_the_order_shown(tmp_path: Path) -> None:
    first, second = read_list_table(written(tmp_path), schema=SCHEMA).lists(SCHEMA)
    assert first.ids == ["8", "007"]
    assert first.rows == [{"brand": "bolt", "item": "8"}, {"price": 20.0, "brand": "acme", "item": "007"}]
    assert (first.query_id, first.context) == ("shoes", {"segment": "sport"})
    assert second.context == {}
    np.testing.assert_array_equal(first.position, [0, 1])
    np.testing.assert_array_equal(first.clicked, [1, 0])
    assert first.log_propensity == pytest.approx(math.log(0.25))


def test_a_list_is_a_query_and_an_answer(tmp_path: Path) -> None:
    shown = read_list_table(written(tmp_path), schema=SCHEMA).lists(SCHEMA)[0]
    encoder = Encoder(SCHEMA)
    query, decision, feedback = shown.arrival(encoder)
    given = encoder.rows(shown.ids, shown.rows, shown.context)
    np.testing.assert_array_equal(query.features.columns, given.columns)
    np.testing.assert_array_equal(decision.ranking, [0, 1])
    assert isinstance(feedback, Clicks)
    np.testing.assert_array_equal(feedback.items, [0])
    assert isinstance(shown._replace(feedback="reward").arrival(encoder).feedback, Reward)
    assert isinstance(shown._replace(feedback="relevances").arrival(encoder).feedback, Relevances)


def test_another_schema_sees_its_own_fields_only(tmp_path: Path) -> None:
    shown = read_list_table(written(tmp_path), schema=SCHEMA).lists(SCHEMA)[0]
    fewer = Encoder(Schema({"brand": "category"}))
    expected = fewer.rows(shown.ids, [{"brand": "bolt"}, {"brand": "acme"}], {})
    np.testing.assert_array_equal(shown.query(fewer).features.columns, expected.columns)


def test_an_id_that_is_no_column_is_that_of_the_item(tmp_path: Path) -> None:
    schema = Schema({"brand": "category", "sku": "id"})
    first, _ = read_list_table(written(tmp_path), schema=schema).lists(schema)
    assert first.rows == [{"brand": "bolt"}, {"brand": "acme"}]  # the encoder takes the item's own id
    with pytest.raises(InvalidInput, match=r"no column 'brnd', which is a field of the schema; did you mean 'brand'\?"):
        read_list_table(written(tmp_path), schema=schema).lists(Schema({"brnd": "category"}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("1,shoes,8,1,1,,bolt,sport", "1,shoes,8,1,1,,bolt,office"), "row 2: segment is 'office', and 'sport' before"),
        (("1,1,,bolt", "1,,,bolt"), "row 2: click is missing"),
        (("8,1,1,,bolt", "8,1.5,1,,bolt"), "row 2: position is 1.5; it must be a whole number"),
        (("0.5\n", "1.5\n"), "row 3: propensity is 1.5; it must be a probability"),
        (("2,hats,007", "2,hats,"), "row 3: item is missing"),
        (("2,hats", "1,hats"), None),
        (("\n1,shoes,8", "\n3,shoes,8"), None),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: tuple[str, str], message: str | None) -> None:
    path = written(tmp_path, LOG.replace(*change))
    if message is None:
        assert read_list_table(path, schema=SCHEMA).offsets[-1] == 3
        return
    with pytest.raises(InvalidInput, match=message):
        read_list_table(path, schema=SCHEMA).lists(SCHEMA)


def test_probabilities_of_positions_are_not_those_of_lists(tmp_path: Path) -> None:
    log = read_list_table(written(tmp_path, LOG.replace("bolt,sport,0.25", "bolt,sport,0.2")), schema=SCHEMA)
    first = log.lists(SCHEMA)[0]
    assert math.isnan(first.log_propensity)
    assert first.propensity is not None
    np.testing.assert_array_equal(first.propensity, [0.2, 0.25])
    np.testing.assert_array_equal(log.clicks().propensity, [0.2, 0.25, 0.5])
    with pytest.raises(InvalidInput, match=r"row 2: propensity is 0.2, .* is that of the whole list"):
        _ = log.log_propensity


def test_rows_of_a_list_stand_together(tmp_path: Path) -> None:
    path = written(tmp_path, LOG + "1,shoes,9,3,0,5,acme,sport,0.25\n")
    with pytest.raises(InvalidInput, match="do not stand together; sort by 'impression'"):
        read_list_table(path, schema=SCHEMA)


def test_ages_need_to_know_when(tmp_path: Path) -> None:
    schema = Schema({"added": "date"})
    text = "impression,position,click,added,{}\n1,1,1,2026-11-01,2026-11-11T12:00:00\n"
    shown = read_list_table(written(tmp_path, text.format("timestamp")), schema=schema).lists(schema)[0]
    assert shown.at == datetime(2026, 11, 11, 12, tzinfo=UTC).timestamp()
    path = written(tmp_path, text.format("moment"))
    with pytest.raises(InvalidInput, match=r"the date 'added' depends on when .*--column time=NAME"):
        read_list_table(path, schema=schema).lists(schema)
    assert read_list_table(path, schema=schema, columns={"time": "moment"}).lists(schema)[0].at == shown.at


def test_a_date_of_the_items_is_not_taken_for_the_time(tmp_path: Path) -> None:
    path = written(tmp_path, "impression,position,click,date\n1,1,1,2026-11-01\n1,2,0,2026-11-02\n")
    table = read_list_table(path)
    assert (table.columns.time, table.columns.others) == ("", ("date",))


SHOP = "session,query,position,product,clicked,price\n"


def clicks_of(path):
    return lists_in(path).clicks()


def shop_file(tmp_path, text):
    (tmp_path / "shop.csv").write_text(text)
    return tmp_path / "shop.csv"


def test_pages_of_visits_are_sorted_by_position(tmp_path):
    rows = "s1,shoe,2,b,0,1\ns1,shoe,1,a,1,\ns1,hat,1,a,0,1\ns2,shoe,1,b,1,1\ns2,shoe,2,a,0,1\ns2,shoe,1,a,0,1\n"
    log = clicks_of(shop_file(tmp_path, SHOP + rows))
    assert log.offsets.tolist() == [0, 2, 3, 5, 6]
    assert log.position.tolist() == [0, 1, 0, 0, 1, 0]
    assert log.clicked.tolist() == [1, 0, 0, 1, 0, 0]
    assert log.session.tolist() == [0, 0, 1, 1]
    assert list(zip(log.query_ids, log.items)) == [("shoe", "a"), ("shoe", "b"), ("hat", "a")]
    assert log.pair.tolist() == [0, 1, 2, 1, 0, 0]
    assert log.by_item().pair.tolist() == [0, 1, 0, 1, 0, 0]
    some = log.pages(np.array([2, 0]))
    assert (some.pair.tolist(), some.offsets.tolist()) == ([1, 0, 0, 1], [0, 2, 4])


def test_positions_from_0_and_from_1_are_the_same(tmp_path):
    rows = ["s1,shoe,{},b,0,1", "s1,shoe,{},a,1,1"]
    logs = [
        clicks_of(shop_file(tmp_path, SHOP + "\n".join(row.format(n + first) for n, row in enumerate(rows))))
        for first in (0, 1)
    ]
    assert logs[0].position.tolist() == logs[1].position.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("session\n1\n", "shop.csv has only the column 'session'"),
        ("session,position,clicked\n1,1,1\n", "no column that names the items"),
        (SHOP, "shop.csv has no rows"),
        (SHOP + "s1,shoe,1,,1,2\n", "shop.csv, row 1: product is missing"),
        (SHOP + "s1,shoe,1,a,1,2\ns1,shoe,1.5,b,1,2\n", "row 2: position is 1.5; it must be a whole number"),
        (SHOP + "s1,shoe,1,a,1,2\ns1,shoe,2000000,b,1,2\n", "row 2: position is 2000000; lists have at most"),
        (SHOP + "s1,shoe,first,a,1,2\n", "row 1: position is 'first'; it must be a whole number"),
        (SHOP + "s1,shoe,1,a,,2\n", "row 1: clicked is missing"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, message):
    with pytest.raises(InvalidInput, match=message):
        clicks_of(shop_file(tmp_path, text))


def command(capsys, *arguments):
    with pytest.raises(SystemExit) as leaving:
        main(list(map(str, arguments)))
    told = capsys.readouterr()
    return leaving.value.code, told.out, told.err


def test_fit_users_from_a_shop_to_an_experiment(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lines = [SHOP.strip()]
    for page in range(400):
        order = rng.permutation(5)
        for position, item in enumerate(order.tolist()):
            click = int(rng.random() < 0.15 * (item + 1) / (position + 1))
            lines.append(f"s{page // 2},q{page % 2},{position + 1},p{item},{click},{item}")
    path, out, plot = shop_file(tmp_path, "\n".join(lines)), tmp_path / "users.toml", tmp_path / "users.png"
    code, told, _ = command(capsys, "fit-users", "--log", path, "--model", "pbm", "--json", "--folds", 2, "--out", out)
    answer = json.loads(told)
    assert not code
    assert answer["held_out"]["pbm"]["perplexity"] < 1.7
    assert answer["examination"]["examination"][0] == 1.0
    assert answer["examination"]["examination"][4] < 0.5
    experiment = f"""
name = "mine"
horizon = 20
seeds = 1
measures = ["nDCG@5"]
stream = "linear_gaussian"
[[arms]]
name = "one"
learner = "fair_pairs"
{out.read_text()}"""
    (tmp_path / "mine.toml").write_text(experiment)
    code, _, err = command(capsys, "run", tmp_path / "mine.toml", "--engine", "here", "--out", tmp_path / "results")
    assert not code, err
    code, told, _ = command(capsys, "fit-users", "--log", path, "--model", "cascade", "--by-item", "--plot", plot)
    assert not code
    assert 'feedback = { kind = "fitted_users", model = "cascade"' in told
    assert "columns: list is session" in told
    assert plot.stat().st_size > 1000
    assert command(capsys, "fit-users", "--log", path, "--plot", "users.txt")[0] == 2
    assert "one of cascade, pbm" in command(capsys, "fit-users", "--log", path, "--model", "mine")[2]


def test_the_folder_of_a_service_is_read_too(tmp_path, capsys):
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SERVED)
        for turn in range(12):
            shown = rank(client, query_id=f"q{turn % 2}", session=f"s{turn}")
            feed(client, shown["impression"], clicks=[shown["ranking"][turn % 3]], final=True)
    code, told, err = command(capsys, "fit-users", "--log", tmp_path, "--model", "cascade", "--json")
    assert not code, err
    assert json.loads(told)["pages"] == 12
    assert (
        "--ranker is for the log of a service"
        in command(capsys, "fit-users", "--log", shop_file(tmp_path, SHOP), "--ranker", "shop")[2]
    )


def test_every_column_that_is_named_like_an_outcome_is_one() -> None:
    rows = {"list": [1, 1, 2], "item": ["a", "b", "a"], "position": [1, 2, 1], "click": [0, 1, 1]}
    sold = {"purchase": [0, 1, 0], "revenue": [None, 5.0, 0.0], "add_to_cart": [0, 1, 1]}
    log = lists_in(pyarrow.table(rows | sold))
    brought, _ = log.outcomes()
    assert {name: values.tolist() for name, values in brought.items()} == {
        "purchases": [0, 1, 0],
        "money": [0, 5, 0],
        "add_to_cart": [0, 1, 1],
    }
