"""Folders and tables as documents: what is read, what is skipped and why, and what is not read again."""

import csv
import json
import os
import tracemalloc
from pathlib import Path
from time import process_time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.search.engine import TextDocument
from rankloop.search.sources import CHANGES, MAX_NAMED, FolderSource, SourceDocument, TableSource

HTML = "<html><head><title>A &lt;b&gt; page</title><script>steal()</script></head>"
HTML += "<body><h1>Top</h1><p>Seen<script>x()</script></body>"
EMAIL = b"From: a@b.c\nSubject: Hello\nDate: Thu, 01 Jan 1970 01:00:00 +0000\n"
EMAIL += b"Content-Type: text/html\n\n<p>A <b>letter</b></p>"
MAILBOX = (
    b"From a Thu\nMessage-ID: <1@x>\nSubject: One\n\nfirst\n\nFrom b Thu\nMessage-ID: <2@x>\nSubject: Two\n\nsecond\n"
)


def read_folder(folder: Path) -> tuple[dict[str, TextDocument], dict[str, str]]:
    source = FolderSource(folder)
    return {id: document for id, _, document in source.documents({}) if document}, source.skipped


def stamps(found: list[SourceDocument]) -> dict[str, str]:
    return {id: stamp for id, stamp, _ in found}


def test_formats_become_titles_and_plain_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A *title*\n\nSee [the page](http://x.y) and `code`.\n<script>bad()</script>")
    (tmp_path / "b.html").write_text(HTML)
    (tmp_path / "c.rst").write_text("A heading\n=========\n\nSee :ref:`there <x>` and ``code``.\n\n.. note:: gone\n")
    (tmp_path / "d.eml").write_bytes(EMAIL)
    (tmp_path / "e.txt").write_bytes("Grüße\naus Köln".encode("latin-1"))
    (tmp_path / "f.txt").write_bytes("\ufeffзима".encode("utf-16"))
    (tmp_path / "no_title-here").write_text("x" * 200)
    documents, skipped = read_folder(tmp_path)
    assert skipped == {}
    assert documents["a.md"][1:3] == ("A title", "A title\nSee the page and code.")
    assert documents["b.html"][1:3] == ("A <b> page", "Top\nSeen")
    assert documents["c.rst"].title == "A heading"
    assert "See there and code." in documents["c.rst"].body
    assert documents["d.eml"][1:4] == ("Hello", "a@b.c\nA letter", 3600.0)
    assert documents["e.txt"].body == "Grüße\naus Köln"
    assert "зима" in documents["f.txt"].body
    assert documents["no_title-here"].title == "no title here"
    assert documents["a.md"].at == (tmp_path / "a.md").stat().st_mtime


def test_what_cannot_be_read_is_listed(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (inside / "out.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "up.txt").symlink_to("../secret.txt")
    (inside / "nowhere.txt").symlink_to("gone")
    (inside / "sub" / "parent").symlink_to(tmp_path, target_is_directory=True)
    (inside / "picture.png").write_bytes(b"\x89PNG\0\0\0")
    (inside / "paper.pdf").write_bytes(b"%PDF-1.7 text")
    (inside / "empty.txt").write_text(" ")
    (inside / "bad.eml").write_text("no headers at all")
    (inside / "good.txt").write_text("good")
    (inside / ".hidden.txt").write_text("hidden")
    os.mkfifo(inside / "pipe")
    documents, skipped = read_folder(inside)
    link = "it is a link, which is not followed"
    assert list(documents) == ["good.txt"]
    assert skipped.pop("paper.pdf").startswith(("it is a damaged .pdf file", ".pdf files need a package"))
    assert skipped == {
        "bad.eml": "it is not an e-mail",
        "empty.txt": "there is no text in it",
        "nowhere.txt": link,
        "out.txt": link,
        "picture.png": "it is not a text",
        "pipe": "it is not a plain file",
        "sub/parent": link,
        "up.txt": link,
    }


def test_strange_names(tmp_path: Path) -> None:
    (tmp_path / "C#-notes & <b>.txt").write_text("fine")
    (tmp_path / "new\nline.txt").write_text("not")
    (tmp_path / os.fsdecode(b"half\xff.txt")).write_text("listed")
    documents, skipped = read_folder(tmp_path)
    assert set(documents) == {"C#-notes & <b>.txt", "half\\udcff.txt"}
    assert list(skipped) == ["new\nline.txt"]


def test_a_folder_that_may_not_be_read_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed.txt").write_text("x")
    scan, opened = os.scandir, os.open

    def closed(path: object, *rest: object, **named: object) -> object:
        if "closed" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return (scan if not rest else opened)(path, *rest, **named)  # type: ignore[operator]

    monkeypatch.setattr(os, "scandir", closed)
    monkeypatch.setattr(os, "open", closed)
    assert read_folder(tmp_path) == ({}, {"closed": "Permission denied", "closed.txt": "Permission denied"})


def test_a_known_stamp_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "mail").write_bytes(MAILBOX)
    known = stamps(list(FolderSource(tmp_path).documents({})))
    assert list(known) == ["a.txt", "mail//1@x", "mail//2@x"]
    monkeypatch.setattr(os, "open", None)
    assert list(FolderSource(tmp_path).documents(known)) == [
        SourceDocument(id, stamp, None) for id, stamp in known.items()
    ]


def test_a_changed_mailbox_keeps_the_ids_of_its_messages(tmp_path: Path) -> None:
    (tmp_path / "mail").write_bytes(MAILBOX)
    known = stamps(list(FolderSource(tmp_path).documents({})))
    (tmp_path / "mail").write_bytes(b"From b" + MAILBOX.split(b"From b")[1])
    ((id, _, document),) = FolderSource(tmp_path).documents(known)
    assert id == "mail//2@x"
    assert document is not None
    assert (document.title, document.body) == ("Two", "second")
    assert document.fields == {"type": "eml", "folder": "mail"}


def test_a_maildir(tmp_path: Path) -> None:
    for name, text in (
        ("cur/1700000000.M1.host:2,S", EMAIL),
        ("new/1700000001.M2.host", EMAIL),
        ("new/notes.md", b"# x"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text)
    documents, skipped = read_folder(tmp_path)
    assert [document.title for document in documents.values()] == ["Hello", "Hello", "x"]
    assert skipped == {}


class Restless:
    """Writes to a file whenever its status is asked, for some times."""

    def __init__(self, path: Path, times: int) -> None:
        self.path, self.times, self.fstat = path, times, os.fstat

    def __call__(self, handle: int) -> os.stat_result:
        if self.times:
            self.times -= 1
            self.path.write_bytes(self.path.read_bytes() + b" more")
        return self.fstat(handle)


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.txt").write_text("once")
    monkeypatch.setattr(os, "fstat", Restless(tmp_path / "log.txt", 4))
    documents, skipped = read_folder(tmp_path)
    assert (documents["log.txt"].body, skipped) == ("once more more more more", {})


def test_a_file_that_never_stops_changing_is_skipped_and_never_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log.txt").write_text("once")
    ((id, stamp, _),) = FolderSource(tmp_path).documents({})
    monkeypatch.setattr(os, "fstat", Restless(tmp_path / "log.txt", 1_000))
    (tmp_path / "log.txt").write_text("other")
    assert read_folder(tmp_path) == ({}, {"log.txt": CHANGES})
    source = FolderSource(tmp_path)
    assert list(source.documents({id: stamp})) == [SourceDocument(id, stamp, None)]
    assert source.skipped == {"log.txt": CHANGES}


def test_a_mailbox_that_changes_keeps_what_was_read_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mail").write_bytes(MAILBOX)
    known = dict.fromkeys(stamps(list(FolderSource(tmp_path).documents({}))), "older")
    monkeypatch.setattr(os, "fstat", Restless(tmp_path / "mail", 1_000))
    source = FolderSource(tmp_path)
    assert sorted(source.documents(known)) == [SourceDocument(id, "older", None) for id in known]
    assert source.skipped == {"mail": CHANGES}


def test_of_a_huge_file_the_beginning_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 MB with a sparse end; memory stays at what is read of it."""
    with (tmp_path / "huge.txt").open("wb") as file:
        file.write(b"begin\n" + b"word " * 1_000)
        file.truncate(500 * 1024**2)
    monkeypatch.setattr("rankloop.search.sources.MAX_READ", 4_000)
    tracemalloc.start()
    documents, skipped = read_folder(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert documents["huge.txt"].title == "begin"
    assert len(documents["huge.txt"].body) <= 4_000
    assert skipped == {"huge.txt": "only its first 0 MB are indexed"}
    assert peak < 2_000_000


def test_a_long_text_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankloop.search.sources.MAX_BODY", 10)
    (tmp_path / "a.txt").write_text("word " * 10)
    documents, skipped = read_folder(tmp_path)
    assert documents["a.txt"].body == "word word "
    assert skipped == {"a.txt": "only its first 10 characters are indexed"}


@pytest.mark.slow
def test_ten_thousand_small_files(tmp_path: Path) -> None:
    for i in range(10_000):
        folder = tmp_path / str(i % 100)
        folder.mkdir(exist_ok=True)
        (folder / f"{i}.txt").write_text(f"number {i}" if i % 5 else "")
    start = process_time()
    source = FolderSource(tmp_path)
    found = list(source.documents({}))
    assert (len(found), len(source.skipped)) == (8_000, MAX_NAMED)
    assert process_time() - start < 30
    again = [document for _, _, document in FolderSource(tmp_path).documents(stamps(found))]
    assert again == [None] * 8_000


def test_the_folder_of_the_index_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("index")
    assert list(FolderSource(tmp_path, without=tmp_path / "data").documents({})) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no folder"):
        FolderSource(tmp_path / "nowhere")


ROWS = [{"id": "a", "title": "One", "body": "first, text"}, {"id": "b", "title": "Two", "body": "Grüße\nhier"}]
DOCUMENTS = [TextDocument("a", "One", "first, text"), TextDocument("b", "Two", "Grüße\nhier")]


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix in (".jsonl", ".ndjson"):
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            table.writeheader()
            table.writerows(rows)
    return path


def read_table(source: TableSource) -> tuple[list[TextDocument], dict[str, str]]:
    return [document for _, _, document in source.documents({}) if document], source.skipped


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".CSV"])
def test_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    assert read_table(TableSource(written(tmp_path / f"rows{suffix}", ROWS))) == (DOCUMENTS, {})


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_columns_by_other_names_and_further_fields(tmp_path: Path, suffix: str) -> None:
    rows = [{"key": "a", "name": "One", "text": "x", "brand": "acme", "size": ""}]
    source = TableSource(
        written(tmp_path / f"rows{suffix}", rows), id="key", title="name", body="text", fields=["brand", "size", "none"]
    )
    assert read_table(source) == ([TextDocument("a", "One", "x", fields={"brand": "acme"})], {})


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_missing_columns_are_listed(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"rows{suffix}", [{"sku": "a", "title": "One"}])
    assert read_table(TableSource(path)) == ([], {"row 1": "it has no 'id' of 1 to 240 characters; it has sku, title"})
    assert read_table(TableSource(path, id="sku")) == ([TextDocument("a", "One", "")], {})
    reason = "neither 'name' nor 'body' has a text"
    assert read_table(TableSource(path, id="sku", title="name")) == ([], {"row 1": reason})


def test_rows_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [{"id": 7, "title": ["A", "list"], "body": 1.5}, {"id": "x" * 300}, {"id": "d", "body": {"a": 1}}]
    path.write_text("\n".join(['{"id": ', "[1, 2]", "", *map(json.dumps, lines), "[" * 100_000]))
    documents, skipped = read_table(TableSource(path))
    assert documents == [TextDocument("7", "A list", "1.5")]
    assert list(skipped) == ["line 1", "row 1", "row 3", "row 4", "line 7"]
    assert skipped["row 1"] == "it is not a table of values by name"
    assert skipped["row 4"] == "{'a': 1} is no text"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_tables_in_other_encodings(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.csv").write_text("id,title,body\nb,Two,Grüße\n", encoding=encoding)
    assert read_table(TableSource(tmp_path / "a.csv")) == ([TextDocument("b", "Two", "Grüße")], {})


def test_lines_without_end_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankloop.search.sources.MAX_LINE", 100)
    long = {"id": "long", "body": "x" * 1_000}
    documents, skipped = read_table(TableSource(written(tmp_path / "a.jsonl", [ROWS[0], long, ROWS[1]])))
    assert documents == DOCUMENTS
    assert skipped == {"line 2": "it is longer than 100 characters"}
    documents, skipped = read_table(TableSource(written(tmp_path / "a.csv", [ROWS[0], {**long, "title": ""}])))
    assert documents == DOCUMENTS[:1]
    assert "what follows is not read" in skipped["line 3"]


def test_a_csv_line_without_end_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankloop.search.sources.MAX_LINE", 10_000)
    (tmp_path / "a.csv").write_text("id,title,body\na,b,c\n" + "d,e,f," * 1_000_000)
    tracemalloc.start()
    try:
        documents, skipped = read_table(TableSource(tmp_path / "a.csv"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [document.id for document in documents] == ["a"]
    assert "longer than 10,000" in skipped["line 3"]
    assert most < 1_000_000


def test_lists_in_lists_without_end_are_passed_over(tmp_path: Path) -> None:
    def nested(depth: int) -> str:
        return f'{{"id": "a", "body": {"[" * depth}"x"{"]" * depth}}}\n'

    (tmp_path / "a.jsonl").write_text("".join(map(nested, range(300, 1_100, 10))) + '{"id": "b", "title": "B"}')
    documents, skipped = read_table(TableSource(tmp_path / "a.jsonl"))
    assert documents[-1].id == "b"
    assert "row" in " ".join(skipped)


def test_long_bodies_of_csv_are_read_and_the_limit_is_as_before(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    body = "word " * 50_000
    (document,) = read_table(TableSource(written(tmp_path / "a.csv", [{"id": "a", "title": "", "body": body}])))[0]
    assert len(document.body) == len(body.strip()) > before
    assert csv.field_size_limit() == before


def test_a_body_that_is_cut_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankloop.search.sources.MAX_BODY", 5)
    documents, skipped = read_table(TableSource(written(tmp_path / "a.jsonl", ROWS[:1])))
    assert documents[0].body == "first"
    assert skipped == {"row 1": "only the first 5 characters of it are indexed"}


def test_a_stamp_changes_with_what_is_in_a_row(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", ROWS)
    known = {id: stamp for id, stamp, _ in TableSource(path).documents({})}
    assert [found.document for found in TableSource(path).documents(known)] == [None, None]
    written(path, [ROWS[0], {**ROWS[1], "title": "Zwei"}])
    assert [bool(found.document) for found in TableSource(path).documents(known)] == [False, True]


def test_files_that_are_not_tables(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("no")
    (tmp_path / "a.txt").write_text("no")
    (tmp_path / "a.csv").write_bytes(b"\0\0\0")
    with pytest.raises(InvalidInput, match=r"a.parquet is not a Parquet file"):
        read_table(TableSource(tmp_path / "a.parquet"))
    with pytest.raises(InvalidInput, match=r"a folder, or a file that ends in .jsonl"):
        TableSource(tmp_path / "a.txt")
    with pytest.raises(InvalidInput, match="it is not a text"):
        read_table(TableSource(tmp_path / "a.csv"))
    with pytest.raises(NotFound, match="there is no file"):
        TableSource(tmp_path / "gone.csv")
