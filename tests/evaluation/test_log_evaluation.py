"""Pages from tables of one's own and from a service: a shop's CSV answers in clicks, purchases and money."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import rankloop
from rankloop import Problem, Session, build
from rankloop.cli import main
from rankloop.core.errors import InvalidInput
from rankloop.core.saved_session import save
from rankloop.evaluation.list_pages import ShownPage
from rankloop.logs.list_table import read_list_table

HEADER = "session,query,position,product,clicked,purchased,price,quality,rating"


def shop(path: Path, pages: int = 250, seed: int = 0) -> Path:
    """Two pages a session; four products in an order that the shop draws, quality decides; a position halves."""
    rng, lines = np.random.default_rng(seed), [HEADER]
    for page in range(pages):
        quality, rating, price = rng.random((3, 8))
        for position, item in enumerate(rng.permutation(8)[:4].tolist(), 1):
            click = rng.random() < quality[item] / position
            bought = click and rng.random() < 0.5
            cells = f"s{page // 2},q{page},{position},p{item},{int(click)},{int(bought)},{20 * price[item]:.2f}"
            lines.append(f"{cells},{quality[item]:.3f},{rating[item]:.3f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def model(path: Path, *weights: float) -> Path:
    learner = build({"kind": "fixed_weights", "weights": weights}, "learner")
    save(Session(learner, Problem(n_features=2, feature_names=("quality", "rating"))), path)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main([*map(str, arguments)])
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err


def test_the_pages_of_a_csv_are_what_stands_in_it(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        f"{HEADER}\ns1,q1,2,a,1,1,10.5,1,0\ns1,q1,1,b,0,0,3,2,0\ns1,q2,1,a,1,,10.5,3,1\ns2,q1,1,b,0,0,,4,1\n"
    )
    pages = list(ShownPage.in_log(read_list_table(log), ("rating", "quality")))
    assert [page.session for page in pages] == ["s1", "s1", "s2"]
    assert [page.pairs for page in pages] == [[("q1", "b"), ("q1", "a")], [("q2", "a")], [("q1", "b")]]
    assert pages[0].query.features.tolist() == [[0.0, 2.0], [0.0, 1.0]]  # from the top, in the ranker's order
    assert pages[0].clicked.tolist() == [0.0, 1.0]
    assert pages[0].outcomes["purchases"].tolist() == [0.0, 1.0]
    assert pages[0].outcomes["money"].tolist() == [0.0, 10.5]
    assert pages[1].outcomes["purchases"].tolist() == [0.0]  # an empty cell: nothing was bought
    with pytest.raises(InvalidInput, match="lacks the column 'stars'"):
        list(ShownPage.in_log(read_list_table(log), ("stars",)))
    log.write_text(log.read_text().replace("1,b,0,0,3", "2,b,0,0,3"))
    apart = list(
        ShownPage.in_log(read_list_table(log), ("rating",))
    )  # where a position comes again another page begins
    assert [page.session for page in apart] == ["s1", "s1", "s1", "s2"]
    together = replace(read_list_table(log), offsets=np.array([0, 2, 3, 4]))
    with pytest.raises(InvalidInput, match="two items of one list stand at the same position"):
        list(ShownPage.in_log(together, ("rating",)))


def test_a_shop_is_answered_in_clicks_purchases_and_money(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = shop(tmp_path / "shop.csv", seed=3)
    good, same = model(tmp_path / "good.rankloop", 1.0, 0.0), model(tmp_path / "bad.rankloop", -1.0, 0.0)
    code, out, _ = run(capsys, "evaluate", good, "--log", log, "--json")
    answer = json.loads(out)
    found, current = answer["estimates"]["ranker of good.rankloop"], answer["estimates"]["current"]
    assert code == 0
    assert answer["n_rows"] == 250
    assert set(found["per_1000_pages"]) == {"clicks", "purchases", "money"}
    table = {name: np.array(values) for name, values in pyarrow.csv.read_csv(log).to_pydict().items()}
    assert current["per_1000_pages"]["clicks"]["value"] == pytest.approx(4 * table["clicked"].sum())
    assert current["per_1000_pages"]["money"]["value"] == pytest.approx(4 * (table["price"] * table["purchased"]).sum())
    # four of the same eight qualities, best first: (0.8 + 0.6/2 + 0.4/3 + 0.2/4) instead of 0.5 · (1 + … + 1/4)
    assert found["per_1000_pages"]["clicks"]["lower"] < 1283 < found["per_1000_pages"]["clicks"]["upper"]
    assert found["gain_lower"] > 0
    assert answer["verdict"] == "better"
    assert answer["diagnostics"]["examination"]["evidence"] == "items"  # every query is new; products move
    assert answer["diagnostics"]["modelled_share"] == 0.0
    assert set(answer["estimates"]) == {"current", "random order", "ranker of good.rankloop"}
    pq.write_table(pyarrow.csv.read_csv(log), tmp_path / "shop.parquet")
    assert json.loads(run(capsys, "evaluate", good, "--log", tmp_path / "shop.parquet", "--json")[1]) == answer
    text = run(capsys, "evaluate", same, "--log", log, "--plot", tmp_path / "shop.png")[1]
    assert "is worse than what was shown" in text
    assert "purchases per 1,000 pages" in text
    assert "examination relative to position 1, from items that stood" in text
    assert "random order" in text
    assert (tmp_path / "shop.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_asked_for_is_taken_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, good = shop(tmp_path / "shop.csv", 60), model(tmp_path / "good.rankloop", 1.0, 0.0)
    bias = "--estimator", "examination", "--position-bias", "1,0.5,0.33,0.25"
    found = json.loads(run(capsys, "evaluate", good, "--log", log, *bias, "--json")[1])
    assert found["diagnostics"]["examination"]["evidence"] == "given"
    for arguments, said in (
        (("--position-bias", "1,much"), "write them separated by commas"),
        (("--position-bias", "1,0"), "probabilities above 0"),
        (("--estimator", "position_vise"), "position_vise"),
    ):
        code, _, err = run(capsys, "evaluate", good, "--log", log, *arguments)
        assert code == 2
        assert said in err


def test_clicks_that_weigh_more_are_purchases() -> None:
    from rankloop import Query
    from rankloop.evaluation.off_policy.ranking_log import LoggedRanking

    query, order = Query.of([[1.0], [2.0]]), np.arange(2)
    policy: Any = None
    plain, heavy = (LoggedRanking(query, order, np.array(rewards), policy) for rewards in ([1.0, 0.0], [1.0, 5.0]))
    assert next(ShownPage.replayed([plain])).outcomes == {}
    both = list(ShownPage.replayed([plain, heavy]))
    assert both[1].outcomes["purchases"].tolist() == [0.0, 1.0]
    assert both[0].outcomes["weighted clicks"].tolist() == [1.0, 0.0]


def test_python_says_what_the_command_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, good = shop(tmp_path / "shop.csv", 60), model(tmp_path / "good.rankloop", 1.0, 0.0)
    evaluation = rankloop.evaluate(good, log)
    assert run(capsys, "evaluate", good, "--log", log)[1] == f"{evaluation}\n"
    assert json.loads(run(capsys, "evaluate", good, "--log", log, "--json")[1]) == json.loads(
        json.dumps(evaluation.to_json())
    )
    session = rankloop.load(good)
    again = rankloop.evaluate(session, rankloop.read_log(log))
    assert again.to_json()["estimates"]["ranker"] == evaluation.to_json()["estimates"]["ranker of good.rankloop"]
    evaluation.plot(tmp_path / "lists.png")
    with pytest.raises(InvalidInput, match=r"must end with \.png"):
        evaluation.plot(tmp_path / "lists.txt")
    with pytest.raises(InvalidInput, match="'levle' is no option; did you mean 'level'"):
        rankloop.evaluate(good, log, levle=0.9)
    with pytest.raises(InvalidInput, match="a Ranker, a Session"):
        rankloop.evaluate(3, log)
    with pytest.raises(InvalidInput, match="name the saved ranker to judge"):
        rankloop.evaluate(None, log)


def test_nothing_is_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ads.csv").write_text("age,ad,click,propensity\n" + "1,a,1,0.5\n2,b,0,0.5\n" * 50)
    code, _, err = run(capsys, "evaluate", "--log", tmp_path / "ads.csv")
    assert code == 2
    assert "run `rankloop train-policy ads.csv` first" in err


@pytest.mark.parametrize("with_schema", [False, True])
def test_propensities_that_are_not_of_every_whole_list_are_refused(tmp_path: Path, with_schema: bool) -> None:
    ranker: Any = model(tmp_path / "good.rankloop", 1.0, 0.0)
    if with_schema:
        ranker = rankloop.Ranker("click_regression", features={"quality": "number", "rating": "number"}, shown=4)
    log, lines = tmp_path / "log.csv", shop(tmp_path / "shop.csv").read_text().splitlines()

    def refusal(cells: list[str]) -> str:
        rows = [f"{line},{cell}" for line, cell in zip(lines[1:], cells, strict=True)]
        log.write_text("\n".join([f"{lines[0]},propensity", *rows]) + "\n")
        with pytest.raises(InvalidInput) as error:
            rankloop.evaluate(ranker, log, estimator="snips")
        return str(error.value)

    unknown = refusal(["0.1", "0.1", "0.1", "0.1", "", "", "", ""] * 125)
    assert "125 of 250 pages have no propensity, the first of them page 2; snips needs" in unknown
    of_positions = refusal(["0.4", "0.3", "0.2", "0.1"] * 250)
    assert (
        "row 2: propensity is 0.3, and 0.4 before in the same list: a propensity is that of the whole" in of_positions
    )
