"""Lists with clicks, read from tables and exports, and a ranker learned from them without their position bias."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.cli import main
from rankloop.click_models.examination import rows_as_log
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.saved_session import load, save
from rankloop.core.session import Session
from rankloop.core.types import Problem, Query, Rows
from rankloop.logs.reader import lists_in
from rankloop.training.clicks.batch import EncodedLists, _merged
from rankloop.training.clicks.train import train_clicks
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import BatchSolver, SolverSettings
from rankloop.training.train import train
from tests.logs.numeric_log import read_numeric_log as read_click_log

EXAMINED = 1.0 / np.arange(1, 7) ** 1.5
WEIGHTS = np.array([2.0, -1.0, 0.5])


def shown_lists(n_queries=40, shows=60, seed=0):
    """The same queries again and again, best by the first feature on top (a wrong ranker), slightly shuffled."""
    rng = np.random.default_rng(seed)
    for query in range(n_queries):
        X = rng.normal(size=(6, 3))
        X[:, 0] -= 0.8 * X[:, 1]
        relevant = 1 / (1 + np.exp(-(X @ WEIGHTS)))
        for _ in range(shows):
            order = np.argsort(X[:, 0] * 2 + rng.normal(size=6))
            yield query, order, X[order], rng.random(6) < EXAMINED * relevant[order]


def write_table(path: Path) -> Path:
    lines = ["impression,query,item,position,click,a,b,c"]
    for impression, (query, order, X, clicked) in enumerate(shown_lists()):
        for position in range(6):
            cells = ",".join(f"{value:.6f}" for value in X[position])
            lines.append(f"{impression},{query},{order[position]},{position + 1},{int(clicked[position])},{cells}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return write_table(tmp_path_factory.mktemp("clicks") / "clicks.csv")


def test_a_table_becomes_lists(table):
    log = read_click_log(table)
    assert log.features.shape == (2400 * 6, 3)
    assert log.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(np.diff(log.offsets), 6)
    np.testing.assert_array_equal(log.position[:6], np.arange(6))
    assert log.pair.max() == 40 * 6 - 1


def test_unbiased_learning_beats_counting_clicks(table):
    log, cosines = lists_in(table), {}
    solver = BatchSolver(regularisation=[1e-3], settings=SolverSettings(tolerance=1e-3))
    for name, given in (("naive", np.ones(6)), ("weighted", None)):
        trained = train_clicks(log, solver=solver, position_bias=given, clip=20.0)
        learned = np.array(trained.session.learner.weights)
        cosines[name] = learned @ WEIGHTS / np.linalg.norm(learned) / np.linalg.norm(WEIGHTS)
    np.testing.assert_allclose(trained.examined, EXAMINED, atol=0.06)
    assert cosines["weighted"] > 0.97
    assert cosines["weighted"] > cosines["naive"] + 0.02


def test_lists_that_do_not_stand_together_are_refused(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("qid,place,click,a\n1,0,0,1\n2,0,0,1\n1,1,0,1\n")
    with pytest.raises(InvalidInput, match="do not stand together"):
        read_click_log(path)
    path.write_text("qid,click,a\n1,0,1\n")
    with pytest.raises(InvalidInput, match=r"no column for the position .*: add --column position=NAME"):
        read_click_log(path)


def test_ids_and_times_are_no_features(tmp_path):
    path = tmp_path / "clicks.csv"
    lines = [f"{n // 3},{n % 3},{n % 2},{n},{n % 60},2026-11-{n // 30 + 1:02},{n % 5}" for n in range(180)]
    path.write_text("impression,position,click,row,user_id,date,price\n" + "\n".join(lines))
    log = read_click_log(path)
    assert log.feature_names == ("price",)
    assert log.described == "features: price; left out as ids: row; not features, by their names: user_id, date"
    with pytest.raises(InvalidInput, match="no column of features"):
        read_click_log(path, without=["price"])
    with pytest.raises(InvalidInput, match=r"no column 'prise'; did you mean 'price'\?"):
        read_click_log(path, without=["prise"])


def test_texts_are_named_all_at_once(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("impression,position,click,price,my brand,since\n1,1,1,2,x,2026-01-01\n1,2,0,3,y,2026-01-02\n")
    with pytest.raises(InvalidInput) as refused:
        read_click_log(path)
    assert str(refused.value) == (
        "clicks.csv: my brand, since are not columns of numbers, but features must be numbers: write a 0/1 column "
        "for each value of a text, of a time (since) an age or an hour, or leave out what is no feature: "
        "--without 'my brand' "
        '--without since (in Python without=["my brand", "since"]), or learn from texts as they are with a schema, '
        "which --guess-schema FILE writes"
    )
    assert read_click_log(path, ["my brand", "since"]).described == "features: price"


@pytest.fixture(scope="module")
def export(tmp_path_factory) -> Path:
    """Impressions of a random order, as the service writes them; the last one mixed two rankers."""
    path = tmp_path_factory.mktemp("export") / "events.parquet"
    session = Session(build("random_order", "learner"), Problem(n_features=2, shown=3), seed=0)
    rng, rows = np.random.default_rng(1), []
    for number in range(800):
        query = Query.of(rng.normal(size=(4, 2)))
        decision = session.rank(query)
        clicked = [i for i in decision.ranking[:3].tolist() if rng.random() < 0.3 + 0.2 * np.sign(query.features[i, 0])]
        rows.append(
            {
                "query_id": f"q{number}",
                "ranking": [f"d{i}" for i in decision.ranking.tolist()],
                "features": query.features[decision.ranking].tolist(),
                "context": [],
                "log_propensity": decision.log_propensity,
                "evaluation": number == 799,
                "feedback": "clicks" if clicked else None,
                "items": [f"d{i}" for i in clicked],
                "values": [1.0] * len(clicked),
            }
        )
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_an_export_is_recognised_and_read(export, table):
    shown = lists_in(export)
    assert lists_in(table).export is None
    assert shown.n_pages == 799
    assert shown.position[:4].tolist() == [0, 1, 2, 3]
    assert shown.export.features.shape == (4 * 799, 2)
    log = read_click_log(export)
    assert len(log.offsets) == 800
    assert log.clicked.sum() == shown.weight.sum()


def test_a_ranker_is_judged_on_an_export(export, tmp_path, capsys):
    model = tmp_path / "new.rankloop"
    learner = build("pdgd(start=[1.0, 0.0])", "learner")
    save(Session(learner, Problem(n_features=2, shown=3)), model)
    with pytest.raises(SystemExit) as leaving:
        main(["evaluate", str(model), "--log", str(export), "--estimator", "snips"])
    out = capsys.readouterr().out
    assert not leaving.value.code
    assert "events.parquet: 799 pages" in out
    assert "ranker of new.rankloop" in out
    assert out.splitlines()[2].split()[:3] == ["policy", "per", "page"]
    assert "%" not in out.replace("95%", "")
    with pytest.raises(SystemExit) as leaving:
        main(["evaluate", "--log", str(export)])
    assert leaving.value.code == 2
    assert "name the saved ranker" in capsys.readouterr().err


def trained(arguments, folder, capsys):
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--out", str(folder), "--json"])
    assert end.value.code in (0, None)
    answer = json.loads(capsys.readouterr().out)
    weights = np.array(load(answer["model"]).learner.weights)
    return answer, float(weights @ WEIGHTS / np.linalg.norm(weights) / np.linalg.norm(WEIGHTS))


def test_the_command_learns_the_true_direction_from_biased_clicks(table, tmp_path, capsys):
    command = ["train-clicks", str(table), "--regularisation", "0.1,0.001"]
    answer, estimated = trained(command, tmp_path / "estimated", capsys)
    assert set(answer["held_out"]) == {"0.1", "0.001"}
    assert answer["examined"][0] == 1.0
    assert answer["features"] == ["a", "b", "c"]
    _, ignored = trained([*command, "--position-bias", "1,1,1,1,1,1"], tmp_path / "ignored", capsys)
    assert estimated > 0.95
    assert estimated > ignored


def test_the_command_takes_the_loss_of_a_measure(table, tmp_path, capsys):
    command = ["train-clicks", str(table), "--regularisation", "0.01", "--loss", "nDCG@5"]
    answer, direction = trained(command, tmp_path, capsys)
    assert answer["regularisation"] == 0.01
    assert direction > 0.95


def test_the_weight_of_a_single_click_cancels_in_a_normalised_loss_but_not_after_merging():
    risk, scores, alone = risk_of("nDCG"), np.array([0.1, 0.4, -0.2]), np.array([0.0, 1.0, 0.0])
    one, ten = (risk.of_lists(scores, np.log2(1.0 + w * alone), np.array([0, 3])) for w in (1.0, 10.0))
    assert one[0] == pytest.approx(ten[0])
    np.testing.assert_allclose(one[1], ten[1])
    dense, pair, nothing = np.eye(3)[[0, 1, 2, 1, 0, 2]], np.array([7, 3, 5, 3, 7, 5]), np.empty(0, np.int64)
    rows = EncodedLists(
        features=Rows(np.zeros(7, np.int64), nothing, np.empty(0), nothing, dense),
        offsets=np.array([0, 3, 6]),
        position=np.array([0, 1, 2] * 2),
        clicked=np.zeros(6),
        query_ids=["q", "q"],
        is_graded=False,
        merge_keys=lambda: (["q", "q"], pair.tolist()),
        log=rows_as_log(np.arange(6), np.array([0, 1, 2] * 2), np.zeros(6)),
    )
    both = _merged(rows, np.array([0.0, 10.0, 0.0, 0.0, 1.0, 0.0]))
    np.testing.assert_array_equal(both.offsets, [0, 3])
    np.testing.assert_array_equal(both.features.dense, np.eye(3))
    np.testing.assert_allclose(both.clicked, [1 / 2, 10 / 2, 0])


def test_what_the_command_refuses(table, capsys):
    with pytest.raises(SystemExit) as end:
        main(["train-clicks", str(table), "--position-bias", "a"])
    assert end.value.code == 2
    assert "numbers" in capsys.readouterr().err


def test_python_does_what_the_command_does(table, tmp_path, capsys):
    """The same weights from Python and from the command line, and a file that ranks by them."""
    log, out = read_click_log(table), tmp_path / "out"
    trained = train_clicks(table, solver=BatchSolver(regularisation=(1e-2, 1e-3)), seed=1)
    assert trained.chosen in trained.gains.keys() == {1e-2, 1e-3}
    assert len(trained.session.learner.weights) == len(trained.feature_names) == log.features.shape[1]
    np.testing.assert_allclose(trained.examined, log.examined(), rtol=1e-12)
    trained.save(tmp_path / "own.rankloop")
    with pytest.raises(SystemExit):
        main(["train-clicks", str(table), "--regularisation", "0.01,0.001", "--seed", "1", "--out", str(out)])
    assert str(trained) in capsys.readouterr().out
    assert load(out / "model.rankloop").learner == load(tmp_path / "own.rankloop").learner
    assert (out / "held-out.png").read_bytes().startswith(b"\x89PNG")
    silent = dataclasses.replace(lists_in(table), clicked=np.zeros(len(log.clicked)))
    with pytest.raises(InvalidInput, match="no click"):
        train_clicks(silent)


def leaky(folder: Path) -> Path:
    """A log in which `bought` and `amount` are known only after the click, and `click_2` is the click."""
    rng, lines = np.random.default_rng(0), ["impression,item,position,click,price,purchased,amount,click_2"]
    for impression in range(80):
        for position, item in enumerate(rng.permutation(4)):
            click = int(rng.random() < 0.4)
            bought = int(click and rng.random() < 0.5)
            price = rng.integers(1, 50)
            lines.append(f"{impression},{item},{position},{click},{price},{bought},{bought * price},{click}")
    path = folder / "leaky.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_outcomes_are_no_features(tmp_path):
    log = read_click_log(leaky(tmp_path))
    assert log.feature_names == ("price",)
    assert log.described == (
        "features: price; outcomes, so not features: purchased (named like an outcome), amount (only clicked rows have "
        "it), click_2 (the same as the click)"
    )
    asked = read_click_log(leaky(tmp_path), asked_for=["purchased"])
    assert asked.feature_names == ("price", "purchased")
    assert dict(asked.outcomes).keys() == {"amount", "click_2"}
    with pytest.raises(InvalidInput, match=r"no column 'purchase'; did you mean 'purchased'\?"):
        read_click_log(leaky(tmp_path), asked_for=["purchase"])


def test_train_names_outcomes_and_takes_them_when_asked(tmp_path, capsys):
    log, out = str(leaky(tmp_path)), str(tmp_path / "out")
    for more, features in (([], ["price"]), (["--feature", "purchased"], ["price", "purchased"])):
        with pytest.raises(SystemExit) as leaving:
            main(["train-clicks", log, "--out", out, "--regularisation", "1", "--json", *more])
        assert not leaving.value.code
        answer = json.loads(capsys.readouterr().out)
        assert answer["features"] == features
        assert ("purchased (named like an outcome)" in answer["columns"]) == (not more)


def test_an_empty_cell_is_missing_and_named(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("impression,position,click,price,stars\n1,1,1,2,1\n1,2,0,3,\n")
    with pytest.raises(InvalidInput, match=r"clicks\.csv, row 2: stars is missing, but features are numbers"):
        read_click_log(path)
    path.write_text("impression,position,click,price\n1,1,1,2\n1,2,0,inf\n")
    with pytest.raises(InvalidInput, match=r"clicks\.csv, row 2: price is inf; it must be a finite number"):
        read_click_log(path)


def test_an_import_of_ubi_with_a_text_column_trains_without_options(tmp_path):
    """Numbers with a gap, a brand and a title: `train` and `train_clicks` guess the same schema."""
    rng, queries, events = np.random.default_rng(0), [], []
    for number in range(120):
        who = {"query_id": f"u{number}", "client_id": f"c{number}", "timestamp": f"2026-05-01T{number // 6:02d}:00:00Z"}
        order = rng.permutation(12)[:5].tolist()
        queries.append({**who, "user_query": "lamp", "query_response_hit_ids": [f"p{i}" for i in order]})
        for place, item in enumerate(order):
            if rng.random() < (0.8 if item % 2 else 0.2) / (place + 1):
                where = {"object": {"object_id": f"p{item}"}, "position": {"ordinal": place + 1}}
                events.append({**who, "action_name": "click", "event_attributes": where})
    for name, rows in (("queries", queries), ("events", events)):
        (tmp_path / f"{name}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    items = [
        f"p{i},{'' if i == 3 else i},{['acme', 'bolt'][i % 2]},{['oak', 'tin'][i % 2]} lamp {i}" for i in range(12)
    ]
    (tmp_path / "items.csv").write_text("id,price,brand,title\n" + "\n".join(items) + "\n")
    files = ["--queries", "queries.ndjson", "--events", "events.ndjson", "--items", "items.csv", "--out", "log.parquet"]
    with pytest.raises(SystemExit) as leaving:
        main(["import-log", "ubi", *(str(tmp_path / name) if "." in name else name for name in files)])
    assert not leaving.value.code
    trained = train(tmp_path / "log.parquet")
    assert {"price", "brand", "title"} <= set(trained.schema.features)
    assert trained.gains == train_clicks(tmp_path / "log.parquet").gains
    assert max(trained.gains.values()) > trained.logged_gain
    assert trained.notes[0].startswith("the schema was guessed: item (id), price (number), brand (category)")
