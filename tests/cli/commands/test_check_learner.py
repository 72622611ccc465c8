"""`rankloop check-learner`: each contract in a line, faults with how to fix them, exit codes, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankloop.cli import main
from rankloop.contracts.suite import TRIALS
from tests.docs.pages import ROOT, blocks_of
from tests.imported_learners import forgotten_afterwards

GUIDE = blocks_of(ROOT / "docs" / "guides" / "add-a-learner.md")[0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to write learners into; what they change in this process is undone."""
    monkeypatch.chdir(tmp_path)
    with forgotten_afterwards(tmp_path):
        yield tmp_path


def _checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["check-learner", *arguments])
    captured = capsys.readouterr()
    return int(left.value.code or 0), captured.out, captured.err


def test_the_learner_of_the_guide_keeps_every_contract(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mean_grade.py").write_text('print("hello")\n' + GUIDE, encoding="utf-8")
    code, out, err = _checked(capsys, "mean_grade.py")
    head, *lines, verdict = out.splitlines()
    assert (code, head) == (0, "mean_grade (mean_grade:MeanGrade)")
    assert [line.split()[:2] for line in lines] == [["ok", name] for name in TRIALS]
    assert verdict.startswith(f"mean_grade keeps all {len(TRIALS)} contracts (")
    assert err == "hello\n"


def test_what_is_failing_is_said_with_how_to_fix_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = GUIDE.replace("state.counts.copy()", "state.counts")
    assert text != GUIDE
    (folder / "bad_grade.py").write_text(text.replace('"mean_grade"', '"bad_grade"'), encoding="utf-8")
    code, out, _ = _checked(capsys, "bad_grade:MeanGrade", "--contract", "purity", "--contract", "spec")
    assert code == 1
    assert "FAILED  purity" in out
    assert "changed in place at state" in out
    assert "to fix it: copy before you write" in out
    assert "fails 1 of 2 contracts" in out.splitlines()[-1]
    code, out, _ = _checked(capsys, "bad_grade.py", "--json", "--contract", "purity", "--contract", "spec")
    (table,) = json.loads(out)
    found = {one["name"]: one for one in table["contracts"]}
    assert (code, table["kind"], table["kept"]) == (1, "bad_grade", False)
    assert sorted(found) == ["purity", "spec"]
    assert "MeanGrade(bonus=1.0) on Problem(" in found["purity"]["case"]
    assert found["spec"]["failure"] is None


def test_what_cannot_be_built_says_so_and_stops(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = GUIDE.replace("bonus: Positive = 1.0", "bonus: Positive").replace('"mean_grade"', '"no_grade"')
    (folder / "no_grade.py").write_text(text, encoding="utf-8")
    code, out, _ = _checked(capsys, "no_grade.py")
    assert code == 1
    assert "FAILED  cases" in out
    assert "examples: ClassVar" in out
    assert out.splitlines()[-1].startswith("no_grade fails 1 of 1 contracts")


@pytest.mark.parametrize(
    ("target", "content", "message"),
    [
        ("nosuch.py", None, "there is no file"),
        ("fair_pears", None, "there is no module 'fair_pears'"),
        ("fair_pears", None, "did you mean 'fair_pairs'?"),
        ("empty_one.py", "x = 1\n", "empty_one.py registers no learner: write @register"),
        ("empty_two.py:Mine", "x = 1\n", "empty_two.py has no class 'Mine'"),
        ("broken_one.py", "1 / 0\n", "broken_one cannot be imported: ZeroDivisionError"),
    ],
)
def test_what_is_no_learner_is_one_line(
    target: str, content: str | None, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (folder / target.partition(":")[0]).write_text(content)
    code, out, err = _checked(capsys, target)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_learner_of_ours_by_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _checked(capsys, "random_order", "--json", "--contract", "purity", "--contract", "log_prob")
    (table,) = json.loads(out)
    assert (code, table["kept"], len(table["contracts"])) == (0, True, 2)
    code, _, err = _checked(capsys, "random_order", "--contract", "pure")
    assert code == 2
    assert "there is no contract 'pure'; did you mean 'purity'" in err
