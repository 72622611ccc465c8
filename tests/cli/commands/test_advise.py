"""`rankloop advise`: the whole table, one row with a program to start from, and the verdict on a measure."""

import json
from pathlib import Path

import pytest

from rankloop.advice import table
from rankloop.cli import main

PICTURE = Path(__file__).parents[3] / "docs" / "images" / "which-learner.svg"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main(["advise", *arguments])
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err


def test_without_options_the_first_choices(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    firsts = [row for row in table() if not row.when]
    lines = out.splitlines()
    assert code == 0
    for row, line in zip(firsts, lines, strict=False):
        assert line.startswith(f"--feedback {row.feedback} --items {row.items} ")
        assert line.endswith(f": {row.use}")
        code, answer, _ = run(capsys, *line.split()[:4])  # every line is a question that has an answer
        assert code == 0
        assert answer.startswith(f"Use {row.use}: {row.why}.")


def test_a_row_with_its_alternatives(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--feedback", "clicks", "--items", "features")
    assert code == 0
    assert 'Ranker("newton_pairs", features=["price", "rating"])' in out
    others = [row for row in table() if (row.feedback, row.items) == ("clicks", "features") and row.when]
    assert all(f"  {row.when}: {row.use}; {row.why}" in out for row in others)


def test_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--feedback", "clicks", "--items", "12", "--json")
    found = json.loads(out)
    assert (found["learner"], found["items"]) == ("top_rank", "fixed")
    assert "range(12)" in found["start"]
    assert [row["learner"] for row in found["otherwise"]] == ["cascade_ucb"]
    _, out, _ = run(capsys, "--feedback", "files", "--json")
    assert (json.loads(out)["learner"], json.loads(out)["start"]) == (None, "rankloop train train.txt")
    _, out, _ = run(capsys, "--json")
    assert len(json.loads(out)) == len(table())


@pytest.mark.parametrize(
    ("arguments", "learner"),
    [
        (("-m", "DCG", "--items", "10"), "rtopk(measure='DCG')"),
        (("-m", "DCG", "--items", "10", "-f", "grades"), "ftpl(measure='DCG')"),
        (("-m", "DCG", "--items", "10", "-f", "grades", "--depth", "2"), "rtopk(measure='DCG')"),
        (("-m", "P@2", "--max-grade", "1"), "precision_bandit(n=2)"),
    ],
)
def test_a_measure_gets_a_verdict_and_a_program_that_runs(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], learner: str
) -> None:
    _, out, _ = run(capsys, *arguments, "--json")
    found = json.loads(out)
    assert found["learner"] == learner
    names: dict[str, object] = {}
    exec(found["start"], names)  # noqa: S102
    capsys.readouterr()
    _, text, _ = run(capsys, *arguments)
    assert text.splitlines()[:3] == [found["answer"], found["speed"], found["recommendation"]]
    assert f"    ranker = Ranker({json.dumps(learner)}" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--feedback", "click"), "feedback must be one of clicks, order"),
        (("--feedback", "clicks", "--items", "many"), "or the size of a fixed set"),
        (("--items", "0"), "at least 1 item"),
        (("--depth", "0", "--items", "features"), "--depth 0: give 1"),
        (("--feedback", "clicks", "-m", "nDCG"), "--measure works with the feedback grades"),
        (("--items", "features", "-m", "nDCG"), "give --items a number"),
        (("--feedback", "files", "--items", "3"), "items 'features' only"),
    ],
)
def test_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_the_picture_shows_the_first_choices() -> None:
    picture = PICTURE.read_text(encoding="utf-8")
    assert all(row.use in picture for row in table() if not row.when and row.learner)
