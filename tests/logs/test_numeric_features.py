"""Tables of clicks as they come: two names for the click, missing places, doubled columns; faults by their row."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.cli import main
from rankloop.core.errors import InvalidInput
from rankloop.core.saved_session import load
from rankloop.training.clicks.train import train_clicks
from tests.logs.numeric_log import read_numeric_log as read_click_log

SEEN = ["--position-bias", "1,0.5,0.33"]  # there is no column of items


def written(tmp_path, header, *lines):
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def leaking(tmp_path):
    """The click stands in three columns, one of them 1 where it was clicked by another name."""
    rng, lines = np.random.default_rng(0), []
    for impression in range(60):
        for position in range(3):
            feature = rng.normal()
            click = int(rng.random() < 0.5 / (position + 1) and feature > 0)
            lines.append(f"{impression},{position + 1},{click},{feature:.3f},{click}.0,{0.5 / (position + 1):.3f}")
    return written(tmp_path, "impression,position,Click,f,reward,propensity", *lines)


def test_no_other_name_of_the_click_is_a_feature(tmp_path):
    path = leaking(tmp_path)
    log = read_click_log(path)
    assert log.feature_names == ("f",)
    assert log.set_aside == ("Click", "propensity")
    assert log.described == "features: f; not features, by their names: Click, propensity"
    assert read_click_log(path, ["reward"]).set_aside == ("propensity",)  # then Click is the click


def test_the_command_learns_from_the_features_alone(tmp_path, capsys):
    path, out = leaking(tmp_path), tmp_path / "out"
    with pytest.raises(SystemExit) as leaving:
        main(["train-clicks", str(path), "--out", str(out), "--regularisation", "0.01", "--json", *SEEN])
    assert not leaving.value.code
    answer = json.loads(capsys.readouterr().out)
    assert answer["features"] == ["f"]
    assert "not features, by their names: Click, propensity" in answer["columns"]
    assert load(out / "model.rankloop").problem.feature_names == ("f",)


HEADER = "impression,position,click,f,item"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0,,0,3.5,4", "clicks.csv, row 2: position is missing"),
        ("0,2nd,0,3.5,4", "clicks.csv, row 2: position is '2nd'; it must be a whole number"),
        ("0,1.5,0,3.5,4", "clicks.csv, row 2: position is 1.5; it must be a whole number"),
        ("0,inf,0,3.5,4", "clicks.csv, row 2: position is inf; it must be a whole number"),
        ("0,2000000000,0,3.5,4", "clicks.csv, row 2: position is 2000000000; lists have at most 10,000 places"),
        (
            "0,-9000000000000000000,0,3.5,4",
            "clicks.csv, row 2: position is -9000000000000000000; it must be",
        ),
        ("0,2,,3.5,4", "clicks.csv, row 2: click is missing"),
        ("0,2,perhaps,3.5,4", "clicks.csv, row 2: click is 'perhaps'; it must be a number \\(0 or 1\\)"),
    ],
)
def test_faults_are_named_by_row(tmp_path, line, message):
    with pytest.raises(InvalidInput, match=message):
        read_click_log(written(tmp_path, HEADER, "0,1,1,2.5,3", line, "0,3,0,1.5,5"))


def test_positions_may_begin_anywhere(tmp_path):
    for first in (0, 1, 7):
        lines = [f"0,{first + position},1,{position}.5,{position}" for position in range(3)]
        assert read_click_log(written(tmp_path, HEADER, *lines)).position.tolist() == [0, 1, 2]
    table = {"impression": [0, 0], "position": [1.0, 2.0], "click": [True, False], "f": [0.5, 1.5]}
    pq.write_table(pa.table(table), tmp_path / "clicks.parquet")
    log = read_click_log(tmp_path / "clicks.parquet")
    assert (log.position.tolist(), log.clicked.tolist()) == ([0, 1], [1.0, 0.0])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("impression,position,click,f,f", "two columns 'f'"),
        ("impression,position,click,click,f", "two columns 'click'"),
        ('{"impression":0,"position":1,"click":1,"f":2,"g":3}', "line 2: this is not JSON"),
    ],
)
def test_headers_that_cannot_be_used(tmp_path, header, message):
    with pytest.raises(InvalidInput, match=message):
        read_click_log(written(tmp_path, header, "0,1,1,2.5,3"))


@pytest.mark.parametrize("clip", [np.nan, -3.0, 0.0])
def test_a_clip_that_is_no_weight(tmp_path, clip):
    with pytest.raises(InvalidInput, match="must be a weight above 0"):
        train_clicks(leaking(tmp_path), clip=clip, position_bias=[1.0, 0.5, 0.33])


def test_a_text_column_is_refused_with_the_option_that_leaves_it_out(tmp_path):
    path = written(tmp_path, "impression,position,click,f,brand", "0,1,1,2.5,acme", "0,2,0,1.5,acme")
    with pytest.raises(InvalidInput, match="--without brand"):
        read_click_log(path)
    assert read_click_log(path, ["brand"]).feature_names == ("f",)
