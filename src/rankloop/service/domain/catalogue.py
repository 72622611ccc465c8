"""A catalogue: rows by id that requests need not send, and every row as it was when a ranking was made."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from threading import Lock

from rankloop.adapter import Id
from rankloop.service.records import CatalogueChanged, Record, Values

RowChanges = Mapping[str, Values | None]
Read = Callable[[int], Iterator[Record]]  # the changes after an event
MAX_REPLACED = 10_000  # rows that are kept as they were, where there are fewer than twice as many rows


class ItemCatalogue:
    """Rows by id, as they are and as they were: the version of a catalogue is the event that changed it last.

    Of rows that were replaced the newest are kept; older ones are read from the log, and so is what is newer here.
    """

    def __init__(self, read: Read | None = None) -> None:
        self.version = 0
        self.replaced = 0  # rows that are kept as they were
        self._rows: dict[str, Values] = {}
        self._before: dict[str, list[tuple[int, Values | None]]] = {}  # by id: until which event, and what it was
        self._since = 0  # versions from here on are in memory
        self._read = read
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: Id) -> bool:
        return str(id) in self._rows

    def put(self, seq: int, changes: RowChanges) -> None:
        """Apply an event: rows replace those of the same id, None takes one away."""
        with self._lock:
            self._put(seq, changes)

    def catch_up(self) -> None:
        """Apply what others have logged."""
        for record in self._read(self.version) if self._read is not None else ():
            with self._lock:
                if isinstance(record.event, CatalogueChanged) and record.seq > self.version:
                    self._put(record.seq, record.event.rows)
        if self._read is not None and self.replaced > max(len(self), MAX_REPLACED):
            self.thin_out()

    def thin_out(self) -> None:
        """Forget the older half of what was replaced."""
        times = sorted(until for parts in self._before.values() for until, _ in parts)
        self.keep_since(times[len(times) // 2] if times else self.version)

    def _put(self, seq: int, changes: RowChanges) -> None:
        for id, row in changes.items():
            self._before.setdefault(id, []).append((seq, self._rows.get(id)))
            if row is None:
                self._rows.pop(id, None)
            else:
                self._rows[id] = row
        self.replaced += len(changes)
        self.version = seq

    def changed(self, changes: RowChanges) -> dict[str, Values | None]:
        """Those of the changes that would change anything."""
        return {id: row for id, row in changes.items() if self._rows.get(id) != row}

    def rows(self, ids: Sequence[Id], version: int) -> list[Values | None]:
        """The rows of these ids in a version; None for an id that was not there."""
        if version > self.version:
            self.catch_up()
        with self._lock:
            if version >= self.version:
                return [self._rows.get(str(id)) for id in ids]
            if version >= self._since:
                return [self._as_it_was(str(id), version) for id in ids]
        return self._read_again(ids, version)

    def keep_since(self, version: int) -> None:
        """Forget what was replaced up to this version."""
        with self._lock:
            self._since = max(self._since, min(version, self.version))
            kept = {id: [part for part in parts if part[0] > self._since] for id, parts in self._before.items()}
            self._before = {id: parts for id, parts in kept.items() if parts}
            self.replaced = sum(map(len, self._before.values()))

    def _as_it_was(self, id: str, version: int) -> Values | None:
        for until, row in self._before.get(id, ()):
            if until > version:
                return row
        return self._rows.get(id)

    def _read_again(self, ids: Sequence[Id], version: int) -> list[Values | None]:
        """From the log: right for any version, and slow."""
        found: dict[str, Values | None] = dict.fromkeys(map(str, ids))
        for record in self._read(0) if self._read is not None else ():
            if isinstance(record.event, CatalogueChanged) and record.seq <= version:
                found |= {id: row for id, row in record.event.rows.items() if id in found}
        return [found[str(id)] for id in ids]


def catalogue_of(records: Iterable[Record], read: Read | None = None) -> ItemCatalogue:
    """The catalogue that these events make."""
    catalogue = ItemCatalogue(read)
    for record in records:
        if isinstance(record.event, CatalogueChanged):
            catalogue.put(record.seq, record.event.rows)
    return catalogue


def merged_rows(found: Sequence[Values | None], given: Sequence[Values], names: Set[str]) -> list[Values]:
    """What a ranker with these fields is told of each item: what is given wins over what the catalogue has."""
    rows: list[Values] = []
    for known, own in zip(found, given):
        row: Values = {} if known is None else known
        if not row.keys() <= names:
            row = {name: value for name, value in row.items() if name in names}
        rows.append({**row, **own} if own else row)
    return rows
