"""The Parquet export of a service's log, one row per impression: its typed columns, and the reader of them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.registry import spec_of
from rankloop.core.types import finite_floats
from rankloop.features.kinds import moment_of
from rankloop.features.schema import Schema
from rankloop.logs.columns import ListColumns
from rankloop.logs.list_log import Exported, ListLog
from rankloop.logs.list_table import as_list
from rankloop.logs.table_reader import TableReader

METADATA_KEY = b"rankloop"  # the key of the file's metadata under which names and schemas stand, as JSON
OF_ITEM, OF_CONTEXT, OF_OUTCOME = "item.", "context.", "outcome."  # begin the names of columns with values by field
JSON_LIST_KINDS = ("category", "id")  # a list of them stands in its cell as JSON
EXPORT_COLUMNS = ("query_id", "ranking", "features", "context", "log_propensity", "feedback", "items", "values")
PIECE_ROWS = 1024


def kind_of(field: Any) -> str:
    """Return what a field is called in a schema."""
    return str(spec_of(field)["kind"])


def fields_of(schemas: Iterable[Schema]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that items and context have or had in any version: a name keeps its kind for ever."""
    features, context = dict[str, Any](), dict[str, Any]()
    for schema in schemas:
        features |= schema.features
        context |= schema.context
    return features, context


def arrow_fields(schemas: Sequence[Schema]) -> list[tuple[str, Any]]:
    """Return names and types: a list per item field, as long as the ranking, and a value per context field."""
    pa = import_extra("pyarrow")
    types = {"number": pa.float64(), "flag": pa.bool_(), "date": pa.float64(), "vector": pa.list_(pa.float64())}
    features, context = fields_of(schemas)
    of_items = [(OF_ITEM + name, pa.list_(types.get(kind_of(kind), pa.string()))) for name, kind in features.items()]
    return of_items + [(OF_CONTEXT + name, types.get(kind_of(kind), pa.string())) for name, kind in context.items()]


def typed_row(
    schemas: Sequence[Schema], rows: Sequence[Mapping[str, Any]], context: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the cells of one ranking; what is missing is null.

    Args:
      schemas: The schemas by version.
      rows: The rows of the items.
      context: The values of the context.
    """
    features, context_fields = fields_of(schemas)
    cells = {OF_ITEM + name: [_typed_value(kind, row.get(name)) for row in rows] for name, kind in features.items()}
    return cells | {OF_CONTEXT + name: _typed_value(kind, context.get(name)) for name, kind in context_fields.items()}


def _typed_value(field: Any, value: Any) -> Any:
    """Return a value in the type of its column: dates in seconds since 1970, lists as JSON."""
    kind = kind_of(field)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if kind == "vector":
        return [float(number) for number in field.numbers(value)]
    if kind == "date":
        return moment_of(value)
    if kind == "number":
        return float(value)
    if kind not in JSON_LIST_KINDS and kind != "flag":
        return value
    keys, _ = field.tokens(value, 0.0)
    texts = list(keys)
    if kind == "flag":
        return texts == ["1"]
    if isinstance(value, list | tuple | set | frozenset) and len(texts) > 1:
        return json.dumps(texts, ensure_ascii=False)
    return texts[0] if texts else None


def notes_of(schemas: Sequence[Schema], feature_names: Sequence[str] = ()) -> dict[bytes, bytes]:
    """Return the metadata of a file: its schemas, or what its plain numbers are called.

    Args:
      schemas: The schemas by version.
      feature_names: The names of plain numbers.
    """
    notes: dict[str, Any] = {"feature_names": list(feature_names)} if feature_names else {}
    if schemas:
        notes["schemas"] = [schema.to_plain() for schema in schemas]
    return {METADATA_KEY: json.dumps(notes).encode()}


def is_export(path: Path) -> bool:
    """Return true for a Parquet file with the columns of an export."""
    source = TableReader(path)
    return source.format == "parquet" and {"ranking", "log_propensity", "features"} <= set(source.names)


def exported_schemas(path: Path) -> list[Schema]:
    """Return the schemas of an export, the newest last; none where its features are plain numbers."""
    pq = import_extra("pyarrow.parquet")
    schemas = map(Schema.from_plain, _notes(pq.ParquetFile(path), path.name).get("schemas") or ())
    return sorted(schemas, key=lambda schema: schema.version)


def read_service_export(path: Path) -> ListLog:
    """Read an export; rankings that were mixed for a comparison of two rankers are left out."""
    file = import_extra("pyarrow.parquet").ParquetFile(path)
    names, notes = file.schema_arrow.names, _notes(file, path.name)
    schemas = exported_schemas(path)
    features, context = fields_of(schemas)
    needed = [name for name in EXPORT_COLUMNS if not schemas or name not in ("features", "context")]
    needed += ["at"] if schemas else []
    needed += [*(OF_ITEM + name for name in features), *(OF_CONTEXT + name for name in context)]
    missing = next((name for name in (*EXPORT_COLUMNS, *needed) if name not in names), None)
    if missing is not None:
        raise InvalidInput(f"{path.name} lacks the column {missing!r} of an export of impressions")
    outcomes = [name for name in names if name.startswith(OF_OUTCOME)]
    kept = [*needed, *outcomes, *(["evaluation"] if "evaluation" in names else [])]
    rows = (cells for batch in file.iter_batches(PIECE_ROWS, columns=kept) for cells in batch.to_pylist())
    ranked = ((row, cells) for row, cells in enumerate(rows, 1) if not cells.get("evaluation"))
    pages = [_check_cells(cells, f"{path.name}, row {row}", plain=not schemas) for row, cells in ranked]
    if not pages:
        raise InvalidInput(f"{path.name} has no impressions")
    feature_names = tuple(map(str, notes.get("feature_names") or ()))
    sizes = [len(page["ranking"]) for page in pages]
    weight = np.array([value for page in pages for value in page["weight"]])
    numbers = None if schemas else np.concatenate([page["features"] for page in pages])
    if numbers is None:
        values = _values(pages, features, context)
    else:
        n_features = numbers.shape[1]
        called = feature_names if len(feature_names) == n_features else map("feature_{}".format, range(n_features))
        values = {column: numbers[:, number].tolist() for number, column in enumerate(called)}
    return ListLog(
        name=path.name,
        columns=ListColumns(),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        position=np.concatenate([np.arange(size) for size in sizes]),
        clicked=(weight > 0.0).astype(np.float64),
        weight=weight,
        query=[page["query_id"] or "" for page, size in zip(pages, sizes) for _ in range(size)],
        item=[item for page in pages for item in page["ranking"]],
        session=[None] * len(sizes),
        user=[None] * len(sizes),
        values=values,
        export=Exported(
            log_propensity=np.array([page["log_propensity"] for page in pages], dtype=np.float64),
            at=np.array([float(page.get("at") or 0.0) for page in pages]),
            feedback=[page["feedback"] or "" for page in pages],
            contexts=[] if schemas else [page["context"] for page in pages],
            schemas=tuple(schemas),
            features=numbers,
            feature_names=feature_names,
            outcomes={
                name.removeprefix(OF_OUTCOME): np.array([value for page in pages for value in page[name]])
                for name in outcomes
            },
        ),
    )


def _notes(file: Any, name: str) -> dict[str, Any]:
    """Return what an export says of itself: `feature_names`, or `schemas` of all versions."""
    metadata = file.schema_arrow.metadata or {}
    try:
        notes = json.loads(metadata.get(METADATA_KEY, b"{}"))
    except ValueError:
        notes = None
    if not isinstance(notes, dict):
        raise InvalidInput(f"{name}: its metadata are not those of an export")
    return notes


def _check_cells(cells: dict[str, Any], where: str, plain: bool) -> dict[str, Any]:
    """Return the cells of an impression with the `weight` of each item; `plain` features as arrays of numbers."""
    ranking = cells["ranking"] or []
    if not ranking or len(set(ranking)) != len(ranking):
        raise InvalidInput(f"{where}: the ranking is empty or names an item twice")
    items, values = cells["items"] or [], cells["values"] or []
    if len(items) != len(values) or not set(items) <= set(ranking):
        raise InvalidInput(f"{where}: feedback names an item that was not shown, or lacks a number")
    revealed = dict(zip(items, values))
    cells["weight"] = [revealed.get(item, 0.0) for item in ranking]
    for name in filter(lambda name: name.startswith(OF_OUTCOME), cells):
        if len(cells[name] or ()) != len(ranking):
            raise InvalidInput(f"{where}: {name} must have a number for each item")
    if plain:
        rows = np.reshape(cells["features"], (len(ranking), -1))
        cells["features"] = finite_floats(rows, 2, f"{where}: features")
        cells["context"] = finite_floats(cells["context"] or [], 1, f"{where}: context")
    return cells


def _values(
    pages: Sequence[Mapping[str, Any]], features: Mapping[str, Any], context: Mapping[str, Any]
) -> dict[str, Sequence[Any]]:
    """Return the values of every row by field; lists that stand in their cells as JSON are lists again."""
    values = dict[str, Sequence[Any]]()
    for prefix, fields in ((OF_ITEM, features), (OF_CONTEXT, context)):
        for name, kind in fields.items():
            cells = list[Any]()
            for page in pages:
                cell, size = page[prefix + name], len(page["ranking"])
                cells += [cell] * size if prefix == OF_CONTEXT else cell or [None] * size
            values[name] = list(map(as_list, cells)) if kind_of(kind) in JSON_LIST_KINDS else cells
    return values
