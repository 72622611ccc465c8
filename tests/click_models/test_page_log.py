"""Tables and exports as pages, and what is wrong with them."""

import json

import numpy as np
import pytest

from rankloop.cli import main
from rankloop.click_models.page_log import read_page_log
from rankloop.core.errors import InvalidInput
from tests.service.cases import SHOP as SERVED
from tests.service.cases import Location, feed, rank, running

SHOP = "session,query,position,product,clicked,price\n"


def written(tmp_path, text):
    (tmp_path / "shop.csv").write_text(text)
    return tmp_path / "shop.csv"


def test_pages_of_visits_are_sorted_by_position(tmp_path):
    rows = "s1,shoe,2,b,0,1\ns1,shoe,1,a,1,\ns1,hat,1,a,0,1\ns2,shoe,1,b,1,1\ns2,shoe,2,a,0,1\ns2,shoe,1,a,0,1\n"
    log = read_page_log(written(tmp_path, SHOP + rows))
    assert log.offsets.tolist() == [0, 2, 3, 5, 6]
    assert log.position.tolist() == [0, 1, 0, 0, 1, 0]
    assert log.clicked.tolist() == [1, 0, 0, 1, 0, 0]
    assert log.session.tolist() == [0, 0, 1, 1]
    assert list(zip(log.query_ids, log.items)) == [("shoe", "a"), ("shoe", "b"), ("hat", "a")]
    assert log.pair.tolist() == [0, 1, 2, 1, 0, 0]
    assert log.by_item().pair.tolist() == [0, 1, 0, 1, 0, 0]
    assert log.moved_share() == pytest.approx(5 / 6)
    assert "item is product" in log.columns
    some = log.pages(np.array([2, 0]))
    assert (some.pair.tolist(), some.offsets.tolist()) == ([1, 0, 0, 1], [0, 2, 4])


def test_positions_from_0_and_from_1_are_the_same(tmp_path):
    rows = ["s1,shoe,{},b,0,1", "s1,shoe,{},a,1,1"]
    logs = [
        read_page_log(written(tmp_path, SHOP + "\n".join(row.format(n + first) for n, row in enumerate(rows))))
        for first in (0, 1)
    ]
    assert logs[0].position.tolist() == logs[1].position.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("session\n1\n", "shop.csv has only the column 'session'"),
        ("session,position,clicked\n1,1,1\n", "which item is which"),
        (SHOP, "shop.csv has no rows"),
        (SHOP + "s1,shoe,1,,1,2\n", "shop.csv, row 1: product is missing"),
        (SHOP + "s1,shoe,1,a,1,2\ns1,shoe,1.5,b,1,2\n", "row 2: position is 1.5; it must be a whole number"),
        (SHOP + "s1,shoe,1,a,1,2\ns1,shoe,2000000,b,1,2\n", "row 2: position is 2e.06; lists have at most"),
        (SHOP + "s1,shoe,first,a,1,2\n", "row 1: position is 'first'; it must be a number"),
        (SHOP + "s1,shoe,1,a,,2\n", "row 1: clicked is missing"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, message):
    with pytest.raises(InvalidInput, match=message):
        read_page_log(written(tmp_path, text))


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
    path, out, plot = written(tmp_path, "\n".join(lines)), tmp_path / "users.toml", tmp_path / "users.png"
    code, told, _ = command(capsys, "fit-users", "--log", path, "--model", "pbm", "--json", "--folds", 2, "--out", out)
    answer = json.loads(told)
    assert not code
    assert answer["held_out"]["pbm"]["perplexity"] < 1.7
    assert answer["examined"][0] == 1.0
    assert answer["examined"][4] < 0.5
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
        in command(capsys, "fit-users", "--log", written(tmp_path, SHOP), "--ranker", "shop")[2]
    )
