"""Which column of a click log is what, as named or as told, and what the position bias is learned from."""

import json

import numpy as np
import pytest

from rankloop.cli import main
from rankloop.core.errors import InvalidInput
from rankloop.core.saved_session import load
from rankloop.logs.reader import read_log
from tests.logs.numeric_log import read_numeric_log as read_click_log

EXAMINED = 1.0 / np.arange(1, 6)
USUAL = ("impression", "query", "item", "position", "click", "fresh", "state")


def rows(shows=1500, n_items=12, seed=0):
    """Lists ordered by freshness, more or less, of which people look at 1/place and like the state alone."""
    rng = np.random.default_rng(seed)
    items = rng.random((n_items, 2))
    for impression in range(shows):
        shown = rng.choice(n_items, 5, replace=False)
        shown = shown[np.argsort(-items[shown, 0] + 0.3 * rng.normal(size=5))]
        for position, item in enumerate(shown.tolist()):
            click = int(rng.random() < EXAMINED[position] * items[item, 1])
            yield impression, "all", f"i{item}", position + 1, click, *items[item].round(6).tolist()


def written(path, without=(), names=USUAL):
    kept = [position for position, name in enumerate(USUAL) if name not in without]
    lines = [names, *rows()]
    path.write_text("\n".join(",".join(str(line[position]) for position in kept) for line in lines) + "\n")
    return path


def command(arguments, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["train-clicks", *map(str, arguments)])
    told = capsys.readouterr()
    return leaving.value.code, told.out, told.err


def test_without_queries_the_position_bias_is_learned_from_the_items(tmp_path, capsys):
    with_query, alone = written(tmp_path / "query.csv"), written(tmp_path / "alone.csv", without=["query"])
    first, second = read_click_log(with_query), read_click_log(alone)
    np.testing.assert_array_equal(first.pair, second.pair)
    assert len(np.unique(second.query)) == 1500  # lists are still not merged
    np.testing.assert_allclose(second.examined(), EXAMINED, atol=0.06)
    code, out, _ = command([alone, "--out", tmp_path / "out", "--regularisation", "0.001", "--json"], capsys)
    fresh, state = load(json.loads(out)["model"]).learner.weights
    assert not code
    assert abs(fresh) < state / 3


def test_an_item_of_another_query_is_another_pair(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text(
        "impression,query,item,position,click,f\n0,a,x,1,1,2.5\n0,a,y,2,0,1.5\n1,b,y,1,0,1.5\n1,b,x,2,1,2\n"
    )
    log = read_click_log(path)
    assert log.pair.tolist() == [0, 1, 2, 3]
    assert log.examined() is None
    assert read_click_log(path, without=["query"]).pair.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("without", [["query", "item"], ["item"]])
def test_where_no_item_stands_at_two_positions_the_bias_must_be_given(tmp_path, capsys, without):
    path = written(tmp_path / "clicks.csv", without)
    code, _, err = command([path, "--out", tmp_path / "out"], capsys)
    assert code == 2
    assert "no item stands at two positions" in err
    assert "give --position-bias" in err
    given = ["--position-bias", "1,0.5,0.33,0.25,0.2", "--regularisation", "0.01"]
    assert not command([path, "--out", tmp_path / "out", *given], capsys)[0]


def test_a_single_position_has_no_bias(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("impression,item,position,click,f\n0,x,1,1,2.5\n1,y,1,0,1.5\n")
    assert read_click_log(path).examined().tolist() == [1.0]


def test_columns_are_named_as_one_likes(tmp_path, capsys):
    own = ("seite", "suche", "ware", "platz", "geklickt", "fresh", "state")
    path = written(tmp_path / "clicks.csv", names=own)
    roles = dict(zip(("list", "query", "item", "position", "click"), own))
    usual, told = read_click_log(written(tmp_path / "usual.csv")), read_click_log(path, columns=roles)
    for one, other in zip(usual, told):
        np.testing.assert_array_equal(one, other)
    code, _, err = command([path, "--out", tmp_path / "out"], capsys)
    assert code == 2
    assert "no column for the list" in err
    assert "add --column list=NAME" in err
    options = [f"--column={role}={name}" for role, name in roles.items()]
    code, out, _ = command([path, "--out", tmp_path / "out", "--regularisation", "0.01", "--json", *options], capsys)
    assert not code
    assert json.loads(out)["features"] == ["fresh", "state"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("place=platz", "write one of list, query, item, position, click, time,"),
        ("item", "--column item: write one of"),
        ("item=itme", "has no column 'itme'; did you mean 'item'?"),
    ],
)
def test_columns_that_cannot_be_meant(tmp_path, capsys, option, said):
    code, _, err = command([written(tmp_path / "clicks.csv"), "--column", option], capsys)
    assert code == 2
    assert said in err


def test_an_unknown_role_is_refused_in_python_too(tmp_path):
    with pytest.raises(InvalidInput, match=r"one of list, query, item, position, click, time, .* not 'place'"):
        read_click_log(written(tmp_path / "clicks.csv"), columns={"place": "position"})


def test_an_item_is_known_by_its_own_column_before_a_column_called_id(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("id,impression,item,position,click,f\n1,0,x,1,1,2.5\n2,0,y,2,0,1.5\n3,1,y,1,0,1.5\n4,1,x,2,1,2.5\n")
    log = read_click_log(path)
    assert log.pair.tolist() == [0, 1, 1, 0]
    assert log.described == "features: f; not features, by their names: id"


def test_documents_of_user_behavior_insights_are_recognised():
    documents = {"query_id": ["u-1"], "user_query": ["toner"], "query_response_hit_ids": [["a", "b"]]}
    with pytest.raises(InvalidInput, match="documents of User Behavior Insights"):
        read_log(documents, kind="lists")


def test_all_missing_columns_are_named_at_once() -> None:
    with pytest.raises(InvalidInput, match="--column list=NAME --column position=NAME --column click=NAME "):
        read_log({"SuchID": ["a"], "ArtikelNr": ["x"], "Rang": [1], "Geklickt": [1]})


def test_names_that_exports_use_are_recognised() -> None:
    head = ("search_id", "user_token", "ts", "keyword", "rank", "product_code", "list_price", "clicked", "ordered")
    log = read_log({name: [1] for name in head}, kind="lists")
    assert log.columns[:6] == ("search_id", "keyword", "product_code", "rank", "clicked", "ts")
    assert (log.columns.user, log.columns.purchase, log.columns.price) == ("user_token", "ordered", "list_price")
    assert not log.notes
    camel = read_log({"SearchId": [1], "SearchTerm": ["a"], "ArticleNo": [7], "Rank": [1], "IsClick": [0]})
    assert camel.columns[:5] == ("SearchId", "SearchTerm", "ArticleNo", "Rank", "IsClick")


def test_a_log_without_queries_says_so() -> None:
    log = read_log({"search_id": [1], "wanted": ["lamp"], "sku": ["a"], "rank": [1], "clicked": [0]})
    assert "add --column query=NAME" in log.notes[0]
