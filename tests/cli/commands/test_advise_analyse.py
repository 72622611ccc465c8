"""`rankloop analyse` and `rankloop advise` from arguments to output."""

import json

import pytest

from rankloop.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err


def test_all_depths_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "analyse", "--measure", "nDCG", "--items", "4", "--all-depths")
    assert code == 0
    rows = [words for words in map(str.split, out.splitlines()) if len(words) == 3 and words[0].isdigit()]
    expected = [["1", "hopeless", "T"], ["2", "hopeless", "T"], ["3", "two_thirds", "T^(2/3)"], ["4", "sqrt", "√T"]]
    assert rows == expected
    assert "decided by closed form" in out


def test_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "analyse", "-m", "AP", "--items", "4", "--depth", "2", "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["source"]) == (0, "hopeless", "closed form")
    assert found["certificate"]["kind"] == "Unseen"
    _, out, _ = run(
        capsys, "analyse", "-m", "PairwiseLoss", "--items", "3", "--max-grade", "2", "--all-depths", "--json"
    )
    assert [one["verdict"] for one in json.loads(out)] == ["hopeless", "two_thirds", "sqrt"]


def test_advice_in_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "advise", "--measure", "nDCG", "--depth", "1", "--items", "10")
    assert code == 0
    assert len(out.strip().splitlines()) == 3
    _, out, _ = run(capsys, "advise", "-m", "P@3", "--items", "10", "--json")
    assert json.loads(out)["learner"] == "precision_bandit(n=3)"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("analyse", "--depth", "0"), "depth must be a whole number from 1"),
        (("analyse", "--items", "4", "--depth", "5"), "--depth 5 is larger than the number of items: give at most 4"),
        (
            ("advise", "-m", "nDCG", "--items", "4", "--depth", "5"),
            "--depth 5 is larger than the number of items: give at most 4",
        ),
        (
            ("advise", "-f", "top_grades", "--items", "4", "--depth", "5"),
            "--depth 5 is larger than the number of items: give at most 4",
        ),
        (("analyse", "-m", "nDGC"), "did you mean 'nDCG'"),
        (("advise", "--items", "0"), "at least 1 item"),
    ],
)
def test_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert len(err.splitlines()) == 1
