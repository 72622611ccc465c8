"""`python -m research`: its commands answer people and programs, and wrong input is one line and exit code 2."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from rankloop.core.errors import NotFound
from rankloop.experiments.report.model import Finding
from research import registry
from research.cli import main
from research.registry import Reproduction, Setting
from research.search import collection
from research.shop import demo


def _code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "thesis-99"], "nothing to reproduce is called 'thesis-99'"),
        (["reproduce", "table-3.1", "--rounds", "5"], "table-3.1 has no option 'rounds': it takes none"),
        (["reprodoce"], "No such command"),
        (["search-study", "--visits", "1"], "--visits"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _code(*arguments, *(["--out", str(tmp_path)] if arguments[0] == "reproduce" else [])) == 2
    error = capsys.readouterr().err
    assert error.startswith("research: ")
    assert error.count("\n") == 1
    assert message in error


def test_all_go_on_where_data_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(setting: Setting) -> Finding:
        raise NotFound("there is no data set here")

    known = {
        "a": Reproduction("a", "Without data", missing),
        "b": Reproduction("b", "A table", lambda setting: Finding("b", f"quick: {setting.quick}")),
    }
    monkeypatch.setattr(registry, "everything", lambda: known)
    assert _code("reproduce", "a", "--out", str(tmp_path)) == 2
    assert not list(tmp_path.iterdir())
    for all_of_them in ([], ["--all"]):
        assert _code("reproduce", *all_of_them, "--quick", "--out", str(tmp_path)) == 0
        out = capsys.readouterr().out
        assert "Not reproduced: there is no data set here" in out
        assert "b: quick: True" in out
    assert _code("reproduce", "b", "--json", "--out", str(tmp_path)) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["id"] == "b"


def test_list_names_every_figure_and_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert _code("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(registry.everything())
    assert _code("list", "--json") == 0
    titles = {item["id"]: item["title"] for item in json.loads(capsys.readouterr().out)}
    assert titles["coactive-table-1"] == "What is shown against what is predicted"
    assert {"thesis-2.1", "thesis-3.1", "top1-2", "table-5.1", "search-study", "corrections"} <= set(titles)


def test_the_shop_prints_clicks_per_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert _code("shop", "--visits", "60", "--out", str(tmp_path)) == 0
    out = capsys.readouterr().out
    assert all(text in out for text in ("clicks per page", "most clicked first", demo.PEER_MISSING_TEXT))
    assert (tmp_path / "report.html").exists()
    assert _code("shop", "--visits", "60", "--json", "--out", str(tmp_path)) == 0
    clicks = json.loads(capsys.readouterr().out)["shop"]
    assert 0 < clicks["random order"]["clicks per page"] < clicks["best possible"]["clicks per page"]


def test_a_search_study_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    monkeypatch.setattr(collection, "TOPICS", 5)
    assert _code("search-study", "--visits", "45", "--seed", "3", "--json") == 0
    captured = capsys.readouterr()
    end = json.loads(captured.out)
    assert (end["data"], end["visits"]) == ("made-up documents", 45)
    assert 0 < end["wins"] + end["losses"] + end["ties"] < 45
    assert 0 < end["p_value"] <= 1
    assert "Cranfield is not on this machine" in captured.err
    assert _code("search-study", "--visits", "8") == 0
    assert re.search(r"wins \d+, losses \d+, ties \d+: p = \S+ at any time", capsys.readouterr().out)
    assert os.listdir(tmp_path) == []
