"""The archive: old events in Parquet files beside the database, and the log out of both."""

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from rankloop.core.files import atomic_write
from rankloop.service.errors import DamagedArchive
from rankloop.service.records import AnyEvent, ArchiveFile, Record, decode, encode
from rankloop.service.stores.base import Store

FOLDER = "archive"
PAGE = 2000


class Readable(Protocol):
    """A log that can be read from an event on, and that lists the files which hold the rest of it."""

    def read(self, entity: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]: ...
    def manifest(self, entity: str) -> list[ArchiveFile]: ...


def read_records(log: Readable, entity: str, data: Path, until: int | None = None, after: int = 0) -> Iterator[Record]:
    """Read every record of an entity after one, archived or not, each once and in order.

    An event leaves the database only after it is in a file. So the database is asked first and the files are looked
    for afterwards, page by page: nothing is missed while events are being moved.

    Args:
      log: The database.
      entity: A ranker, a comparison, a catalogue or an alias.
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
    log: Readable, entity: str, data: Path, until: int | None, after: int, checked: set[str]
) -> Iterator[Record]:
    last = after
    while True:
        page = list(islice(log.read(entity, last, until), PAGE))
        end = page[-1].seq if page else until
        files = _checked_files(log, entity, data, last, checked)
        for record in merge(_read(files, last, end), page, key=attrgetter("seq")):
            if record.seq > last:
                last = record.seq
                yield record
        if not page:
            return


def _checked_files(log: Readable, entity: str, data: Path, after: int, checked: set[str]) -> list[Path]:
    """The files with events after one, once each was found unchanged; files that are in `checked` were."""
    listed = [file for file in log.manifest(entity) if file.last > after]
    for file in listed:
        if file.name not in checked:
            check_file(data, file, entity)
            checked.add(file.name)
    return [data / FOLDER / file.name for file in listed]


def check_file(data: Path, file: ArchiveFile, entity: str) -> None:
    """Refuse a file that is not what the manifest says."""
    path = data / FOLDER / file.name
    where = f"{path} ({file.events} events of {entity}, up to number {file.last})"
    if not path.is_file():
        raise DamagedArchive(f"missing: {where}; bring it back from a backup, or say where the archive is")
    if _digest(path) != file.digest:
        raise DamagedArchive(f"damaged: {where} is not the file that was written; bring it back from a backup")


def tidy(store: Store, entity: str, data: Path) -> None:
    """Delete files that a crash left over: those that are not listed and whose events a listed one has."""
    listed = store.manifest(entity)
    names, ranges = {file.name for file in listed}, [(file.first, file.last) for file in listed]
    for path in files_of(data, entity):
        first, last = _range(path)
        if path.name not in names and any(first <= end and begin <= last for begin, end in ranges):
            path.unlink(missing_ok=True)


def keep(data: Path, entity: str, records: Sequence[Record]) -> ArchiveFile:
    """Write records to a file of their own, durably; what a manifest says of it."""
    return _write(data / FOLDER / _name(entity, records[0].seq, records[-1].seq), records)


def _write(file: Path, records: Sequence[Record]) -> ArchiveFile:
    import pyarrow as pa  # 30 MB, which a worker that serves does not need
    import pyarrow.parquet as pq

    columns = {
        "seq": pa.int64(),
        "stream": pa.string(),
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
    """Write files once more without the events that go, and with the others as they are now: what replaces which."""
    replaced: dict[str, ArchiveFile | None] = {}
    for file in listed:
        records = list(_records(data / FOLDER / file.name))
        if changes.keys().isdisjoint(record.seq for record in records):
            continue
        now = [(record, changes.get(record.seq, record.event)) for record in records]
        left = [record._replace(event=event) for record, event in now if event is not None]
        path = data / FOLDER / _name(entity, file.first, file.last, _revision(file.name) + 1)
        replaced[file.name] = _write(path, left) if left else None
    return replaced


def drop_files(data: Path, names: Iterable[str]) -> None:
    """Delete what others have replaced."""
    for name in names:
        (data / FOLDER / name).unlink(missing_ok=True)


def files_of(data: Path, entity: str) -> list[Path]:
    """The files with the name of an entity, listed or not."""
    stem = _stem(entity)
    found = (data / FOLDER).glob(f"{stem}-*.parquet")
    return sorted(file for file in found if file.stem.rsplit("-", 2)[0] == stem)  # not those of "stem-two"


def _stem(entity: str) -> str:
    return entity.replace("/", "-")


def _name(entity: str, first: int, last: int, revision: int = 0) -> str:
    return f"{_stem(entity)}-{first:015d}-{last:015d}{f'.{revision}' if revision else ''}.parquet"


def _range(file: Path) -> tuple[int, int]:
    """The first and the last event that a file was written with."""
    _, first, last = file.stem.rsplit("-", 2)
    return int(first), int(last.partition(".")[0])


def _revision(name: str) -> int:
    """How often a file was amended."""
    found = name.removesuffix(".parquet").rsplit("-", 1)[1].partition(".")[2]
    return int(found) if found else 0


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
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(1000):
            for row in batch.to_pylist():
                yield Record(row["seq"], row["stream"], row["at"], decode(row["body"]))


def _row(record: Record) -> dict[str, Any]:
    event = record.event
    return {
        "seq": record.seq,
        "stream": record.entity,
        "at": record.at,
        "kind": str(type(event).__struct_config__.tag),
        "impression": getattr(event, "impression", None),
        "body": encode(event),
    }
