"""The archive: old events in Parquet files beside the database, and the log read from both."""

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice, takewhile
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from rankloop.core.files import atomic_write
from rankloop.service.errors import DamagedArchive
from rankloop.service.log.writer import kind_of
from rankloop.service.records import AnyEvent, ArchiveFile, Record, decode, encode
from rankloop.service.stores.base import Store

ARCHIVE_FOLDER = "archive"
PAGE_ROWS = 2000  # read from the database before the files are looked at
BATCH_ROWS = 1000  # of a file that are decoded at a time
MAX_EVENTS_PER_FILE = 2_000  # also those of one deletion, which holds up the writer


class ArchivedLog(Protocol):
    """A log that can be read from an event on, and that lists the files with its older events."""

    def read(self, entity: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield the records of the database in order."""

    def manifest(self, entity: str) -> list[ArchiveFile]:
        """Return the files of an entity in order."""


def read_records(
    log: ArchivedLog, entity: str, data: Path, until: int | None = None, after: int = 0
) -> Iterator[Record]:
    """Read every record of an entity after one, archived or not, each once and in order.

    An event leaves the database only after it is in a file. So each page is read from the
    database first and from the files afterwards: nothing is missed while events are being moved.

    Args:
      log: The database.
      entity: A ranker, an experiment, a catalogue or an alias.
      data: The folder of the archive.
      until: The last event that is read; None for all.
      after: The event after which is read.

    Raises:
      DamagedArchive: If a file of the archive is missing or is not what was written, before anything is read.
    """
    checked = set[str]()
    _checked_files(log, entity, data, after, checked)
    return _records_of(log, entity, data, until, after, checked)


def _records_of(
    log: ArchivedLog, entity: str, data: Path, until: int | None, after: int, checked: set[str]
) -> Iterator[Record]:
    last = after
    while True:
        page = list(islice(log.read(entity, last, until), PAGE_ROWS))
        end = page[-1].seq if page else until
        files = _checked_files(log, entity, data, last, checked)
        for record in merge(_read(files, last, end), page, key=attrgetter("seq")):
            if record.seq > last:
                last = record.seq
                yield record
        if not page:
            return


def _checked_files(log: ArchivedLog, entity: str, data: Path, after: int, checked: set[str]) -> list[Path]:
    """Return the files with events after one; each is checked once, by its name in `checked`."""
    listed = [file for file in log.manifest(entity) if file.last > after]
    for file in listed:
        if file.name not in checked:
            check_file(data, file, entity)
            checked.add(file.name)
    return [data / ARCHIVE_FOLDER / file.name for file in listed]


def check_file(data: Path, file: ArchiveFile, entity: str) -> None:
    """Raise `DamagedArchive` if a file is not what the manifest says.

    Args:
      data: The folder of the archive.
      file: As the manifest lists it.
      entity: Whose events it holds.
    """
    path = data / ARCHIVE_FOLDER / file.name
    where = f"{path} ({file.events} events of {entity}, up to number {file.last})"
    if not path.is_file():
        raise DamagedArchive(f"missing: {where}; restore it from a backup, or give the folder of the archive")
    if _digest(path) != file.digest:
        raise DamagedArchive(f"damaged: {where} is not the file that was written; restore it from a backup")


def remove_orphans(store: Store, entity: str, data: Path) -> None:
    """Delete files that a crash left over: those that are not listed and whose events a listed one has.

    Args:
      store: It lists the files.
      entity: Whose events they hold.
      data: The folder of the archive.
    """
    listed = store.manifest(entity)
    names, ranges = {file.name for file in listed}, [(file.first, file.last) for file in listed]
    for path in files_of(data, entity):
        first, last = _range(path)
        if path.name not in names and any(first <= end and begin <= last for begin, end in ranges):
            path.unlink(missing_ok=True)


def archive_old_events(store: Store, entity: str, data: Path, end_time: float) -> int:
    """Move events to the archive that are old and not needed for a restart.

    The file is durable before anything is deleted, so a crash in between leaves events in both places, never in none.

    Args:
      store: From which they are moved.
      entity: Whose events.
      data: The folder of the archive.
      end_time: The time before which an event is old, in seconds since 1970.

    Returns:
      The number of events that were moved.
    """
    remove_orphans(store, entity, data)
    snapshot, moved = store.snapshot(entity), 0
    if snapshot is None:
        return 0
    until = min(snapshot.oldest_open - 1, snapshot.state_seq)
    first = store.changes(entity)[0].seq  # the creation stays
    while batch := _oldest(store.read(entity, first, until), end_time):
        store.move_to_archive(entity, first, batch[-1].seq, write_file(data, entity, batch))
        moved += len(batch)
    return moved


def _oldest(records: Iterator[Record], end_time: float) -> list[Record]:
    """Return records up to the first that is not old: after a clock that was set back, none may be left out."""
    return list(takewhile(lambda record: record.at < end_time, islice(records, MAX_EVENTS_PER_FILE)))


def write_file(data: Path, entity: str, records: Sequence[Record]) -> ArchiveFile:
    """Write records durably to a new file.

    Args:
      data: The folder of the archive.
      entity: Whose events they are.
      records: In order.

    Returns:
      The entry of the file in the manifest.
    """
    return _write(data / ARCHIVE_FOLDER / _name(entity, records[0].seq, records[-1].seq), records)


def _write(file: Path, records: Sequence[Record]) -> ArchiveFile:
    import pyarrow as pa  # 30 MB, which a worker that serves does not need
    import pyarrow.parquet as pq

    columns = {
        "seq": pa.int64(),
        "entity": pa.string(),
        "at": pa.float64(),
        "kind": pa.string(),
        "impression": pa.string(),
        "body": pa.binary(),
    }
    sink = io.BytesIO()
    pq.write_table(
        pa.Table.from_pylist([_row(record) for record in records], pa.schema(columns)), sink, compression="zstd"
    )
    atomic_write(file, sink.getvalue())
    first, last = _range(file)
    return ArchiveFile(file.name, first, last, len(records), _digest(file))


def amend_archive(
    data: Path, entity: str, changes: Mapping[int, AnyEvent | None], listed: Sequence[ArchiveFile]
) -> dict[str, ArchiveFile | None]:
    """Write new versions of the files whose events change.

    Args:
      data: The folder of the archive.
      entity: Whose events they hold.
      changes: New events by number; None for an event that goes.
      listed: All files of the entity.

    Returns:
      The new file, or None where nothing is left, by the name of the replaced one.
    """
    replaced: dict[str, ArchiveFile | None] = {}
    for file in listed:
        records = list(_records(data / ARCHIVE_FOLDER / file.name))
        if changes.keys().isdisjoint(record.seq for record in records):
            continue
        now = [(record, changes.get(record.seq, record.event)) for record in records]
        left = [record._replace(event=event) for record, event in now if event is not None]
        path = data / ARCHIVE_FOLDER / _name(entity, file.first, file.last, _revision(file.name) + 1)
        replaced[file.name] = _write(path, left) if left else None
    return replaced


def drop_files(data: Path, names: Iterable[str]) -> None:
    """Delete files of the archive.

    Args:
      data: The folder of the archive.
      names: Of the files.
    """
    for name in names:
        (data / ARCHIVE_FOLDER / name).unlink(missing_ok=True)


def files_of(data: Path, entity: str) -> list[Path]:
    """Return the files with the name of an entity, listed or not.

    Args:
      data: The folder of the archive.
      entity: Whose events they hold.
    """
    stem = _stem(entity)
    paths = (data / ARCHIVE_FOLDER).glob(f"{stem}-*.parquet")
    return sorted(file for file in paths if file.stem.rsplit("-", 2)[0] == stem)  # not those of "stem-two"


def _stem(entity: str) -> str:
    return entity.replace("/", "-")


def _name(entity: str, first: int, last: int, revision: int = 0) -> str:
    return f"{_stem(entity)}-{first:015d}-{last:015d}{f'.{revision}' if revision else ''}.parquet"


def _range(file: Path) -> tuple[int, int]:
    """Return the first and the last event that a file was written with."""
    _, first, last = file.stem.rsplit("-", 2)
    return int(first), int(last.partition(".")[0])


def _revision(name: str) -> int:
    """Return how often a file was amended."""
    revision = name.removesuffix(".parquet").rsplit("-", 1)[1].partition(".")[2]
    return int(revision or 0)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _read(files: list[Path], after: int, until: int | None) -> Iterator[Record]:
    last = after
    for file in files:
        for record in _records(file):
            if until is not None and record.seq > until:
                return
            if record.seq > last:
                last = record.seq
                yield record


def _records(file: Path) -> Iterator[Record]:
    for rows in read_rows(file):
        for row in rows:
            yield Record(row["seq"], row["entity"], row["at"], decode(row["body"]))


def read_rows(file: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a file in pieces, with the columns of the table of events."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(BATCH_ROWS):
            yield batch.to_pylist()


def _row(record: Record) -> dict[str, Any]:
    event = record.event
    return {
        "seq": record.seq,
        "entity": record.entity,
        "at": record.at,
        "kind": kind_of(event),
        "impression": getattr(event, "impression", None),
        "body": encode(event),
    }
