"""A learner outside the package on the command line: the guide's file, named in a TOML file or by --import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of

GUIDE = ROOT / "docs" / "guides" / "add-a-learner.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the guide: the learner, the experiment with and without the line that imports it."""
    folder = tmp_path_factory.mktemp("mine")
    learner, *_ = blocks_of(GUIDE)
    table, line, *_ = blocks_of(GUIDE, "toml")
    assert line.startswith("imports = ")
    small = table.replace("horizon = 1000", "horizon = 60").replace("seeds = 4", "seeds = 1")
    (folder / "mean_grade.py").write_text(learner, encoding="utf-8")
    (folder / "with.toml").write_text(line + small, encoding="utf-8")
    (folder / "without.toml").write_text(small, encoding="utf-8")
    return folder


def _rankloop(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from rankloop.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_the_guides_experiment_runs_in_worker_processes(folder: Path) -> None:
    done = _rankloop(folder.parent, "run", str(folder / "with.toml"), "--workers", "1", "--out", "results", "--json")
    assert done.returncode == 0, done.stderr
    assert "mean grade" in {row["arm"] for row in json.loads(done.stdout)["results"]}


def test_the_option_does_the_same(folder: Path) -> None:
    arguments = ("run", "without.toml", "--import", "mean_grade.py", "--workers", "1", "--json")
    done = _rankloop(folder, *arguments)
    assert done.returncode == 0, done.stderr
    listed = _rankloop(folder, "list", "learners", "--import", "mean_grade")
    assert "mean_grade" in listed.stdout


def test_without_it_the_error_says_what_is_needed(folder: Path) -> None:
    done = _rankloop(folder, "run", "without.toml")
    assert done.returncode == 2
    assert done.stderr.startswith("rankloop: without.toml: arms[0].learner: no learner 'mean_grade'")
    assert 'for your own kind add imports = ["MODULE"]' in done.stderr
