"""An export of a service: typed columns mean the same when they are read again, and it says what it holds."""

from __future__ import annotations

import base64
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.features import Encoder, Schema
from rankloop.logs.list_table import as_list
from rankloop.logs.numeric_features import numeric_features
from rankloop.logs.service_export import (
    JSON_LIST_KINDS,
    METADATA_KEY,
    _typed_value,
    arrow_fields,
    fields_of,
    is_export,
    notes_of,
    read_service_export,
    typed_row,
)

SCHEMA = Schema(
    {
        "price": "number",
        "brand": "category",
        "tags": "category",
        "title": "words",
        "sku": "id",
        "sale": "flag",
        "added": "date",
        "picture": {"kind": "vector", "size": 2},
    },
    {"segment": "category", "since": "date"},
    ("segment*brand", "since*brand"),
)
VECTOR = base64.b64encode(np.array([0.5, -1.0], "<f4").tobytes()).decode()
VALUES: dict[str, list[Any]] = {
    "price": [3, 2.5, 10**20, True, None],
    "brand": ["Acme", 7, 7.0, True, " Ünï ", "", None, ["one"]],
    "tags": [["b", "a"], ("x", 1), {"n", "m"}, [], ["a", "a"]],
    "title": ["Red shoes", '["no list"]', "", None],
    "sku": ["007", 7, 2**70],
    "sale": [True, 0, "yes", "False", None, ""],
    "added": ["2026-11-15", datetime.date(2026, 1, 1), 1.5e9, "", None],
    "picture": [[1, 2.5], VECTOR, None],
}
CASES = [(name, value) for name, values in VALUES.items() for value in values]


@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{name} {i}" for i, (name, _) in enumerate(CASES)])
def test_a_value_comes_back_with_the_same_meaning(name: str, value: Any) -> None:
    kind, type_ = SCHEMA.features[name], dict(arrow_fields([SCHEMA]))[f"item.{name}"]
    (read,) = pa.array([[_typed_value(kind, value)]], type_).to_pylist()[0]
    read = as_list(read) if _kind(name) in JSON_LIST_KINDS else read
    encoder = Encoder(Schema({name: kind}))
    before, after = (encoder.rows(["i"], [{name: given}], {}, at=1.8e9) for given in (value, read))
    np.testing.assert_array_equal(np.sort(before.columns), np.sort(after.columns))
    np.testing.assert_array_equal(np.sort(before.values), np.sort(after.values))
    np.testing.assert_array_equal(before.dense, after.dense)


def _kind(name: str) -> str:
    plain = SCHEMA.to_plain()["features"][name]
    return plain if isinstance(plain, str) else plain["kind"]


def test_a_row_has_a_cell_for_every_field() -> None:
    row = typed_row([SCHEMA], [{"price": 3}, {"brand": "Acme"}], {"segment": "sport"})
    assert row["item.price"] == [3.0, None]
    assert row["item.brand"] == [None, "Acme"]
    assert (row["context.segment"], row["context.since"]) == ("sport", None)
    assert row.keys() == dict(arrow_fields([SCHEMA])).keys()


def test_fields_of_all_versions_are_there() -> None:
    later = SCHEMA.evolved(features={"stars": "number"}, remove=["title"])
    features, context = fields_of([SCHEMA, later])
    assert features.keys() == {*SCHEMA.features, "stars"}
    assert context.keys() == SCHEMA.context.keys()
    notes = json.loads(notes_of([SCHEMA, later])[METADATA_KEY])
    assert [Schema.from_plain(plain) for plain in notes["schemas"]] == [SCHEMA, later]
    assert json.loads(notes_of([], ["a", "b"])[METADATA_KEY]) == {"feature_names": ["a", "b"]}


PRICED = Schema({"price": "number"}, {"segment": "category"}, ("segment*price",))
ROW = {"at": 5.0, "query_id": "q", "ranking": ["b", "a"], "features": [[1.0], [2.0]], "context": [],
       "log_propensity": -1.5, "feedback": "clicks", "items": ["a"], "values": [2.0]}  # fmt: skip


def written(path: Path, row: dict[str, object], metadata: dict[bytes, bytes] | None = None) -> Path:
    table = pa.Table.from_pylist([row])
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


def test_names_are_in_the_metadata(tmp_path: Path) -> None:
    assert read_service_export(written(tmp_path / "old.parquet", ROW)).export.feature_names == ()
    path = written(tmp_path / "new.parquet", ROW, notes_of([], ["price"]))
    assert is_export(path)
    log = read_service_export(path)
    assert (log.export.feature_names, log.schemas, log.item) == (("price",), (), ["b", "a"])
    assert (numeric_features(log).values.tolist(), log.values["price"]) == ([[1.0], [2.0]], [1.0, 2.0])
    damaged = written(tmp_path / "damaged.parquet", ROW, {METADATA_KEY: b"[]"})
    with pytest.raises(InvalidInput, match="its metadata are not those of an export"):
        read_service_export(damaged)


def test_values_come_with_their_schema(tmp_path: Path) -> None:
    later = PRICED.evolved(features={"brand": "category"})
    both = [later, PRICED]
    row = ROW | typed_row(both, [{"price": 3}, {"brand": "acme"}], {"segment": "x"})
    path = written(tmp_path / "values.parquet", row, notes_of(both))
    log = read_service_export(path)
    assert log.schemas == (PRICED, later)
    (shown,) = log.lists(later)
    assert shown.rows == [{"price": 3.0}, {"brand": "acme"}]
    assert (shown.ids, shown.context, shown.at, shown.log_propensity) == (["b", "a"], {"segment": "x"}, 5.0, -1.5)
    assert shown.clicked.tolist() == [0.0, 2.0]
    assert arrow_fields(both)[0][0] == "item.price"
    with pytest.raises(InvalidInput, match="holds values by a schema, not numbers"):
        numeric_features(log)
    row.pop("item.brand")
    with pytest.raises(InvalidInput, match=r"lacks the column 'item\.brand'"):
        read_service_export(written(path, row, notes_of(both)))
