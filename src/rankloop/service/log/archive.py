"""The archive: old events in Parquet files beside the database, and the whole log out of both."""

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from rankloop.core.files import atomic_write
from rankloop.service.errors import Damaged
from rankloop.service.log.events import AnyEvent, ArchiveFile, Record, decode, encode
from rankloop.service.log.stores.base import Store

FOLDER = "archive"
PAGE = 2000


class Readable(Protocol):
    """A log that can be read from an event on, and that lists the files which hold the rest of it."""

    def read(self, entity: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]: ...
    def manifest(self, entity: str) -> list[ArchiveFile]: ...


def whole(log: Readable, entity: str, data: Path, until: int | None = None, after: int = 0) -> Iterator[Record]:
    """Every record of an entity after one, moved or not, each once and in order; `Damaged` where a file is not there.

    An event leaves the database only after it is in a file. So the database is asked first and the files are looked
    for afterwards, page by page: nothing slips through while events are being moved.
    """
    archive = Archive(log, entity, data)
    archive.check(after)
    return _whole(archive, until, after)


def _whole(archive: "Archive", until: int | None, after: int) -> Iterator[Record]:
    last = after
    while True:
        page = list(islice(archive.log.read(archive.entity, last, until), PAGE))
        end = page[-1].seq if page else until
        for record in merge(archive.records(last, end), page, key=attrgetter("seq")):
            if record.seq > last:
                last = record.seq
                yield record
        if not page:
            return


class Archive:
    """The files of an entity: those that its manifest lists, which must be there as they were written.

    Files of 0.1, which had no manifest, count too, unless one that is listed holds what they hold.
    """

    def __init__(self, log: Readable, entity: str, data: Path) -> None:
        self.log, self.entity, self.data = log, entity, data
        self._checked: set[str] = set()

    def check(self, after: int = 0) -> list[ArchiveFile]:
        """What is listed, once every file with events after one has been found unchanged."""
        listed = self.log.manifest(self.entity)
        for file in listed:
            if file.last > after and file.name not in self._checked:
                check_file(self.data, file, self.entity)
                self._checked.add(file.name)
        return listed

    def records(self, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Archived records after one and up to another; files that overlap give each record once."""
        listed = self.check(after)
        files = [self.data / FOLDER / file.name for file in listed] + unlisted(self.data, self.entity, listed)[0]
        found = sorted((file for file in files if _range(file)[1] > after), key=_range)
        return _read(found, after, until)


def archived(data: Path, entity: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
    """The records in all files of an entity, listed or not."""
    return _read([file for file in _files(data, entity) if _range(file)[1] > after], after, until)


def check_file(data: Path, file: ArchiveFile, entity: str) -> None:
    """Refuse a file that is not what the manifest says."""
    path = data / FOLDER / file.name
    where = f"{path} ({file.events} events of {entity}, up to number {file.last})"
    if not path.is_file():
        raise Damaged(f"missing: {where}; bring it back from a backup, or say where the archive is")
    if _digest(path) != file.digest:
        raise Damaged(f"damaged: {where} is not the file that was written; bring it back from a backup")


def unlisted(data: Path, entity: str, listed: Sequence[ArchiveFile]) -> tuple[list[Path], list[Path]]:
    """Files that no manifest lists: those of 0.1, and those that a crash left over, whose events a listed one has."""
    names = {file.name for file in listed}
    others = [path for path in _files(data, entity) if path.name not in names]
    left = [path for path in others if any(_overlap(_range(path), (file.first, file.last)) for file in listed)]
    return [path for path in others if path not in left], left


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def tidy(store: Store, entity: str, data: Path) -> None:
    """List the files of 0.1, and delete what a crash left over."""
    listed = store.manifest(entity)
    old, left = unlisted(data, entity, listed)
    if old:
        store.list_files(entity, [_listed(path, sum(1 for _ in _records(path))) for path in old])
    for path in left:
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
    return _listed(file, len(records))


def _listed(file: Path, events: int) -> ArchiveFile:
    return ArchiveFile(file.name, *_range(file), events, _digest(file))


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


def _files(data: Path, entity: str) -> list[Path]:
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
