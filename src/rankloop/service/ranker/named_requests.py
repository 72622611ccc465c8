"""Requests in people's own values: checked by the schema, filled up from a catalogue, told apart by what was given."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rankloop.adapter import INVALID_ID, MAX_ID_LENGTH, Id, QueryRequest, RawValues, is_valid_id
from rankloop.core.errors import InvalidInput, Rejected
from rankloop.features.encoder import Encoder
from rankloop.service.log.catalogue import Catalogue, Changes, merged_rows
from rankloop.service.log.events import Ranked
from rankloop.service.log.values import Row, packed, unpacked
from rankloop.service.ranker.base import BASE_SCORE
from rankloop.service.ranker.config import RankerConfig
from rankloop.service.requests import RankBody

MAX_FIELDS = 1_000  # of a row in a catalogue
MAX_NAME = 128  # characters of a field


def named_request(body: RankBody, config: RankerConfig, catalogue: Catalogue | None) -> QueryRequest:
    """What a request asks of a ranker with a schema; its `values` are those that it gave, to be logged as such."""
    ids = [*(item.id for item in body.items), *body.ids]
    if not all(map(is_valid_id, ids)):
        raise Rejected("items", INVALID_ID)
    given = [_given(item.id, item.features) for item in body.items] + [{}] * len(body.ids)
    if body.ids and catalogue is None:
        raise Rejected("ids", "items by id alone need a catalogue in the ranker's problem; give items with features")
    if not ids and catalogue is not None:
        ids, given = list(config.adapter.items), [{}] * len(config.adapter.items)
    if config.booster is not None and any(BASE_SCORE in row for row in given):
        raise Rejected("items", f"{BASE_SCORE!r} is computed by the ranker's booster: leave it out")
    rows: Sequence[Row] = given
    if catalogue is not None:
        version = catalogue.version
        found = catalogue.rows(ids, version)
        _check_known(ids, found, given)
        rows = merged_rows(found, given, frozenset(config.adapter.feature_names))
    if config.booster is not None:
        given = config.with_booster_values(given, body.query_id, rows)
        rows = [{**row, BASE_SCORE: own[BASE_SCORE]} for row, own in zip(rows, given)]
    request = config.adapter.query(ids, rows, body.context, body.query_id, body.pinned, body.excluded, time.time())
    if catalogue is None or request.values is None:
        return request
    own = dict(zip(map(str, ids), given))  # a fixed set comes in its own order
    values = request.values._replace(rows=[own[str(id)] for id in request.ids])
    return request._replace(values=values, catalogue=version)


def same_values(before: Ranked, values: RawValues) -> bool:
    """Whether a request gave what one before it gave; when it came, and by which version, makes no difference."""
    if before.values == packed(values.rows, values.context):
        return True
    known = unpacked(before.values, len(before.ids)) if before.values else None
    return known is not None and known.rows == values.rows and known.context == values.context


def catalogue_changes(rows: Changes, catalogue: Catalogue, rankers: Iterable[RankerConfig]) -> dict[str, Any]:
    """What a request changes in a catalogue; refused as a whole where a ranker that uses it could not read a row."""
    for id, row in rows.items():
        if not id or len(id) > MAX_ID_LENGTH:
            raise Rejected("rows", f"{id!r:.60} is no id: 1 to {MAX_ID_LENGTH} characters")
        if row is not None:
            _check_row(id, row)
    changes = catalogue.changed(rows)
    changed = {id: row for id, row in changes.items() if row is not None}
    try:
        packed(list(changed.values()), {})
        for config in rankers:
            _check_readable(changed, config)
    except InvalidInput as error:
        raise Rejected("rows", str(error)) from None
    return changes


def _given(id: Id, features: Any) -> Row:
    """An empty list is what an item without features has."""
    if isinstance(features, Mapping):
        return features
    if features:
        raise Rejected("items", f"item {id!r:.80} has a list of numbers; with a schema give values by name")
    return {}


def _check_known(ids: Sequence[Id], found: Sequence[Row | None], given: Sequence[Row]) -> None:
    for id, known, own in zip(ids, found, given):
        if known is None and not own:
            raise Rejected("items", f"{id!r:.80} is not in the catalogue; put it there, or give its features")


def _check_row(id: str, row: Row) -> None:
    if len(row) > MAX_FIELDS:
        raise Rejected("rows", f"item {id!r:.60} has {len(row)} fields; at most {MAX_FIELDS} are taken")
    for name, value in row.items():
        if not name or len(name) > MAX_NAME:
            raise Rejected("rows", f"item {id!r:.60}: {name!r:.60} is no name of a field: 1 to {MAX_NAME} characters")
        parts = value if isinstance(value, list) else [value]
        if any(isinstance(part, dict | list) for part in parts):
            raise Rejected("rows", f"item {id!r:.60}: {name} must be a text, a number, true, false, null or a list")


def _check_readable(rows: Mapping[str, Row], config: RankerConfig) -> None:
    """With an encoder of its own: that of the ranker is not held up by thousands of rows."""
    encoder = Encoder(config.encoders[max(config.encoders)].schema)
    known = merged_rows(list(rows.values()), [{}] * len(rows), encoder.schema.features.keys())
    encoder.rows(list(rows), known, {}, time.time())
