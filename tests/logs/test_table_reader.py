"""One reader for files of every format and for frames; what is wrong names the file, the row and the column."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.logs.list_table import read_list_table
from rankloop.logs.table_reader import TableReader
from tests.logs.numeric_log import read_numeric_log as read_click_log
from tests.logs.numeric_log import read_raw_columns

ROWS = [
    {"session": "s1", "query": "red shoe", "position": 1, "product": "p1", "clicked": 1, "price": 19.5, "stock": 3},
    {"session": "s1", "query": "red shoe", "position": 2, "product": "p2", "clicked": 0, "price": 7.0, "stock": 8},
    {"session": "s2", "query": "red shoe", "position": 1, "product": "p2", "clicked": 0, "price": 7.0, "stock": 8},
    {"session": "s2", "query": "red shoe", "position": 2, "product": "p1", "clicked": 1, "price": 19.5, "stock": 3},
]


class Frame:
    """Any frame with the Arrow interface, as polars has it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def csv_of(rows: list[dict], separator: str = ",") -> str:
    lines = [separator.join(rows[0]), *(separator.join(map(str, row.values())) for row in rows)]
    return "\n".join(lines) + "\n"


def every_form(folder: Path) -> dict[str, object]:
    table = pa.Table.from_pylist(ROWS)
    texts = {
        "shop.csv": csv_of(ROWS),
        "semicolons.csv": csv_of(ROWS, ";"),
        "decimal-commas.csv": "\ufeff" + csv_of(ROWS, ";").replace(".", ","),
        "tabs.tsv": csv_of(ROWS, "\t"),
        "shop.jsonl": "\n".join(map(json.dumps, ROWS)),
        "shop.json": json.dumps(ROWS, indent=1),
        "marked.csv": "\ufeff" + csv_of(ROWS),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "packed.log").write_bytes(gzip.compress(texts["shop.jsonl"].encode()))
    pq.write_table(table, folder / "shop.parquet")
    feather.write_feather(table, folder / "shop.arrow")
    files = [*texts, "packed.log", "shop.parquet", "shop.arrow"]
    return {name: folder / name for name in files} | {"pyarrow": table, "frame": Frame(table)}


def test_a_frame_of_pandas_gives_the_same_log(tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed")
    given = pa.Table.from_pylist(ROWS).to_pandas()
    expected, found = read_click_log(every_form(tmp_path)["shop.csv"]), read_click_log(given)
    assert found.feature_names == expected.feature_names
    np.testing.assert_array_equal(found.features, expected.features)


def test_every_form_gives_the_same_log(tmp_path):
    forms = every_form(tmp_path)
    expected = read_click_log(forms["shop.csv"])
    assert expected.feature_names == ("price", "stock")
    assert expected.offsets.tolist() == [0, 2, 4]
    assert expected.pair.tolist() == [0, 1, 1, 0]
    for form, given in forms.items():
        log = read_click_log(given)
        for one, other in zip(expected, log):
            np.testing.assert_array_equal(one, other, err_msg=form)
        assert read_list_table(given).values["product"] == ["p1", "p2", "p2", "p1"]


def test_polars_frames(tmp_path):
    polars = pytest.importorskip("polars")
    assert read_click_log(polars.DataFrame(ROWS)).feature_names == ("price", "stock")


@pytest.mark.parametrize("name", ["product_id", "product", "sku", "doc", "doc_id", "item_id", "asin", "object_id"])
def test_an_item_has_many_names(tmp_path, name):
    rows = [{name if key == "product" else key: value for key, value in row.items()} for row in ROWS]
    (tmp_path / "shop.csv").write_text(csv_of(rows))
    assert read_click_log(tmp_path / "shop.csv").pair.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("name", ["session_id", "visit", "visit_id", "impression_id", "search_id"])
def test_a_list_has_many_names(tmp_path, name):
    rows = [{name if key == "session" else key: value for key, value in row.items()} for row in ROWS]
    (tmp_path / "shop.csv").write_text(csv_of(rows))
    log = read_click_log(tmp_path / "shop.csv")
    assert (log.offsets.tolist(), log.feature_names) == ([0, 2, 4], ("price", "stock"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "shop.csv is empty; its first line should name the columns"),
        (b"\n\n", "shop.csv is empty"),
        (b"session\n1\n", "shop.csv has only the column 'session'"),
        (b"session,position,clicked,price\n", "shop.csv has no rows"),
        (b"session,position,clicked,price\n1,1,1,2\n1,2,0,\n", "shop.csv, row 2: price is missing"),
        (b"session,position,clicked,price\n1,1,1,2\n1,2,,3\n1,3,0,3\n", "shop.csv, row 2: clicked is missing"),
        (b"session,position,clicked,price\n1,1,1,2\n1,,0,3\n", "shop.csv, row 2: position is missing"),
        (b"session,product,position,clicked,price\n1,a,1,1,2\n1,,2,0,3\n", "shop.csv, row 2: product is missing"),
        (b"session,position,clicked,price\n1,1,1,2\n,2,0,3\n", "shop.csv, row 2: session is missing"),
        (b"session,position,clicked,price\n1,1,maybe,2\n1,2,0,3\n", "shop.csv, row 1: clicked is 'maybe'; it must be"),
        (b"session,position,clicked,price\n1,1,1,2\n1,2,0,3,4\n", "shop.csv, row 2 has 5 columns, not 4"),
        (b'{"session": 1}\n{"session": \n', "shop.csv, line 2: this is not JSON"),
        (b'{"session": 1}\n[3]\n', "shop.csv, line 2: a row is an object of columns"),
        (b"PAR1 but no more", "shop.csv: .*"),
        (b"ARROW1 but no more", "shop.csv: .*"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, message):
    (tmp_path / "shop.csv").write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        read_click_log(tmp_path / "shop.csv")


def test_what_is_no_table_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="or a list of dicts, not int"):
        read_click_log(3)
    with pytest.raises(NotFound):
        TableReader(tmp_path / "nowhere.csv")


def test_gigantic_and_mixed_ids_stay_apart(tmp_path):
    rows = [row | {"product": 10**30 + number} for number, row in enumerate(ROWS)]
    (tmp_path / "shop.csv").write_text(csv_of(rows))
    (tmp_path / "shop.jsonl").write_text("\n".join(map(json.dumps, rows)))
    mixed = [row | {"product": product} for row, product in zip(ROWS, [7, "7b", 8, None])][:3]
    (tmp_path / "mixed.jsonl").write_text("\n".join(map(json.dumps, mixed)))
    for name in ("shop.csv", "shop.jsonl"):
        assert read_click_log(tmp_path / name).pair.tolist() == [0, 1, 2, 3]
    assert read_click_log(tmp_path / "mixed.jsonl").pair.tolist() == [0, 1, 2]


def test_texts_with_lines_in_them(tmp_path):
    (tmp_path / "shop.csv").write_text('session,position,clicked,price,title\n1,1,1,2,"a\nb"\n1,2,0,3,c\n')
    assert [row["title"] for row in TableReader(tmp_path / "shop.csv").read_table().to_pylist()] == ["a\nb", "c"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b\n1,5;x\n2;y\n", "comma"),
        ("a;b\n1,5;2.5\n", "point"),  # who knows
        ("a;b\n1.5;x,y\n", "point"),
        ("a;b\n1,5,7;2026-09-01\n", "point"),
        ("a,b\n1,5\n", "point"),
    ],
)
def test_a_comma_is_a_decimal_mark_where_nothing_speaks_against_it(tmp_path, text, expected):
    (tmp_path / "shop.csv").write_text(text)
    assert TableReader(tmp_path / "shop.csv").decimal == {"comma": ",", "point": "."}[expected]


def test_a_text_among_numbers_with_decimal_commas_is_named(tmp_path):
    (tmp_path / "shop.csv").write_text("price;x\n1,5;1\n2,5;1\ncheap;1\n")
    with pytest.raises(InvalidInput, match="row 3: price is 'cheap'; it must be a number"):
        read_raw_columns(tmp_path / "shop.csv", {"price": "number"})


SHOP = """session;query;position;sku;price;clicked;purchased;user_id
s1;shoes;1;a;3,50;ja;0;u1
s1;shoes;2;b;12;nein;0;u1
s2;shoes;1;b;12,00;yes;1;u2
s2;shoes;2;a;3,5;no;0;u2
"""


def test_a_decimal_comma_is_one_where_it_separates_no_columns(tmp_path):
    """As a German spreadsheet saves it, with a byte order mark; a point among the numbers says that commas are none."""
    path = tmp_path / "shop.csv"
    path.write_text(SHOP, encoding="utf-8-sig")
    table = TableReader(path).read_table(numbers=["price"])
    assert table["price"].to_pylist() == [3.5, 12.0, 12.0, 3.5]
    assert [batch["price"].to_pylist() for batch in TableReader(path).batches(["price"])] == [[3.5, 12.0, 12.0, 3.5]]
    path.write_text("a;b\n1.5;2,5\n")
    assert TableReader(path).read_table().to_pylist() == [{"a": 1.5, "b": "2,5"}]
    path.write_text("a,b\n1,5\n")
    assert TableReader(path).read_table().to_pylist() == [{"a": 1, "b": 5}]


def test_clicks_in_words_and_whose_they_were(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_text(SHOP)
    log = read_click_log(path)
    assert log.clicked.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert log.feature_names == ("price",)
    assert read_list_table(path).clicked.tolist() == [1.0, 0.0, 1.0, 0.0]
    path.write_text(SHOP.replace("nein", "perhaps"))
    with pytest.raises(InvalidInput, match="row 2: clicked is 'perhaps'; it must be a number"):
        read_click_log(path)


LOG_ROWS = "list,item,position,click,brand\n1,a,1,1,café\n1,b,2,0,x\n2,b,1,0,x\n2,a,2,1,café\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_encodings_are_guessed(tmp_path, encoding):
    (tmp_path / "shop.csv").write_bytes(LOG_ROWS.encode(encoding))
    log = read_list_table(tmp_path / "shop.csv")
    assert list(log.values["brand"]) == ["café", "x", "x", "café"]
    assert any("not UTF-8" in note for note in log.notes) == (not encoding.startswith("utf-8"))


def test_faults_are_collected_or_left_out(tmp_path):
    bad = "3,a,-1,0,x\n3,b,two,0,x\n4,,1,maybe,x\n4,a,2,1\n"
    (tmp_path / "shop.csv").write_text(LOG_ROWS + bad, encoding="utf-8")
    with pytest.raises(InvalidInput) as caught:
        read_list_table(tmp_path / "shop.csv")
    assert "row 8 has 4 columns, not 5" in str(caught.value)
    (tmp_path / "cells.csv").write_text(LOG_ROWS + bad.rpartition("4,a")[0], encoding="utf-8")
    with pytest.raises(InvalidInput) as caught:
        read_list_table(tmp_path / "cells.csv")
    for part in ("4 faults", "row 5: position is '-1'", "row 6: position is 'two'", "row 7: item is missing", "maybe"):
        assert part in str(caught.value)
    log = read_list_table(tmp_path / "shop.csv", skip_bad_rows=True)
    assert (log.n_rows, log.n_pages) == (4, 2)
    assert log.notes[0] == "4 bad rows were left out"


def test_at_most_twenty_faults_are_named(tmp_path):
    (tmp_path / "shop.csv").write_text(LOG_ROWS + "5,a,-1,0,x\n" * 30, encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"30 faults, the first 20: row 5: .*row 24: (?!.*row 25)"):
        read_list_table(tmp_path / "shop.csv")


def test_common_names_of_public_logs(tmp_path):
    names = "srch_id,prop_id,position,click_bool,booking_bool"
    (tmp_path / "hotels.csv").write_text(f"{names}\n1,7,1,0,0\n1,8,2,1,1\n", encoding="utf-8")
    roles = read_list_table(tmp_path / "hotels.csv").columns
    assert (roles.list, roles.item, roles.click, roles.purchase) == ("srch_id", "prop_id", "click_bool", "booking_bool")
    (tmp_path / "pages.csv").write_text("page,query,url,position,clicked\n1,q,a,1,0\n2,q,a,1,1\n", encoding="utf-8")
    roles = read_list_table(tmp_path / "pages.csv").columns
    assert (roles.list, roles.query, roles.item) == ("page", "query", "url")
