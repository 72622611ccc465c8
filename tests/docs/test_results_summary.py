"""The page of reproductions is made from what is kept, and keeping is one command."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rankloop.experiments.analysis.verdicts import Verdict
from research.record import Record, write_record

FILE = Path(__file__).parents[2] / "docs" / "results" / "summary.py"
REFUTED = Verdict("It is so.", "cannot hold", "at most 6.6", "section 4: 9.36", "It recovers sooner.")


@pytest.fixture
def summary(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("results_summary", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "results_summary", module)
    spec.loader.exec_module(module)
    return module


def test_finished_experiments_are_kept_and_shown(summary: ModuleType, tmp_path: Path) -> None:
    claims = (Verdict("A.", "holds", "1 against 0"), REFUTED)
    record = Record(id="a", title="A | B", seconds=61.25, data="simulated", options="rounds 10", claims=claims)
    write_record(tmp_path / "r" / "a", record)
    write_record(tmp_path / "r" / "b", Record(id="b", title="B", seconds=1.0, finished=False))
    kept = tmp_path / "summary.json"
    summary.main([str(tmp_path / "r"), "--out", str(kept)])
    text = summary.shown(kept)
    assert "| `a` | A \\| B | 1 cannot hold as printed; our own: 1 hold | simulated | 61.2 s (rounds 10) |" in text
    assert "- **It is so.** (section 4: 9.36). It recovers sooner. Here: at most 6.6. (`a`)" in text
    assert "`b`" not in text


def test_the_mark_is_replaced_on_the_page(summary: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "KEPT", tmp_path / "none.json")
    page = (FILE.parents[1] / "reproductions.md").read_text(encoding="utf-8")
    assert summary.MARK in page
    assert "No results are kept here yet" in summary.on_page_markdown(page, page=None, config=None, files=None)
    assert summary.on_page_markdown("text", page=None) == "text"


def test_the_command_of_the_page_runs_in_a_clone() -> None:
    page = (FILE.parents[1] / "reproductions.md").read_text(encoding="utf-8")
    [module] = re.findall(r"`python -m (\S+) results/reproduce`", page)
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, cwd=FILE.parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--keep-others" in done.stdout
