"""A catalogue: rows by item id that requests need not send. An impression logs the rows that it was ranked by."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from threading import Lock
from typing import Any

from rankloop.adapter import MAX_ID_LENGTH, Id
from rankloop.core.errors import Rejected, rejected_as
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
        with rejected_as("rows"):
            RequestValues(list(changed.values()), {}).packed()
            for schema in schemas:
                # New encoders, because the event loop uses those of the rankers.
                readable = [with_fields(row, schema.features.keys()) for row in changed.values()]
                Encoder(schema).rows(list(changed), readable, {}, time.time())
        return changes

    def completed(self, ids: Sequence[Id], rows: Sequence[Values], names: Set[str]) -> list[Values]:
        """Return the rows of a request with the catalogue's values of these fields; those of the request win."""
        current, completed = self._rows, list[Values]()  # other threads replace the rows of the catalogue
        for id, row in zip(ids, rows):
            values = current.get(str(id))
            if values is None and not row:
                raise Rejected("items", f"{id!r:.80} is not in the catalogue; put it there, or give its features")
            completed.append({**with_fields(values or {}, names), **row})
        return completed


def with_fields(values: Values, names: Set[str]) -> Values:
    """Return the values of these fields.

    Args:
      values: By field name.
      names: The fields.
    """
    return values if values.keys() <= names else {name: values[name] for name in values if name in names}


def _check_row(id: str, row: Values) -> None:
    if len(row) > MAX_FIELDS:
        raise Rejected("rows", f"item {id!r:.60} has {len(row)} fields; at most {MAX_FIELDS} are allowed")
    for name, value in row.items():
        if not name or len(name) > MAX_NAME_LENGTH:
            limits = f"field names have 1 to {MAX_NAME_LENGTH} characters"
            raise Rejected("rows", f"item {id!r:.60}: {name!r:.60} is not a field name: {limits}")
        if any(isinstance(part, dict | list) for part in (value if isinstance(value, list) else [value])):
            raise Rejected("rows", f"item {id!r:.60}: {name} must be a text, a number, true, false, null or a list")
