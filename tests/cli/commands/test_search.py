"""`rankloop search`, as it is typed."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest

from rankloop.cli.commands.search import _forget_options
from rankloop.cli.main import main
from rankloop.core.errors import InvalidInput
from rankloop.search.box import SearchBox, data_beside
from rankloop.service.records import Ranked
from tests.search.boxes import NOTES, box_over, content_of, prefer, records, write_notes

VISITOR = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("source", "data"),
    [
        ("notes", "notes-rankloop"),
        ("notes/", "notes-rankloop"),
        ("a/notes", "a/notes-rankloop"),
        ("/a/notes", "/a/notes-rankloop"),
        ("a/articles.jsonl", "a/articles.jsonl-rankloop"),
        ("../notes", "../notes-rankloop"),
    ],
)
def test_data_are_beside_the_source(source: str, data: str) -> None:
    assert data_beside(Path(source)) == Path(data)


def test_data_are_beside_this_folder_and_the_one_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "above" / "here"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert data_beside(Path()) == data_beside(Path("./")) == (tmp_path / "above" / "here-rankloop").resolve()
    assert data_beside(Path("..")) == (tmp_path / "above-rankloop").resolve()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("boat", {"query": "boat"}),
        ("two boats: a story", {"query": "two boats: a story"}),
        (VISITOR, {"visitor": VISITOR}),
        (VISITOR.upper(), {"query": VISITOR.upper()}),
        ("30", {"days": 30.0}),
        (" 30 ", {"days": 30.0}),
        ("0", {"days": 0.0}),
        ("1.5d", {"days": 1.5}),
        ("7 days", {"days": 7.0}),
        ("1 day", {"days": 1.0}),
        ("-3", {"query": "-3"}),
        ("query:30", {"query": "30"}),
        (f"query:{VISITOR}", {"query": VISITOR}),
        ("query:visitor:x", {"query": "visitor:x"}),
        ("visitor:me", {"visitor": "me"}),
        ("days:3", {"days": 3.0}),
        ("days:3d", {"days": 3.0}),
        ("days: 3 days ", {"days": 3.0}),
    ],
)
def test_what_is_forgotten(text: str, what: dict[str, object]) -> None:
    assert _forget_options(text) == what


@pytest.mark.parametrize("text", ["days:", "days:x", "days:-1", "days:1e9", "days:nan"])
def test_what_is_no_number_of_days(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a number of days"):
        _forget_options(text)


def code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["search", *arguments])
    return int(left.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Notes, and a box that has learned from three searches."""
    with box_over(tmp_path) as box:
        prefer(box, "knots.md", "boat", visitor="anne", times=2)
        prefer(box, "knots.md", "harbour boat", visitor=VISITOR, times=1)
    return tmp_path


@pytest.mark.parametrize(
    ("what", "count", "left"),
    [
        ("boat", 2, ["harbour boat"]),
        ("query:BOAT", 2, ["harbour boat"]),
        (VISITOR, 1, ["boat", "boat"]),
        ("visitor:anne", 2, ["harbour boat"]),
        ("30", 0, ["boat", "boat", "harbour boat"]),
        ("0d", 3, []),
        ("nothing like it", 0, ["boat", "boat", "harbour boat"]),
    ],
)
def test_forget(folder: Path, capsys: pytest.CaptureFixture[str], what: str, count: int, left: list[str]) -> None:
    data = folder / "data"
    where = [str(folder / "notes"), "--data", str(data)]
    assert code(*where, "--forget", what, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"forgotten": count}
    assert [record.event.query_id for record in records(data) if isinstance(record.event, Ranked)] == left
    assert (VISITOR.encode() in content_of(data)) is ("harbour boat" in left)
    assert code(*where, "--forget", what) == 0
    assert capsys.readouterr().out in ("deleted searches: 0\n",)


@pytest.mark.parametrize("what", ["days:x", "visitor:"])
def test_what_cannot_be_forgotten_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    assert code(str(folder / "notes"), "--data", str(folder / "data"), "--forget", what) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["nowhere", "--forget", "boat"], "nowhere"),
        (["empty"], "no text"),
        (["image.png"], "can be searched"),
        (["--engine", "none"], "must be NAME=URL of"),
        (["notes", "--host", "0.0.0.0"], "RANKLOOP_KEYS"),
        (["notes", "--mcp", "stdio", "--watch"], "without --watch"),
        (["notes", "--port", "70000"], "'--port': "),
        (["table.csv", "--column", "id=key"], "no text"),
        (["table.csv", "--column", "key"], "then =, then a column"),
        (["table.csv", "--column", "at=day"], "columns are id, title and body"),
        ([], "give a folder or file to search"),
        (["notes", "--engine", "solr=http://127.0.0.1:9/solr/notes"], "give a folder or file to search"),
        (["--engine", "lucene=http://127.0.0.1:9/notes"], "NAME=URL of postgresql, opensearch"),
        (["--engine", "postgresql=postgresql://127.0.0.1:9/data/notes"], "does not answer"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_notes(tmp_path / "notes")
    (tmp_path / "empty").mkdir()
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    (tmp_path / "table.csv").write_text("id,title,body\n1,a,b\n")
    assert code(*arguments, "--no-open") == 2
    found = capsys.readouterr().err.splitlines()
    assert said in found[-1]
    assert found[-1].startswith("rankloop: ")
    if arguments == ["nowhere"]:
        assert not (tmp_path / "nowhere-rankloop").exists()


@pytest.mark.parametrize("mode", [["--mcp", "stdio"], ["--forget", "boat"]])
def test_every_option_of_the_box_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: list[str]) -> None:
    options: dict[str, object] = {}

    def record(source: Path, data: Path, **given: object) -> SearchBox:
        options.update(given)
        return SearchBox(source, data, **given)  # type: ignore[arg-type]

    monkeypatch.setattr("rankloop.search.box.SearchBox", record)
    monkeypatch.setattr("rankloop.search.integrations.agent_server.make_agent_server", lambda box, visitor: Mock())
    write_notes(tmp_path / "notes")
    arguments = ["--language", "german", "--meaning", "off", "--seed", "3", "--remember-visitors"]
    assert code(str(tmp_path / "notes"), *arguments, *mode) == 0
    expected = {"engine": None, "language": "german", "meaning": "off", "seed": 3, "columns": {}, "fields": ()}
    assert options == expected | ({"remember_visitors": True} if "--mcp" in mode else {})


def test_help_names_what_is_kept_and_how_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    assert code("--help") == 0
    text = capsys.readouterr().out
    for part in ("--forget", "--study", "--column", "--field", "--no-open", "rankloop search notes/"):
        assert part in text
    assert "Queries are stored" in text


def test_it_serves_beside_the_source_and_stops(tmp_path: Path) -> None:
    write_notes(tmp_path / "notes", NOTES)
    (tmp_path / "notes" / "picture.txt").write_bytes(b"\x00\x01")
    command = [sys.executable, "-m", "rankloop", "search", "notes", "--no-open", "--json"]
    with subprocess.Popen(
        [*command, "--port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            address = None
            while address is None:
                line = process.stderr.readline()
                assert line, "it ended"
                address = re.search(r"searching 4 documents on (http://127.0.0.1:\d+)/search", line)
            found = httpx.post(f"{address[1]}/search", json={"text": "boat"}, timeout=60).json()
            assert {result["id"] for result in found["results"]} == {"boats.md", "harbours.md", "knots.md"}
            assert "<title>" in httpx.get(f"{address[1]}/search", timeout=60).text
            assert (tmp_path / "notes-rankloop" / "rankloop.db").is_file()
        finally:
            process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    told = json.loads(out)
    assert (told["documents"], told["added"], list(told["skipped"])) == (4, 4, ["picture.txt"])
