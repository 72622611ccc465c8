"""A reproduction that is interrupted goes on, says how long it took, and its report sums up."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from rankloop.core.errors import Conflict, InvalidInput, NotFound
from rankloop.engine import Here
from rankloop.experiments.analysis.verdicts import Verdict, judge
from rankloop.experiments.report.html import MAX_UNFOLDED, _page
from rankloop.experiments.report.model import Chart, Finding, Table
from rankloop.experiments.run.runner import RUNS_FILE, read_runs
from rankloop.experiments.run.tasks import PACKAGE_VERSION, deciding_fields
from rankloop.experiments.spec.load import parse_spec
from research import papers, registry
from research.comparison import play_all
from research.record import RECORD_FILE, finished_records, read_record, summary_json
from research.registry import Reproduction, Setting, find, reproduce, reproduce_into, reproduction
from research.task_cache import TASKS_FILE as KEPT
from research.task_cache import cached_map
from research.verdicts import refutable
from tests.experiments.cases import small

CLAIMS = (
    Verdict("A <bold> claim.", "holds", "0.9 against 0.5", "table 1: 0.91"),
    Verdict("Another.", "cannot hold", "at most 6.6", "section 4: 9.36", "Recovery has a <larger> chance."),
)


def _setting(folder: Path, quick: bool = True) -> Setting:
    return Setting(folder, Here(), lambda finished, of: None, quick)


def _found(setting: Setting) -> Finding:
    return Finding("a", "A", claims=CLAIMS, facts=(("seeds", "0, 1"), ("data", "simulated")), missing=("Yahoo",))


def _interrupted(setting: Setting) -> Finding:
    raise KeyboardInterrupt


def test_the_paper_s_number_stands_beside_ours_on_the_page() -> None:
    text = _page("P", [Finding("a", "A", claims=CLAIMS)], "")
    for part in ("0.9 against 0.5", "table 1: 0.91", "Recovery has a &lt;larger&gt; chance."):
        assert part in text


def test_many_charts_and_tables_are_folded() -> None:
    charts = tuple(Chart(f"c{i}", f"Chart {i}", "", "<svg></svg>", b"") for i in range(MAX_UNFOLDED + 2))
    tables = tuple(Table(f"Table {i}", ("a",), [("1",)]) for i in range(MAX_UNFOLDED))
    text = _page("P", [Finding("a", "A", charts=charts, tables=tables)], "")
    assert text.count("<figure>") == MAX_UNFOLDED + 2
    assert "<summary>2 more figures</summary>" in text
    assert "more tables" not in text


def test_a_claim_s_paper_does_not_change_what_identifies_results() -> None:
    claim = {"text": "t", "check": "above", "left": "leader", "right": "random order", "measure": "DCG"}
    plain, told_ = small(claims=[claim]), small(claims=[claim | {"paper": "table 1: 0.5"}])
    assert deciding_fields(plain) == deciding_fields(told_)
    assert msgspec.to_builtins(told_)["claims"][0]["paper"] == "table 1: 0.5"


def test_a_refutable_statement_has_its_argument_only_when_refuted() -> None:
    assert refutable("t", True, "n", paper="p", argument="why") == Verdict("t", "cannot hold", "n", "p", "why")
    assert refutable("t", False, "n", paper="p", argument="why") == Verdict("t", "holds", "n", "p")
    assert judge.__doc__


def test_seconds_add_up_over_interruptions_and_stay_when_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        reproduce(Reproduction("a", "A", _interrupted), _setting(tmp_path / "a"))
    kept = read_record(tmp_path / "a")
    assert kept is not None
    assert not kept.finished
    assert finished_records(tmp_path) == []
    (tmp_path / "a" / RECORD_FILE).write_bytes(msgspec.json.encode(msgspec.structs.replace(kept, seconds=100.0)))
    finding = reproduce(Reproduction("a", "A", _found), _setting(tmp_path / "a"))
    assert finding.seconds == pytest.approx(100.0, abs=5.0)
    again = reproduce(Reproduction("a", "A", _found), _setting(tmp_path / "a"))
    assert again.seconds == round(finding.seconds or 0.0, 1)
    facts = dict(again.facts)
    assert (facts["seeds"], facts["data"], facts["rankloop"]) == ("0, 1", "simulated", PACKAGE_VERSION)
    assert facts["time"].startswith("100.")


def test_the_summary_holds_what_is_finished(tmp_path: Path) -> None:
    reproduce(Reproduction("a", "A", _found), _setting(tmp_path / "a"))
    summary = json.loads(summary_json(finished_records(tmp_path)))
    [told_] = summary["experiments"]
    assert (told_["id"], told_["version"], told_["quick"], told_["missing"]) == ("a", PACKAGE_VERSION, True, ["Yahoo"])
    assert told_["claims"][1] == msgspec.to_builtins(CLAIMS[1])
    (tmp_path / "a" / RECORD_FILE).write_text("{")
    with pytest.raises(InvalidInput, match="damaged"):
        finished_records(tmp_path)


def doubled(task: int) -> float:
    return 2.0 * task


def test_tasks_are_kept_and_not_repeated(tmp_path: Path) -> None:
    class Counting:
        seen: ClassVar[list[int]] = []

        def map(self, tasks: Any, function: Any, done: Any = None) -> Any:
            self.seen += tasks
            return Here().map(tasks, function, done)

    shown: list[tuple[int, int]] = []
    setting = Setting(tmp_path / "new", Counting(), lambda finished, of: shown.append((finished, of)))
    assert cached_map(setting, [1, 2], doubled) == [2.0, 4.0]
    lines = (tmp_path / "new" / KEPT).read_bytes()
    (tmp_path / "new" / KEPT).write_bytes(lines + b'{"version":"0","task":"doubled 3","result":9.0}\n{"torn')
    assert cached_map(setting, [3, 2, 1], doubled) == [6.0, 4.0, 2.0]
    assert Counting.seen == [1, 2, 3]
    assert shown == [(0, 2), (1, 2), (2, 2), (2, 3), (3, 3)]


def test_several_experiments_are_played_into_folders_of_their_own(tmp_path: Path) -> None:
    experiments = [small(name="one"), small(name="two", horizon=100, checkpoints=[100])]
    shown: list[tuple[int, int]] = []
    setting = Setting(tmp_path, Here(), lambda finished, of: shown.append((finished, of)))
    whole = play_all(experiments, setting)
    assert {run.experiment.name for run in read_runs(tmp_path / "two")} == {"two"}
    lines = (tmp_path / "one" / RUNS_FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / "one" / RUNS_FILE).write_bytes(b"".join(lines[:-1]))
    shown.clear()
    again = play_all(experiments, setting)
    one, two = (len(curves.runs) for curves in whole)
    assert shown == [(one - 1, one), (one, one), (two, two)]
    assert [run.values for run in again[0].runs] == [run.values for run in whole[0].runs]


def test_ctrl_c_in_the_middle_of_all_goes_on(tmp_path: Path) -> None:
    n_runs = 8  # of the four arms of thesis-3.2, two seeds each
    command = [sys.executable, "-m", "research", "reproduce", "table-3.2", "thesis-3.2", "--quick"]
    command += ["--workers", "1", "--json", "--out", str(tmp_path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    lines, deadline = tmp_path / "thesis-3.2" / RUNS_FILE, time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None and not (lines.exists() and lines.stat().st_size):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run the same command again" in error
    before = [(run.key, run.seconds) for run in read_runs(tmp_path / "thesis-3.2")]
    assert 0 < len(before) < n_runs
    assert [record.id for record in finished_records(tmp_path)] == ["table-3.2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told_ = json.loads(done.stdout)["findings"][1]
    assert told_["id"] == "thesis-3.2"
    assert all(claim["paper"] for claim in told_["claims"])
    runs = [(run.key, run.seconds) for run in read_runs(tmp_path / "thesis-3.2")]
    assert runs[: len(before)] == before
    assert len(runs) == n_runs
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [record["id"] for record in summary["experiments"]] == ["table-3.2", "thesis-3.2"]


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the cluster engine needs Ray")
def test_the_cluster_engine_reproduces_the_same_numbers(tmp_path: Path) -> None:
    code = (
        "from research.cli import main; "
        "main(['reproduce', 'top1-2', '--quick', '--engine', 'cluster', '--workers', '1', '--json', '--out', 'c'])"
    )
    importable = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=importable, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here = find("top1-2").work(_setting(tmp_path / "h"))
    claims = json.loads(done.stdout.splitlines()[-1])["findings"][0]["claims"]
    assert msgspec.convert(claims, tuple[Verdict, ...]) == here.claims


@contextmanager
def _silent(id: str) -> Iterator[Any]:
    yield lambda finished, of: None


def test_one_that_fails_is_skipped_only_if_asked(tmp_path: Path) -> None:
    def missing(setting: Setting) -> Finding:
        raise NotFound("there is no data set here")

    items = [Reproduction("a", "A", missing), Reproduction("b", "B", lambda setting: Finding("b", "B"))]
    with pytest.raises(NotFound):
        reproduce_into(tmp_path, items, Here(), _silent)
    findings, report = reproduce_into(tmp_path, items, Here(), _silent, skip_failing=True)
    assert [finding.missing for finding in findings] == [("there is no data set here",), ()]
    assert report.exists()
    assert (tmp_path / "summary.json").exists()


def test_everything_in_the_catalogue_is_valid() -> None:
    for file in resources.files(papers).joinpath("catalogue").iterdir():
        if file.name.endswith(".toml"):
            parse_spec(file.read_text(), file.name, file.name.removesuffix(".toml"))


@pytest.fixture
def no_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_written", {})
    monkeypatch.setattr(registry.pkgutil, "iter_modules", lambda *_: [])


def _work(setting: Setting) -> Finding:
    return Finding("table-0", "T", tables=(Table("t", ("a", "b"), [("1", "2")]),))


@pytest.mark.usefixtures("no_written")
def test_a_function_can_be_a_reproduction(tmp_path: Path) -> None:
    reproduction("table-0", title="A table")(_work)
    found = registry.find("table-0")
    assert found.title == "A table"
    assert found.work(Setting(tmp_path, Here(), lambda done, of: None)).tables
    with pytest.raises(NotFound, match="did you mean 'table-0'"):
        registry.find("tabel-0")
    with pytest.raises(Conflict, match="already"):
        reproduction("table-0", title="Another")(lambda setting: _work(setting))


def test_ids_do_not_repeat_and_titles_are_there() -> None:
    for id, item in registry.everything().items():
        assert item.id == id
        assert re.fullmatch(r"[A-Za-z0-9.-]+", id)
        assert item.title
