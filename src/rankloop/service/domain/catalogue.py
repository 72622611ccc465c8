"""A catalogue: rows by item id that requests need not send, and every row as it was when a ranking was made."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from threading import Lock

from rankloop.adapter import Id
from rankloop.service.records import CatalogueChanged, Record, Values

RowChanges = Mapping[str, Values | None]
ReadChanges = Callable[[int], Iterator[Record]]  # returns the changes after an event
MAX_REPLACED_ROWS = 10_000  # old rows kept in memory, unless the catalogue has more rows than that


class ItemCatalogue:
    """Current and earlier rows by id; the version of a catalogue is the event that changed it last.

    The newest of the replaced rows are kept in memory; older ones are read from the log.

    Args:
      read: Reads changes from the log; None if all events are applied with `put`.
    """

    def __init__(self, read: ReadChanges | None = None) -> None:
        self.version = 0
        self.replaced = 0  # the number of replaced rows in memory
        self._rows: dict[str, Values] = {}
        self._old_rows: dict[str, list[tuple[int, Values | None]]] = {}  # by id: the event that replaced it, the row
        self._oldest_version = 0  # versions from here on are in memory
        self._read = read
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: Id) -> bool:
        return str(id) in self._rows

    def put(self, seq: int, changes: RowChanges) -> None:
        """Apply an event: each row replaces the one of its id, None deletes it."""
        with self._lock:
            self._put(seq, changes)

    def catch_up(self) -> None:
        """Apply changes that other processes have logged."""
        if self._read is None:
            return
        for record in self._read(self.version):
            with self._lock:
                if isinstance(record.event, CatalogueChanged) and record.seq > self.version:
                    self._put(record.seq, record.event.rows)
        if self.replaced > max(len(self), MAX_REPLACED_ROWS):
            times = sorted(until for parts in self._old_rows.values() for until, _ in parts)
            self.keep_since(times[len(times) // 2])

    def _put(self, seq: int, changes: RowChanges) -> None:
        for id, row in changes.items():
            self._old_rows.setdefault(id, []).append((seq, self._rows.get(id)))
            if row is None:
                self._rows.pop(id, None)
            else:
                self._rows[id] = row
        self.replaced += len(changes)
        self.version = seq

    def changed(self, changes: RowChanges) -> dict[str, Values | None]:
        """Return the changes that differ from the current rows."""
        return {id: row for id, row in changes.items() if self._rows.get(id) != row}

    def rows(self, ids: Sequence[Id], version: int) -> list[Values | None]:
        """Return the rows of these ids in a version; None for an id that it did not have."""
        if version > self.version:
            self.catch_up()
        with self._lock:
            if version >= self.version:
                return [self._rows.get(str(id)) for id in ids]
            if version >= self._oldest_version:
                return [self._old_row(str(id), version) for id in ids]
        return self._rows_from_log(ids, version)

    def keep_since(self, version: int) -> None:
        """Drop the rows that were replaced up to this version from memory."""
        with self._lock:
            self._oldest_version = max(self._oldest_version, min(version, self.version))
            kept = {
                id: [part for part in parts if part[0] > self._oldest_version] for id, parts in self._old_rows.items()
            }
            self._old_rows = {id: parts for id, parts in kept.items() if parts}
            self.replaced = sum(map(len, self._old_rows.values()))

    def _old_row(self, id: str, version: int) -> Values | None:
        for until, row in self._old_rows.get(id, ()):
            if until > version:
                return row
        return self._rows.get(id)

    def _rows_from_log(self, ids: Sequence[Id], version: int) -> list[Values | None]:
        """Read the whole log of the catalogue: right for any version, and slow."""
        rows: dict[str, Values | None] = dict.fromkeys(map(str, ids))
        for record in self._read(0) if self._read is not None else ():
            if isinstance(record.event, CatalogueChanged) and record.seq <= version:
                rows |= {id: row for id, row in record.event.rows.items() if id in rows}
        return [rows[str(id)] for id in ids]


def catalogue_of(records: Iterable[Record], read: ReadChanges | None = None) -> ItemCatalogue:
    """Build the catalogue of these events.

    Args:
      records: The events of the catalogue.
      read: See `ItemCatalogue`.
    """
    catalogue = ItemCatalogue(read)
    for record in records:
        if isinstance(record.event, CatalogueChanged):
            catalogue.put(record.seq, record.event.rows)
    return catalogue


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
