"""The archive: old events in Parquet files beside the database, and the whole log out of both."""

import io
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.core.files import atomic_write
from rankloop.service.log.events import AnyEvent, Record, decode, encode

FOLDER = "archive"
PAGE = 2000
SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("stream", pa.string()),
        ("at", pa.float64()),
        ("kind", pa.string()),
        ("impression", pa.string()),
        ("body", pa.binary()),
    ]
)


class Readable(Protocol):
    """A log that can be read from an event on."""

    def read(self, entity: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]: ...


def whole(log: Readable, entity: str, data: Path, until: int | None = None, after: int = 0) -> Iterator[Record]:
    """Every record of an entity after one, moved or not, each once and in order.

    An event leaves the database only after it is in a file. So the database is asked first and the files are looked
    for afterwards, page by page: nothing slips through while events are being moved.
    """
    last = after
    while True:
        page = list(islice(log.read(entity, last, until), PAGE))
        end = page[-1].seq if page else until
        for record in merge(archived(data, entity, last, end), page, key=attrgetter("seq")):
            if record.seq > last:
                last = record.seq
                yield record
        if not page:
            return


def archived(data: Path, entity: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
    """The archived records of an entity after one and up to another; files that overlap give each record once."""
    files = [file for file in _files(data, entity) if _last_in(file) > after]
    return _read(files, after, until)


def keep(data: Path, entity: str, records: Sequence[Record]) -> None:
    """Write records to a file of their own, durably."""
    name = f"{_stem(entity)}-{records[0].seq:015d}-{records[-1].seq:015d}.parquet"
    _write(data / FOLDER / name, records)


def _write(file: Path, records: Sequence[Record]) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([_row(record) for record in records], SCHEMA), sink, compression="zstd")
    atomic_write(file, sink.getvalue())


def amend_archive(data: Path, entity: str, changes: Mapping[int, AnyEvent | None]) -> None:
    """Write files again without the events that go, and with the others as they are now."""
    for file in _files(data, entity):
        records = list(_records(file))
        if changes.keys().isdisjoint(record.seq for record in records):
            continue
        now = [(record, changes.get(record.seq, record.event)) for record in records]
        _write(file, [record._replace(event=event) for record, event in now if event is not None])


def _files(data: Path, entity: str) -> list[Path]:
    stem = _stem(entity)
    found = (data / FOLDER).glob(f"{stem}-*.parquet")
    return sorted(file for file in found if file.stem.rsplit("-", 2)[0] == stem)  # not those of "stem-two"


def _stem(entity: str) -> str:
    return entity.replace("/", "-")


def _last_in(file: Path) -> int:
    return int(file.stem.rsplit("-", 1)[1])


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
