"""A catalogue: rows by item id that requests need not send. An impression logs the rows that it was ranked by."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from threading import Lock
from typing import Any

from rankloop.adapter import MAX_ID_LENGTH, Id
from rankloop.core.errors import InvalidInput, Rejected
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.service.domain.named_values import RequestValues
from rankloop.service.records import CatalogueChanged, Record, Values

MAX_FIELDS = 1_000  # of a row
MAX_NAME_LENGTH = 128  # characters of a field name
RowChanges = Mapping[str, Values | None]
ReadChanges = Callable[[int], Iterable[Record]]  # returns the changes after an event


class ItemCatalogue:
    """The current rows by id; the version of a catalogue is the event that changed it last."""

    def __init__(self, read: ReadChanges = lambda after: ()) -> None:
        self.version = 0
        self._rows: dict[str, Values] = {}
        self._read = read
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def catch_up(self) -> None:
        """Apply changes that were logged since the last call, perhaps by other processes."""
        with self._lock:
            changes: dict[str, Values | None] = {}
            for record in self._read(self.version):
                if isinstance(record.event, CatalogueChanged):
                    changes |= record.event.rows
                    self.version = record.seq
            if changes:
                self._rows = {id: row for id, row in (self._rows | changes).items() if row is not None}

    def changes_of(self, rows: RowChanges, schemas: Iterable[Schema]) -> dict[str, Any]:
        """Return the rows of a request that change the catalogue, which must suit the schemas that use it."""
        for id, row in rows.items():
            if not id or len(id) > MAX_ID_LENGTH:
                raise Rejected("rows", f"{id!r:.60} is not an id: ids have 1 to {MAX_ID_LENGTH} characters")
            _check_row(id, row or {})
        changes = {id: row for id, row in rows.items() if self._rows.get(id) != row}
        changed = {id: row for id, row in changes.items() if row is not None}
        try:
            RequestValues(list(changed.values()), {}).packed()
            for schema in schemas:
                # New encoders, because the event loop uses those of the rankers.
                readable = merged_rows(list(changed.values()), [{}] * len(changed), schema.features.keys())
                Encoder(schema).rows(list(changed), readable, {}, time.time())
        except InvalidInput as error:
            raise Rejected("rows", str(error)) from None
        return changes

    def rows(self, ids: Sequence[Id]) -> list[Values | None]:
        """Return the rows of these ids; None for an id that the catalogue does not have."""
        rows = self._rows  # other threads replace it
        return [rows.get(str(id)) for id in ids]


def merged_rows(
    catalogue_rows: Sequence[Values | None], request_rows: Sequence[Values], names: Set[str]
) -> list[Values]:
    """Merge the values of a request into the rows of a catalogue; the request's values win.

    Args:
      catalogue_rows: One row per item; None if the catalogue does not have it.
      request_rows: One row per item.
      names: The fields of the ranker; other values of the catalogue are left out.
    """
    rows: list[Values] = []
    for row, request_row in zip(catalogue_rows, request_rows):
        row = {} if row is None else row
        if not row.keys() <= names:
            row = {name: value for name, value in row.items() if name in names}
        rows.append({**row, **request_row} if request_row else row)
    return rows


def _check_row(id: str, row: Values) -> None:
    if len(row) > MAX_FIELDS:
        raise Rejected("rows", f"item {id!r:.60} has {len(row)} fields; at most {MAX_FIELDS} are allowed")
    for name, value in row.items():
        if not name or len(name) > MAX_NAME_LENGTH:
            limits = f"field names have 1 to {MAX_NAME_LENGTH} characters"
            raise Rejected("rows", f"item {id!r:.60}: {name!r:.60} is not a field name: {limits}")
        if any(isinstance(part, dict | list) for part in (value if isinstance(value, list) else [value])):
            raise Rejected("rows", f"item {id!r:.60}: {name} must be a text, a number, true, false, null or a list")
