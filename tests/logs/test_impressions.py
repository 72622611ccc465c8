"""What an export says of itself: names and schemas, and nothing where it was written before there were any."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.features import Schema
from rankloop.logs.impressions import exported_names, exported_schemas, read_impressions, read_shown_lists
from rankloop.logs.typed_columns import NOTES, arrow_fields, notes_of, typed_row

SCHEMA = Schema({"price": "number"}, {"segment": "category"}, ("segment*price",))
ROW = {"at": 5.0, "query_id": "q", "ranking": ["b", "a"], "features": [[1.0], [2.0]], "context": [],
       "log_propensity": -1.5, "feedback": "clicks", "items": ["a"], "values": [2.0]}  # fmt: skip


def written(path: Path, row: dict[str, object], metadata: dict[bytes, bytes] | None = None) -> Path:
    table = pa.Table.from_pylist([row])
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


def test_names_are_in_the_metadata(tmp_path: Path) -> None:
    assert exported_names(written(tmp_path / "old.parquet", ROW)) == ()
    path = written(tmp_path / "new.parquet", ROW, notes_of([], ["price"]))
    assert (exported_names(path), exported_schemas(path)) == (("price",), [])
    assert next(read_impressions(path)).ranking == ("b", "a")
    damaged = written(tmp_path / "damaged.parquet", ROW, {NOTES: b"[]"})
    with pytest.raises(InvalidInput, match="its metadata are not those of an export"):
        exported_names(damaged)


def test_values_come_with_their_schema(tmp_path: Path) -> None:
    later = SCHEMA.evolved(features={"brand": "category"})
    both = [later, SCHEMA]
    row = ROW | typed_row(both, [{"price": 3}, {"brand": "acme"}], {"segment": "x"})
    path = written(tmp_path / "values.parquet", row, notes_of(both))
    assert exported_schemas(path) == [SCHEMA, later]
    (shown,) = read_shown_lists(path)
    assert shown.rows == [{"price": 3.0}, {"brand": "acme"}]
    assert (shown.ids, shown.context, shown.at, shown.log_propensity) == (["b", "a"], {"segment": "x"}, 5.0, -1.5)
    assert shown.clicked.tolist() == [0.0, 2.0]
    assert arrow_fields(both)[0][0] == "item.price"
    with pytest.raises(InvalidInput, match="holds values by a schema, not numbers"):
        next(read_impressions(path))
    row.pop("item.brand")
    with pytest.raises(InvalidInput, match=r"lacks the column 'item\.brand'"):
        next(read_shown_lists(written(path, row, notes_of(both))))
