"""The command line: every command explains itself, an error is one line and exit code 2, nothing is half-written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import typer

from rankloop.cli.app import app
from rankloop.cli.main import import_commands, main
from rankloop.experiments.run.runner import RUNS_FILE, read_runs

# Options of several commands, which mean the same in each; a command has at most MAX_OWN_OPTIONS others.
SHARED_OPTIONS = frozenset(
    [
        "--allow-origin",
        "--column",
        "--data",
        "--engine",
        "--feature",
        "--host",
        "--import",
        "--json",
        "--log",
        "--loss",
        "--measure",
        "--model",
        "--out",
        "--plot",
        "--port",
        "--position-bias",
        "--quick",
        "--ranker",
        "--regularisation",
        "--schema",
        "--seed",
        "--skip-bad-rows",
        "--trees",
        "--without",
        "--workers",
    ]
)
MAX_OWN_OPTIONS = 10

import_commands()
COMMANDS = sorted(typer.main.get_group(app).commands)
SPEC = """
stream = { kind = "flipped_relevance", n_items = 4, n_relevant = 2 }
measures = ["DCG"]
horizon = 100
seeds = 2

[[arms]]
name = "leader"
learner = { kind = "ftpl", horizon = "$horizon", measure = "DCG" }

[[claims]]
text = "It learns."
check = "above"
left = "leader"
right = "random order"
measure = "DCG"
"""


def _code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(SPEC)
    return tmp_path / "tiny.toml"


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(
    command: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _code(command, flag) == 0
    out = capsys.readouterr().out
    assert re.search(rf"Examples?:\n(  .*\n)*  (\w+=\S+ )?rankloop {command}", out)
    assert "<class" not in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_the_terminal(
    command: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert _code(command, "-h") == 0
    explained = capsys.readouterr().out.split("Example")[0].splitlines()
    assert max(map(len, explained)) <= width


def test_every_option_says_what_it_takes_and_what_for() -> None:
    for command in typer.main.get_group(app).commands.values():
        for param in command.params:
            assert param.hidden or param.help, (command.name, param.name)
            assert param.hidden or param.metavar or getattr(param, "is_flag", False), (command.name, param.name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "No such command 'nosuch'; see `rankloop --help`"),
        (["lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["run"], "Missing argument 'SPEC'; see `rankloop run --help`"),
        (["run", "--xyzzy"], "No such option: --xyzzy; see `rankloop run --help`"),
        (["run", "--sedes", "3"], "No such option: --sedes; did you mean --seeds?"),
        (["run", "tiny.toml", "more"], "unexpected extra argument(s) (more)"),
        (["run", "tiny.toml", "--seeds", "x"], "'--seeds': "),
        (["run", "tiny.toml", "--import", "nosuch_module"], "there is no module 'nosuch_module'"),
        (["analyse", "-m", "zebra"], "for your own kind add --import MODULE"),
        (["evaluate"], "give RANKINGS and TRUTH, or a log"),
        (["train", "x.txt", "--engine", "moon"], "'moon' is not one of"),
        (["run", "nosuch.toml"], "there is no file nosuch.toml"),
        (["run", "."], "directory"),
        (["run", "tiny.toml", "--seeds", "0"], "'--seeds': "),
        (["run", "tiny.toml", "--engine", "moon"], "moon"),
        (["run", "bad.toml"], "no field 'horizn'; did you mean 'horizon'"),
        (["list", "lerners"], "did you mean 'learners'"),
        (["demo", "--rounds", "1"], "--rounds"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (spec.parent / "bad.toml").write_text(SPEC.replace("horizon = 100", "horizn = 100"))
    assert _code(*arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("rankloop: ")
    assert message in error
    assert sorted(path.name for path in spec.parent.iterdir()) == ["bad.toml", "tiny.toml"]


def test_a_folder_that_cannot_be_written_is_one_line(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (spec.parent / "file").write_text("")
    assert _code("run", "tiny.toml", "--out", "file/inside", "--engine", "here") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_defect_is_told_apart_and_shows_where_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("rankloop.cli.app.print_version", broken)
    assert _code("version") == 1
    assert "a defect of rankloop" in capsys.readouterr().err
    monkeypatch.setenv("RANKLOOP_TRACEBACK", "1")
    assert _code("version") == 1
    assert "Traceback" in capsys.readouterr().err


def test_run_prints_tables_verdicts_and_the_report(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _code("run", "tiny.toml", "--engine", "here") == 0
    out = capsys.readouterr().out
    assert "leader" in out
    assert "It learns." in out
    assert "report: results/tiny/report.html" in out
    assert sorted(path.name for path in Path("results/tiny").iterdir()) == [
        "charts",
        "report.html",
        "results.csv",
        "results.tex",
        "runs.jsonl",
        "runs.parquet",
    ]


def test_run_as_json(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _code("run", "tiny.toml", "--engine", "here", "--json", "--seeds", "1", "--quick") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["experiment"] == "tiny-quick"
    assert told["rounds"] == 5
    assert {row["arm"] for row in told["results"]} == {"leader", "random order", "best possible"}
    assert told["claims"][0]["word"] in ("holds", "partly", "does not hold")


def test_a_second_run_repeats_nothing(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert _code("run", "tiny.toml", "--engine", "here", "--json") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert len(read_runs(Path("results/tiny"))) == 6


def test_another_spec_in_the_same_folder_says_what_to_do(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _code("run", "tiny.toml", "--engine", "here") == 0
    spec.write_text(SPEC.replace("horizon = 100", "horizon = 101"))
    assert _code("run", "tiny.toml", "--engine", "here") == 2
    assert "choose another folder with --out" in capsys.readouterr().err


def test_list_shows_every_kind_and_its_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    from rankloop.core.registry import entries

    assert _code("list") == 0
    out = capsys.readouterr().out
    assert all(entry.kind in out for entry in entries())
    assert _code("list", "learners", "--json") == 0
    listed = json.loads(capsys.readouterr().out)["learners"]
    assert {item["kind"] for item in listed} == {entry.kind for entry in entries("learner")}
    swap = next(item for item in listed if item["kind"] == "3pr")["parameters"][0]
    assert (swap["name"], swap["default"]) == ("swap", 0.5)


def test_demo_ends_with_a_report_and_what_to_try_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _code("demo", "--rounds", "100", "--engine", "here", "--out", str(tmp_path / "demo")) == 0
    out = capsys.readouterr().out
    assert "first 5 %" in out
    assert f"report: {tmp_path / 'demo' / 'report.html'}" in out
    assert out.split("next: rankloop ")[1].split()[0] in COMMANDS
    assert (tmp_path / "demo" / "report.html").exists()


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert _code() == 0
    assert "demo" in capsys.readouterr().out


def test_a_reader_who_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m rankloop list | head -c 10"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(spec: Path) -> None:
    spec.write_text(SPEC.replace("horizon = 100", "horizon = 4000").replace("seeds = 2", "seeds = 100"))
    command = [sys.executable, "-m", "rankloop", "run", "tiny.toml", "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    lines = Path("results/tiny") / RUNS_FILE
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None and not (lines.exists() and lines.stat().st_size):
        time.sleep(0.05)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run the same command again" in error
    assert "Traceback" not in error
    assert 0 < len(read_runs(Path("results/tiny"))) < 300


def _options_of(command: str) -> set[str]:
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    return {name for part in parameters for name in part.opts if name.startswith("--")}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_few_options_of_its_own(command: str) -> None:
    assert len(_options_of(command) - SHARED_OPTIONS) <= MAX_OWN_OPTIONS


def test_shared_options_are_those_of_several_commands() -> None:
    counts = Counter(name for command in COMMANDS for name in _options_of(command))
    assert {name for name in SHARED_OPTIONS if counts[name] < 2} == set()
