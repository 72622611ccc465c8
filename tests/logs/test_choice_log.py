"""Logs as tables: columns by name, CSV and Parquet alike, faults by row, the Open Bandit layout."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.cli import main
from rankloop.core.errors import InvalidInput
from rankloop.data.folder import absence_notice, data_folder
from rankloop.evaluation import ChoiceLog, estimate
from rankloop.logs import table_reader as module

TEXT = "ad,click,propensity,target,age,city\na,1,0.5,0.25,31,x\nb,0,0.25,0.5,,y\na,1,0.1,0.2,44,\n"


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(TEXT)
    return path


def test_columns_are_recognised_and_read(csv):
    table = ChoiceLog(csv)
    assert table.columns == ("ad", "click", "propensity", "target", "", ("age", "city"), ())
    (piece,) = table.pieces()
    assert piece.first_row == 1
    assert piece.action.tolist() == ["a", "b", "a"]
    assert piece.reward.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(piece.context["age"], [31, np.nan, 44])
    assert piece.context["city"].tolist() == ["x", "y", None]
    assert estimate(table.rows()).value == pytest.approx((0.5 + 2) / 3)


def test_packed_csv_and_parquet_say_the_same(csv, tmp_path):
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    parquet = tmp_path / "log.parquet"
    columns = {"ad": ["a", "b", "a"], "click": [1, 0, 1], "propensity": [0.5, 0.25, 0.1], "target": [0.25, 0.5, 0.2]}
    pq.write_table(pa.table(columns), parquet)
    for path in (packed, parquet):
        assert estimate(ChoiceLog(path).rows()) == estimate(ChoiceLog(csv).rows())


def test_columns_may_be_named(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("what,gain,p\n7,1,0.5\n")
    with pytest.raises(InvalidInput, match="no column that is clearly the shown ad"):
        ChoiceLog(path)
    with pytest.raises(InvalidInput, match="no column 'gian'; did you mean 'gain'"):
        ChoiceLog(path, action="what", reward="gian")
    assert ChoiceLog(path, action="what", reward="gain", propensity="p").columns[:3] == ("what", "gain", "p")


@pytest.mark.parametrize(
    "roles", ["ad,click,propensity,clicked,Time", "ad,reward,prob,Click,Time", "ad,clicks,pscore,is click,Time"]
)
def test_a_second_name_for_the_click_is_no_context(tmp_path, roles):
    path = tmp_path / "log.csv"
    path.write_text(f"{roles},age\na,1,0.5,1,7,31\nb,0,0.5,0,8,44\n")
    table = ChoiceLog(path)
    action, click, propensity, other, time = roles.split(",")
    assert table.columns[:3] == (action, click, propensity)
    assert table.columns.context == ("age",)
    assert table.columns.left_out == (other, time)
    (piece,) = ChoiceLog(path, reward=other).pieces()
    assert list(piece.context) == ["age"]


def test_headers_are_read_as_csv(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('ad,"click", propensity,"age, years"\na,1,0.5,31\n')
    (piece,) = ChoiceLog(path).pieces()
    assert piece.propensity.tolist() == [0.5]
    assert piece.context["age, years"].tolist() == [31]
    path.write_text("ad,click,propensity,age,age\na,1,0.5,31,32\n")
    with pytest.raises(InvalidInput, match="two columns 'age'"):
        ChoiceLog(path)
    path.write_text('{"ad": "a", "click": 1, "propensity": 0.5}\n')
    assert ChoiceLog(path).columns[:3] == ("ad", "click", "propensity")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,1,0,0.2,1,x", "log.csv, row 4: the propensity is 0.0"),
        ("a,1,,0.2,1,x", "log.csv, row 4: the propensity is missing"),
        ("a,1,many,0.2,1,x", "log.csv, row 4: propensity is 'many'; it must be a number$"),
        ("a,no,many,0.2,1,x", r"log.csv, row 4: click is 'no'; it must be a number \(0 or 1\)"),
        ("a,,0.5,0.2,1,x", "row 4: the reward is nan"),
    ],
)
def test_faults_name_their_row(csv, line, message):
    csv.write_text(TEXT + line + "\n")
    with pytest.raises(InvalidInput, match=message):
        estimate(ChoiceLog(csv).rows())


def test_texts_for_numbers_in_parquet_name_their_row(tmp_path):
    path = tmp_path / "log.parquet"
    columns = {"ad": ["a", "b"], "click": ["1", "no"], "propensity": [0.5, 0.5], "target": [0.5, 0.5]}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(InvalidInput, match=r"log.parquet, row 2: click is 'no'; it must be a number \(0 or 1\)"):
        estimate(ChoiceLog(path).rows())


def test_a_log_without_propensities_is_sent_to_the_answer(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("ad,click\na,1\n")
    with pytest.raises(InvalidInput, match=r"add --column propensity=NAME .*docs/faq.md, 'My log has no propensities'"):
        ChoiceLog(path)


def test_rows_are_counted_over_all_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PIECE_ROWS", 10)
    path = tmp_path / "log.parquet"
    propensity = np.full(35, 0.5)
    propensity[33] = 0.0
    pq.write_table(pa.table({"ad": [1] * 35, "click": [0] * 35, "propensity": propensity, "target": [0.5] * 35}), path)
    assert [piece.first_row for piece in ChoiceLog(path).pieces()] == [1, 11, 21, 31]
    with pytest.raises(InvalidInput, match="row 34: the propensity is 0"):
        estimate(ChoiceLog(path).rows())


@pytest.mark.skipif(data_folder() is None, reason=absence_notice("the Open Bandit Dataset"))
def test_the_open_bandit_layout():
    table = ChoiceLog("clicks/obd/random/men.csv.gz")
    assert table.columns[:5] == ("item_id", "click", "propensity_score", "", "position")
    assert len(table.columns.context) == 4 + 34
    n_rows = sum(len(piece.reward) for piece in table.pieces())
    assert n_rows == 10_000
    assert {float(p) for piece in table.pieces() for p in piece.propensity} == {1 / 34}


def test_the_command_says_what_is_no_context(tmp_path, capsys):
    """Two more names of the click would make any policy look perfect."""
    rng, path = np.random.default_rng(0), tmp_path / "log.csv"
    clicks = (rng.random(400) < 0.3).astype(int)
    lines = [f"{'xyz'[n % 3]},{click},0.3333,{n % 7},{click},{click}" for n, click in enumerate(clicks.tolist())]
    path.write_text("ad,reward,propensity,age,click,is_click\n" + "\n".join(lines) + "\n")
    with pytest.raises(SystemExit) as leaving:
        main(["train-policy", str(path), "--out", str(tmp_path / "out")])
    assert not leaving.value.code
    assert "context: age (number); not context, by their names: click, is_click" in capsys.readouterr().out
