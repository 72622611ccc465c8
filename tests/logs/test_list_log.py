"""Lists out of tables: fields of the items and of whoever asks, in the order shown, as the encoder takes them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Clicks, Relevances, Reward
from rankloop.features import Encoder, Schema
from rankloop.logs.list_table import read_list_table

SCHEMA = Schema({"price": "number", "brand": "category", "item": "id"}, {"segment": "category"}, ("segment*brand",))
LOG = """impression,query,item,position,click,price,brand,segment,propensity
1,shoes,007,2,0,20,acme,sport,0.25
1,shoes,8,1,1,,bolt,sport,0.25
2,hats,007,1,0,20,acme,,0.5
"""


def written(folder: Path, text: str = LOG) -> Path:
    (folder / "log.csv").write_text(text)
    return folder / "log.csv"


def test_lists_stand_in_the_order_shown(tmp_path: Path) -> None:
    first, second = read_list_table(written(tmp_path), schema=SCHEMA).lists(SCHEMA)
    assert first.ids == ["8", "007"]
    assert first.rows == [{"brand": "bolt", "item": "8"}, {"price": 20.0, "brand": "acme", "item": "007"}]
    assert (first.query_id, first.context) == ("shoes", {"segment": "sport"})
    assert second.context == {}
    np.testing.assert_array_equal(first.position, [0, 1])
    np.testing.assert_array_equal(first.clicked, [1, 0])
    assert first.log_propensity == pytest.approx(math.log(0.25))


def test_a_list_is_a_query_and_an_answer(tmp_path: Path) -> None:
    shown = read_list_table(written(tmp_path), schema=SCHEMA).lists(SCHEMA)[0]
    encoder = Encoder(SCHEMA)
    query, decision, feedback = shown.arrival(encoder)
    given = encoder.rows(shown.ids, shown.rows, shown.context)
    np.testing.assert_array_equal(query.features.columns, given.columns)
    np.testing.assert_array_equal(decision.ranking, [0, 1])
    assert isinstance(feedback, Clicks)
    np.testing.assert_array_equal(feedback.items, [0])
    assert isinstance(shown._replace(feedback="reward").arrival(encoder).feedback, Reward)
    assert isinstance(shown._replace(feedback="relevances").arrival(encoder).feedback, Relevances)


def test_another_schema_sees_its_own_fields_only(tmp_path: Path) -> None:
    shown = read_list_table(written(tmp_path), schema=SCHEMA).lists(SCHEMA)[0]
    fewer = Encoder(Schema({"brand": "category"}))
    expected = fewer.rows(shown.ids, [{"brand": "bolt"}, {"brand": "acme"}], {})
    np.testing.assert_array_equal(shown.query(fewer).features.columns, expected.columns)


def test_an_id_that_is_no_column_is_that_of_the_item(tmp_path: Path) -> None:
    schema = Schema({"brand": "category", "sku": "id"})
    first, _ = read_list_table(written(tmp_path), schema=schema).lists(schema)
    assert first.rows == [{"brand": "bolt"}, {"brand": "acme"}]  # the encoder takes the item's own id
    with pytest.raises(InvalidInput, match=r"no column 'brnd', which is a field of the schema; did you mean 'brand'\?"):
        read_list_table(written(tmp_path), schema=schema).lists(Schema({"brnd": "category"}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("1,shoes,8,1,1,,bolt,sport", "1,shoes,8,1,1,,bolt,office"), "row 2: segment is 'office', and 'sport' before"),
        (("1,1,,bolt", "1,,,bolt"), "row 2: click is missing"),
        (("8,1,1,,bolt", "8,1.5,1,,bolt"), "row 2: position is 1.5; it must be a whole number"),
        (("bolt,sport,0.25", "bolt,sport,0.2"), "row 2: propensity is 0.2, .* is that of the whole list"),
        (("0.5\n", "1.5\n"), "row 3: propensity is 1.5; it must be a probability"),
        (("2,hats,007", "2,hats,"), "row 3: item is missing"),
        (("2,hats", "1,hats"), None),
        (("\n1,shoes,8", "\n3,shoes,8"), None),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: tuple[str, str], message: str | None) -> None:
    path = written(tmp_path, LOG.replace(*change))
    if message is None:
        assert read_list_table(path, schema=SCHEMA).offsets[-1] == 3
        return
    with pytest.raises(InvalidInput, match=message):
        read_list_table(path, schema=SCHEMA).lists(SCHEMA)


def test_rows_of_a_list_stand_together(tmp_path: Path) -> None:
    path = written(tmp_path, LOG + "1,shoes,9,3,0,5,acme,sport,0.25\n")
    with pytest.raises(InvalidInput, match="do not stand together; sort by 'impression'"):
        read_list_table(path, schema=SCHEMA)


def test_ages_need_to_know_when(tmp_path: Path) -> None:
    schema = Schema({"added": "date"})
    text = "impression,position,click,added,{}\n1,1,1,2026-11-01,2026-11-11T12:00:00\n"
    shown = read_list_table(written(tmp_path, text.format("timestamp")), schema=schema).lists(schema)[0]
    assert shown.at == datetime(2026, 11, 11, 12, tzinfo=UTC).timestamp()
    path = written(tmp_path, text.format("moment"))
    with pytest.raises(InvalidInput, match=r"the date 'added' depends on when .*--column time=NAME"):
        read_list_table(path, schema=schema).lists(schema)
    assert read_list_table(path, schema=schema, columns={"time": "moment"}).lists(schema)[0].at == shown.at


def test_a_date_of_the_items_is_not_taken_for_the_time(tmp_path: Path) -> None:
    path = written(tmp_path, "impression,position,click,date\n1,1,1,2026-11-01\n1,2,0,2026-11-02\n")
    table = read_list_table(path)
    assert (table.columns.time, table.columns.others) == ("", ("date",))
