"""Values by name as typed columns of a Parquet file, one per field: what an export holds and a reader finds again."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rankloop.core.registry import spec_of
from rankloop.features.kinds import moment_of
from rankloop.features.schema import Schema

NOTES = b"rankloop"  # the key of the file's metadata under which names and schemas stand, as JSON
OF_ITEM, OF_CONTEXT = "item.", "context."  # begin the names of columns that hold values by field
LISTED = ("category", "id")  # a list of them stands in its cell as JSON


def kind_of(field: Any) -> str:
    """What a field is called in a schema."""
    return str(spec_of(field)["kind"])


def fields_of(schemas: Iterable[Schema]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that items and context have or had in any version: a name keeps its kind for ever."""
    features: dict[str, Any] = {}
    context: dict[str, Any] = {}
    for schema in schemas:
        features |= schema.features
        context |= schema.context
    return features, context


def arrow_fields(schemas: Sequence[Schema]) -> list[tuple[str, Any]]:
    """Names and types: a list per item field, as long as the ranking, and a value per context field."""
    import pyarrow as pa

    types = {"number": pa.float64(), "flag": pa.bool_(), "date": pa.float64(), "vector": pa.list_(pa.float64())}
    features, context = fields_of(schemas)
    own = [(OF_ITEM + name, pa.list_(types.get(kind_of(kind), pa.string()))) for name, kind in features.items()]
    return own + [(OF_CONTEXT + name, types.get(kind_of(kind), pa.string())) for name, kind in context.items()]


def typed_row(
    schemas: Sequence[Schema], rows: Sequence[Mapping[str, Any]], context: Mapping[str, Any]
) -> dict[str, Any]:
    """The cells of one ranking; what is missing is null."""
    features, asked = fields_of(schemas)
    cells: dict[str, Any] = {
        OF_ITEM + name: [typed_value(kind, row.get(name)) for row in rows] for name, kind in features.items()
    }
    return cells | {OF_CONTEXT + name: typed_value(kind, context.get(name)) for name, kind in asked.items()}


def typed_value(field: Any, value: Any) -> Any:
    """A value in the type of its column, which means the same: dates in seconds since 1970, lists as JSON."""
    kind = kind_of(field)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if kind == "vector":
        return [float(number) for number in field.numbers(value)]
    if kind == "date":
        return moment_of(value)
    if kind == "number":
        return float(value)
    if kind not in LISTED and kind != "flag":
        return value
    keys, _ = field.tokens(value, 0.0)
    texts = list(keys)
    if kind == "flag":
        return texts == ["1"]
    if isinstance(value, list | tuple | set | frozenset) and len(texts) > 1:
        return json.dumps(texts, ensure_ascii=False)
    return texts[0] if texts else None


def notes_of(schemas: Sequence[Schema], feature_names: Sequence[str] = ()) -> dict[bytes, bytes]:
    """The metadata of a file: its schemas, or what its plain numbers are called."""
    notes: dict[str, Any] = {"feature_names": list(feature_names)} if feature_names else {}
    if schemas:
        notes["schemas"] = [schema.to_plain() for schema in schemas]
    return {NOTES: json.dumps(notes).encode()}
