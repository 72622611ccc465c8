"""Rows of files as documents: what is missing, doubled, too large or no text is listed."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.search.engine import Document
from rankloop.search.table_source import TableSource

ROWS = [{"id": "a", "title": "One", "body": "first, text"}, {"id": "b", "title": "Two", "body": "Grüße\nhier"}]
DOCUMENTS = [Document("a", "One", "first, text"), Document("b", "Two", "Grüße\nhier")]


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


def read(source: TableSource) -> tuple[list[Document], dict[str, str]]:
    return [document for _, _, document in source.documents({}) if document], source.skipped


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".CSV"])
def test_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    assert read(TableSource(written(tmp_path / f"rows{suffix}", ROWS))) == (DOCUMENTS, {})


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_columns_by_other_names_and_further_fields(tmp_path: Path, suffix: str) -> None:
    rows = [{"key": "a", "name": "One", "text": "x", "brand": "acme", "size": ""}]
    source = TableSource(
        written(tmp_path / f"rows{suffix}", rows), id="key", title="name", body="text", fields=["brand", "size", "none"]
    )
    assert read(source) == ([Document("a", "One", "x", fields={"brand": "acme"})], {})


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_missing_columns_are_listed(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"rows{suffix}", [{"sku": "a", "title": "One"}])
    assert read(TableSource(path)) == ([], {"row 1": "it has no 'id' of 1 to 240 characters; it has sku, title"})
    assert read(TableSource(path, id="sku")) == ([Document("a", "One", "")], {})
    reason = "neither 'name' nor 'body' has a text"
    assert read(TableSource(path, id="sku", title="name")) == ([], {"row 1": reason})


def test_rows_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [{"id": 7, "title": ["A", "list"], "body": 1.5}, {"id": "x" * 300}, {"id": "d", "body": {"a": 1}}]
    path.write_text("\n".join(['{"id": ', "[1, 2]", "", *map(json.dumps, lines), "[" * 100_000]))
    documents, skipped = read(TableSource(path))
    assert documents == [Document("7", "A list", "1.5")]
    assert list(skipped) == ["line 1", "row 1", "row 3", "row 4", "line 7"]
    assert skipped["row 1"] == "it is no table of values by name"
    assert skipped["row 4"] == "{'a': 1} is no text"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_tables_in_other_encodings(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.csv").write_text("id,title,body\nb,Two,Grüße\n", encoding=encoding)
    assert read(TableSource(tmp_path / "a.csv")) == ([Document("b", "Two", "Grüße")], {})


def test_lines_without_end_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankloop.search.table_source.MAX_LINE", 100)
    long = {"id": "long", "body": "x" * 1_000}
    documents, skipped = read(TableSource(written(tmp_path / "a.jsonl", [ROWS[0], long, ROWS[1]])))
    assert documents == DOCUMENTS
    assert skipped == {"line 2": "it is longer than 100 characters"}
    documents, skipped = read(TableSource(written(tmp_path / "a.csv", [ROWS[0], {**long, "title": ""}])))
    assert documents == DOCUMENTS[:1]
    assert "what follows is not read" in skipped["line 3"]


def test_long_bodies_of_csv_are_read_and_the_limit_is_as_before(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    body = "word " * 50_000
    (document,) = read(TableSource(written(tmp_path / "a.csv", [{"id": "a", "title": "", "body": body}])))[0]
    assert len(document.body) == len(body.strip()) > before
    assert csv.field_size_limit() == before


def test_a_body_that_is_cut_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankloop.search.table_source.MAX_BODY", 5)
    documents, skipped = read(TableSource(written(tmp_path / "a.jsonl", ROWS[:1])))
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
    with pytest.raises(InvalidInput, match=r"a.parquet is no Parquet file"):
        read(TableSource(tmp_path / "a.parquet"))
    with pytest.raises(InvalidInput, match=r"a folder, or a file that ends in .jsonl"):
        TableSource(tmp_path / "a.txt")
    with pytest.raises(InvalidInput, match="it is not a text"):
        read(TableSource(tmp_path / "a.csv"))
    with pytest.raises(NotFound, match="there is no file"):
        TableSource(tmp_path / "gone.csv")
