"""Cells as people wrote them: texts stay texts, an empty cell is missing, what is wrong is named by row and column."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.features import Schema
from rankloop.logs.list_table import _pages_of, read_list_table
from rankloop.logs.schema_guess import guessed_schema
from tests.logs.numeric_log import read_raw_columns

CSV = 'sku,brand,price,tags,day\n007,NA,1.5,"[""red"", ""new""]",2026-11-15\n08,,,,\n'
KINDS = {"sku": "id", "brand": "category", "price": "number", "tags": "category", "day": "date"}


def test_texts_of_a_csv_file_stay_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(CSV)
    values = read_raw_columns(tmp_path / "log.csv", KINDS)
    assert values["sku"] == ["007", "08"]
    assert values["brand"] == ["NA", None]  # Namibia, and nothing
    assert values["price"] == [1.5, None]
    assert values["tags"] == [["red", "new"], None]
    assert values["day"] == [datetime.date(2026, 11, 15), None]


def test_without_kinds_cells_are_what_they_look_like(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(CSV)
    values = read_raw_columns(tmp_path / "log.csv")
    assert values["sku"] == [7, 8]
    assert values["tags"] == [["red", "new"], None]


def test_a_text_in_a_column_of_numbers_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("price,brand\n1,a\n2,b\ncheap,c\n")
    with pytest.raises(InvalidInput, match=r"log\.csv, row 3: price is 'cheap'; it must be a number"):
        read_raw_columns(tmp_path / "log.csv", {"price": "number"})


def test_parquet_has_types_of_its_own(tmp_path: Path) -> None:
    table = pa.table({"price": [1.0, float("nan")], "title": ["[1, 2]", ""], "tags": [["a"], None]})
    pq.write_table(table, tmp_path / "log.parquet")
    values = read_raw_columns(tmp_path / "log.parquet", {"title": "words"})
    assert values == {"price": [1.0, None], "title": ["[1, 2]", None], "tags": [["a"], None]}


def test_a_table_without_rows_or_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,b\n")
    with pytest.raises(InvalidInput, match=r"log\.csv has no rows"):
        read_raw_columns(tmp_path / "log.csv")
    (tmp_path / "log.csv").write_text("a,a\n1,2\n")
    with pytest.raises(InvalidInput, match="two columns 'a'"):
        read_raw_columns(tmp_path / "log.csv")


def cut(column, lists, position, queries=None, items=None):
    offsets, kept = _pages_of(lists, column, np.array(position, dtype=float), queries, items, "log")
    return offsets.tolist(), int((~kept).sum())


def test_a_visit_with_two_queries_has_two_pages():
    assert cut("session", "ssss", [1, 2, 3, 4], queries="aabb") == ([0, 2, 4], 0)
    assert cut("session", "ssss", [1, 2, 3, 4]) == ([0, 4], 0)


def test_a_position_that_comes_again_begins_a_page():
    assert cut("session_id", "ssss", [1, 2, 1, 2], queries="aaaa") == ([0, 2, 4], 0)
    assert cut("query", "aabbaa", [2, 1, 1, 2, 1, 2]) == ([0, 2, 4, 6], 0)
    assert cut("visit", "sss", [0, 0, 0]) == ([0, 1, 2, 3], 0)


def test_an_order_within_a_page_does_not_matter():
    assert cut("session", "ssstt", [3, 1, 2, 2, 1]) == ([0, 3, 5], 0)


@pytest.mark.parametrize("column", ["impression", "session", "qid"])
def test_scattered_rows_are_refused(column):
    with pytest.raises(InvalidInput, match=f"do not stand together; sort by '{column}'"):
        cut(column, "abab", [1, 1, 2, 2])


def test_the_ids_of_lists_are_trusted():
    assert cut("impression", "aabb", [1, 1, 1, 2]) == ([0, 2, 4], 0)
    assert cut("impression", "aaabb", [1, 1, 2, 1, 2], items="xxyxy") == ([0, 2, 4], 1)
    assert cut("mine", "aaaa", [1, 2, 1, 2], items="xyxy") == ([0, 2], 2)


def broken(folder, separator=","):
    """A log with a negative position, a click that is none, a short row, and a text among prices below it."""
    lines = ["page,sku,position,click,price"]
    lines += [f"g{row // 4},s{row % 7},{row % 4},{row % 3 // 2},{10 + row}" for row in range(40)]
    lines[3] = "g0,s2,-1,0,12"
    lines[5] = "g1,s4,0,maybe,14"
    lines[8] = "g1,s0"
    lines[12] = "g2,s4,3,0,cheap"
    text = "\n".join(lines) + "\n"
    text = text if separator == "," else text.replace(",", separator).replace(";20\n", ";20,5\n")
    (folder / "log.csv").write_text(text)
    return folder / "log.csv"


def test_rows_beside_a_bad_cell_keep_their_decimal_commas(tmp_path):
    log = read_list_table(broken(tmp_path, ";"), schema=Schema({"price": "number"}), skip_bad_rows=True)
    assert 20.5 in log.values["price"]
    assert None not in log.values["price"]


def test_all_faults_are_said_at_once_with_their_rows_in_the_file(tmp_path):
    path, schema = broken(tmp_path), Schema({"price": "number"})
    with pytest.raises(InvalidInput) as error:
        read_list_table(path, schema=schema)
    said = str(error.value)
    assert "log.csv has 4 faults: row 3: position is '-1'; it must be a whole number from 0" in said or "is -1" in said
    assert "row 5: click is 'maybe'" in said
    assert "row 8 has 2 columns, not 5" in said
    assert "row 12: price is 'cheap'; it must be a number; --skip-bad-rows" in said
    log = read_list_table(path, schema=schema, skip_bad_rows=True)
    assert (log.n_rows, log.notes[0]) == (36, "4 bad rows were left out")
    assert sorted(log.values["price"]) == [10 + row for row in range(40) if row not in (2, 4, 7, 11)]


def test_a_column_of_numbers_with_a_few_texts_is_guessed_as_numbers(tmp_path):
    """Then the texts are faults, not categories."""
    log = read_list_table(broken(tmp_path), skip_bad_rows=True)
    guess = guessed_schema(log)
    assert guess.schema.to_plain()["features"]["price"] == "number"
    assert guess.reasons["price"] == "numbers but for 1 cells; of the item"
    with pytest.raises(InvalidInput, match="row 12: price is 'cheap'"):
        read_list_table(broken(tmp_path), schema=guess.schema)


AMOUNTS = ["1.299,00 €", "$1,299.00", "19,90", "", "1'299.50 CHF", "EUR 5", "-0,50 €", "1 299 kr"]


def test_amounts_in_the_formats_of_several_countries_are_numbers(tmp_path):
    rows = [f"{page};{row};p{row};{int(row == 2)};{cell}" for page in range(9) for row, cell in enumerate(AMOUNTS)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["list;position;item;click;price", *rows]), encoding="utf-8")
    guess = guessed_schema(read_list_table(path))
    assert guess.schema.to_plain()["features"]["price"] == "number"
    log = read_list_table(path, schema=guess.schema)
    assert list(log.values["price"])[:8] == [1299, 1299, 19.9, None, 1299.5, 5, -0.5, 1299]


def test_empty_cells_beside_marks_of_clicks_are_no_clicks_and_it_is_said(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_text("list,item,position,opened\n1,a,1,\n1,b,2,yes\n2,a,1,\n")
    log = read_list_table(path, columns={"click": "opened"})
    assert log.clicked.tolist() == [0.0, 1.0, 0.0]
    assert log.notes[0] == "opened is never 0 or no, so its 2 empty cells count as no click"


def test_all_roles_are_named_with_their_columns(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_text("list,item,position,click,user,bought,paid\n1,a,1,1,u1,1,9.9\n1,b,2,0,u1,0,\n")
    roles = str(read_list_table(path, columns={"revenue": "paid"}).columns)
    assert "user is user, purchase is bought, revenue is paid" in roles


def test_times_as_people_write_them_are_no_fields(tmp_path):
    path, days = tmp_path / "shop.csv", ("02/03/2026 07:11", "3.3.2026", "2026/03/04 10:00")
    rows = [f"{day},{item},{item},{int(item == 1)},{day},{10 + item}" for day in days for item in (1, 2)]
    path.write_text("\n".join(["list,item,position,click,searched,price", *rows]))
    guess = guessed_schema(read_list_table(path))
    assert guess.left_out["searched"] == "a time of the user"
    assert not guess.schema.context


@pytest.mark.parametrize("name", ["192.168.100.20", "12 345", "ABC 12", "2026-10-01", "1.2.3"])
def test_names_of_digits_are_no_amounts(tmp_path, name):
    path = tmp_path / "log.csv"
    path.write_text(f"list,position,item,click,code\n1,0,a,1,{name}\n1,1,b,0,{name}\n")
    assert not isinstance(read_list_table(path).values["code"][0], float)


def test_revenue_in_two_formats_and_columns_named_as_outcomes_are_no_features(tmp_path):
    rows = []
    for row in range(200):
        clicked = int(row % 4 == 0)
        paid = "9.50" if clicked else "0.00"
        revenue = f"${paid}" if row % 3 else f"{paid.replace('.', ',')} €"
        rows.append(f"{row // 4};{row % 4};p{row % 7};{clicked};{revenue};{row % 5}")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["list;position;item;click;Umsatz;Kauf", *rows]), encoding="utf-8")
    guess = guessed_schema(read_list_table(path, columns={"purchase": "Kauf"}))
    assert guess.outcomes == {"Umsatz": "the same as the click", "Kauf": "named as one"}
