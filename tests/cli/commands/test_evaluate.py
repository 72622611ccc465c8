"""`rankloop evaluate` from arguments to output."""

import json
from pathlib import Path

import pytest

from rankloop.cli import main
from rankloop.core.registry import build
from rankloop.core.saved_session import save
from rankloop.core.session import Session
from rankloop.core.types import Problem
from rankloop.evaluation.ranking.score import score_model, was_normalised

LETOR = "1 qid:1 1:0.1 2:9\n0 qid:1 1:0.9 2:0\n0 qid:2 1:0.2\n0 qid:2 1:0.1\n"
RUN = "q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\nq2 Q0 a 1 2.0 t\n"
QRELS = "q1 0 a 0\nq1 0 b 1\nq2 0 a 1\nq3 0 a 1\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    weights = {"kind": "fixed_weights", "weights": [1.0, 0.0, 0.0]}
    save(Session(build(weights), Problem(n_features=3)), tmp_path / "model.rankloop")
    for name, text in {"test.txt": LETOR, "a.run": RUN, "a.qrels": QRELS}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main(["evaluate", *arguments])
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err


@pytest.mark.usefixtures("files")
def test_a_model_on_a_letor_file_with_fewer_features(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "model.rankloop", "test.txt", "-m", "RR", "-m", "RR(empty='skip')", "-q")
    assert code == 0
    *table, last = out.splitlines()
    assert [line.split() for line in table] == [
        ["RR", "RR(empty='skip')"],
        ["1", "0.5000", "0.5000"],
        ["2", "0.0000", "nan"],
        ["all", "0.2500", "0.5000"],
    ]
    assert last == "2 queries; RR(empty='skip'): 1 counted, the others have no relevant item"


@pytest.mark.usefixtures("files")
def test_a_model_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "model.rankloop", "test.txt", "-m", "RR(empty='skip')", "--per-query", "--json")
    assert json.loads(out) == {
        "n_queries": 2,
        "counted": {"RR(empty='skip')": 1},
        "overall": {"RR(empty='skip')": 0.5},
        "per_query": {"1": {"RR(empty='skip')": 0.5}, "2": {"RR(empty='skip')": None}},
    }


@pytest.mark.usefixtures("files")
def test_a_run_against_judgments(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "a.run", "a.qrels", "-m", "AP", "--json")
    assert json.loads(out)["overall"] == {"AP": (1 / 2 + 1) / 2}
    _, out, _ = run(capsys, "a.run", "a.qrels", "-m", "AP", "--json", "--every-query")
    assert json.loads(out)["overall"] == {"AP": (1 / 2 + 1 + 0) / 3}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.run", "a.qrels", "-m", "nDGC@10"], "did you mean 'nDCG'"),
        (["a.qrels", "a.run"], "a.qrels, line 1: 4 columns"),
        (["nowhere", "a.qrels"], "nowhere"),
        (["model.rankloop", "a.qrels"], "a.qrels"),
        (["model.rankloop", "nowhere"], "nowhere"),
        (["a.run"], "give RANKINGS and TRUTH"),
    ],
)
def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", [["evaluate", "--log", "x.csv"], ["train", "x.csv"], ["train-clicks", "x.csv"]])
def test_a_missing_file_is_called_so(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(command)
    assert leaving.value.code == 2
    assert capsys.readouterr().err == "rankloop: there is no file 'x.csv'\n"


def test_score_model_is_what_the_command_prints(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = score_model(files / "model.rankloop", files / "test.txt", ["RR", "AP"])
    _, out, _ = run(capsys, "model.rankloop", "test.txt", "-m", "RR", "-m", "AP", "--json")
    assert json.loads(out)["overall"] == scores.overall
    assert not was_normalised(files / "model.rankloop")
