"""A catalogue: rows by item id that requests need not send. An impression logs the rows that it was ranked by."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from threading import Lock

from rankloop.adapter import Id
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

    def changed(self, changes: RowChanges) -> dict[str, Values | None]:
        """Return the changes that differ from the current rows."""
        return {id: row for id, row in changes.items() if self._rows.get(id) != row}

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
