"""The archive: old events in Parquet files beside the database, and the log read from both."""

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice, takewhile
from operator import attrgetter
from pathlib import Path
from typing import Any

from rankloop.core.files import atomic_write
from rankloop.service.errors import DamagedArchive
from rankloop.service.log.writer import kind_of
from rankloop.service.records import ArchiveFile, Event, Record, decode, encode
from rankloop.service.stores.base import ReadableLog

ARCHIVE_FOLDER = "archive"
PAGE_ROWS = 2000  # read from the database before the files are looked at
BATCH_ROWS = 1000  # of a file that are decoded at a time
MAX_EVENTS_PER_FILE = 2_000  # also those of one deletion, which holds up the writer


class Archive:
    """The events of an entity in a database and in the files that it lists.

    Args:
      log: The database; a store, where events are moved.
      entity: A ranker, an experiment, a catalogue or an alias.
      data: The folder of the archive.
    """

    def __init__(self, log: ReadableLog, entity: str, data: Path) -> None:
        self.log, self.entity, self.folder = log, entity, data / ARCHIVE_FOLDER
        self._stem = entity.replace("/", "-")

    def records(self, until: int | None = None, after: int = 0) -> Iterator[Record]:
        """Read every record after an event, archived or not, each once and in order.

        An event leaves the database only after it is in a file. So each page is read from the database first and from
        the files afterwards: nothing is missed while events are being moved. A damaged file raises `DamagedArchive`
        before anything is read.
        """
        checked = set[str]()  # names of files, each of which is checked once

        def checked_files(last: int) -> list[Path]:
            listed = [file for file in self.log.manifest(self.entity) if file.last > last]
            for file in listed:
                if file.name not in checked:
                    self.check(file)
                    checked.add(file.name)
            return [self.folder / file.name for file in listed]

        def merged_records(last: int) -> Iterator[Record]:
            while True:
                page = list(islice(self.log.read(self.entity, last, until), PAGE_ROWS))
                archived = archived_records(checked_files(last), last, page[-1].seq if page else until)
                for record in merge(archived, page, key=attrgetter("seq")):
                    if record.seq > last:
                        last = record.seq
                        yield record
                if not page:
                    return

        checked_files(after)
        return merged_records(after)

    def check(self, file: ArchiveFile) -> None:
        """Raise `DamagedArchive` if a file is not what the manifest says."""
        path = self.folder / file.name
        where = f"{path} ({file.events} events of {self.entity}, up to number {file.last})"
        if not path.is_file():
            raise DamagedArchive(f"missing: {where}; restore it from a backup, or give the folder of the archive")
        if _digest(path) != file.digest:
            raise DamagedArchive(f"damaged: {where} is not the file that was written; restore it from a backup")

    def files(self) -> list[Path]:
        """Return the files with the name of the entity, listed or not."""
        paths = self.folder.glob(f"{self._stem}-*.parquet")
        return sorted(file for file in paths if file.stem.rsplit("-", 2)[0] == self._stem)  # not those of "stem-two"

    def drop(self, names: Iterable[str]) -> None:
        """Delete files."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def drop_orphans(self) -> None:
        """Delete files that a crash left over: those that are not listed and whose events a listed one has."""
        listed = self.log.manifest(self.entity)
        names, ranges = {file.name for file in listed}, [(file.first, file.last) for file in listed]
        for path in self.files():
            first, last = (int(number.partition(".")[0]) for number in path.stem.rsplit("-", 2)[1:])
            if path.name not in names and any(first <= end and begin <= last for begin, end in ranges):
                path.unlink(missing_ok=True)

    def move_old_events(self, end_time: float) -> int:
        """Move events here that are older than a time and not needed for a restart; return their number.

        The file is durable before anything is deleted, so a crash in between leaves events in both places.
        """
        self.drop_orphans()
        store: Any = self.log
        snapshot, moved = store.snapshot(self.entity), 0
        if snapshot is None:
            return 0
        until = min(snapshot.oldest_open - 1, snapshot.state_seq)
        first = store.changes(self.entity)[0].seq  # the creation stays
        while True:
            oldest = islice(store.read(self.entity, first, until), MAX_EVENTS_PER_FILE)
            # Up to the first that is not old: after a clock that was set back, none may be left out.
            batch = list(takewhile(lambda record: record.at < end_time, oldest))
            if not batch:
                return moved
            store.move_to_archive(self.entity, first, batch[-1].seq, self.write(batch))
            moved += len(batch)

    def write(self, records: Sequence[Record], replaced: ArchiveFile | None = None) -> ArchiveFile:
        """Write records durably to a new file, perhaps in place of a file; return its entry in the manifest."""
        import pyarrow as pa  # 30 MB, which a worker that serves does not need
        import pyarrow.parquet as pq

        events = [record.event for record in records]
        columns = {
            "seq": pa.array([record.seq for record in records], pa.int64()),
            "entity": pa.array([record.entity for record in records], pa.string()),
            "at": pa.array([record.at for record in records], pa.float64()),
            "kind": pa.array(map(kind_of, events), pa.string()),
            "impression": pa.array([getattr(event, "impression", None) for event in events], pa.string()),
            "body": pa.array(map(encode, events), pa.binary()),
        }
        sink = io.BytesIO()
        pq.write_table(pa.table(columns), sink, compression="zstd")
        first, last, revision = records[0].seq, records[-1].seq, ""
        if replaced is not None:
            number = Path(replaced.name).stem.rpartition("-")[2].partition(".")[2]
            first, last, revision = replaced.first, replaced.last, f".{int(number or 0) + 1}"
        file = self.folder / f"{self._stem}-{first:015d}-{last:015d}{revision}.parquet"
        atomic_write(file, sink.getvalue())
        return ArchiveFile(file.name, first, last, len(records), _digest(file))

    def amend(
        self, changes: Mapping[int, Event | None], listed: Sequence[ArchiveFile]
    ) -> dict[str, ArchiveFile | None]:
        """Write new versions of listed files whose events change or go.

        Returns:
          The new file, or None where nothing is left, by the name of the replaced one.
        """
        replaced: dict[str, ArchiveFile | None] = {}
        for file in listed:
            records = list(archived_records([self.folder / file.name]))
            if changes.keys().isdisjoint(record.seq for record in records):
                continue
            now = [(record, changes.get(record.seq, record.event)) for record in records]
            left = [record._replace(event=event) for record, event in now if event is not None]
            replaced[file.name] = self.write(left, file) if left else None
        return replaced


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def archived_records(files: Iterable[Path], after: int = 0, until: int | None = None) -> Iterator[Record]:
    """Yield the records of files in order, each once.

    Args:
      files: In order.
      after: The event after which is read.
      until: The last event that is read.
    """
    for row in (row for file in files for rows in read_rows(file) for row in rows):
        if until is not None and row["seq"] > until:
            return
        if row["seq"] > after:
            after = row["seq"]
            yield Record(row["seq"], row["entity"], row["at"], decode(row["body"]))


def read_rows(file: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a file in pieces, with the columns of the table of events."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(BATCH_ROWS):
            yield batch.to_pylist()
