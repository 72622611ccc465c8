"""A catalogue: rows by item id that requests need not send. An impression logs the rows that it was ranked by."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from threading import Lock
from typing import Any

from rankloop.adapter import Id, RawValues
from rankloop.core.errors import Rejected, rejected_as
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.service.domain.named_values import packed_values
from rankloop.service.records import CatalogueChanged, Record, Values

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
        changes = {id: row for id, row in rows.items() if self._rows.get(id) != row}
        changed = {id: row for id, row in changes.items() if row is not None}
        with rejected_as("rows"):
            packed_values(RawValues(list(changed.values()), {}, 0.0, 0))  # raises
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
