"""Values by name as typed columns: what is written means the same to the encoder when it is read again."""

from __future__ import annotations

import base64
import datetime
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankloop.features import Encoder, Schema
from rankloop.logs.raw_columns import as_list
from rankloop.logs.typed_columns import LISTED, NOTES, arrow_fields, fields_of, notes_of, typed_row, typed_value

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
    (read,) = pa.array([[typed_value(kind, value)]], type_).to_pylist()[0]
    read = as_list(read) if _kind(name) in LISTED else read
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
    notes = json.loads(notes_of([SCHEMA, later])[NOTES])
    assert [Schema.from_plain(plain) for plain in notes["schemas"]] == [SCHEMA, later]
    assert json.loads(notes_of([], ["a", "b"])[NOTES]) == {"feature_names": ["a", "b"]}
