"""Retention: old events move from the database to Parquet, from where a replay still reads them."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Iterator
from contextlib import suppress
from heapq import merge
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.core.files import atomic_write
from rankloop.service.errors import Unavailable
from rankloop.service.events import Record, decode, encode
from rankloop.service.stores.port import Store

if TYPE_CHECKING:
    from rankloop.service.service import Service

FOLDER = "archive"
LOOK_EVERY = 600.0  # seconds
AT_ONCE = 2_000  # events in one file, and in one deletion, which holds up the writer
DAY = 86400.0
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


async def keep_short(service: Service, days: float) -> None:
    """Look now and then for events that are old enough to move."""
    while True:
        if service.leads:
            with suppress(Unavailable):
                for live in list(service.rankers.values()):
                    before = time.time() - days * DAY
                    await asyncio.to_thread(compact, service.store, live.stream, service.settings.data, before)
        await asyncio.sleep(LOOK_EVERY)


def compact(store: Store, stream: str, data: Path, before: float) -> int:
    """Move what is older than `before` and no longer needed for a restart; how many events were moved.

    The file is durable before anything is deleted, so a crash in between leaves events in both places, never in none.
    """
    snapshot, moved = store.snapshot(stream), 0
    if snapshot is None:
        return 0
    until = min(snapshot.oldest_open - 1, snapshot.state_seq)
    first = next(store.read(stream)).seq  # the creation stays
    while batch := _old(store.read(stream, first, until), before):
        name = f"{stream.replace('/', '-')}-{batch[0].seq:015d}-{batch[-1].seq:015d}.parquet"
        atomic_write(data / FOLDER / name, _parquet(batch))
        store.forget(stream, first, batch[-1].seq)
        moved += len(batch)
    return moved


def archived(data: Path) -> Iterator[Record]:
    """Every archived record, in order."""
    files = sorted((data / FOLDER).glob("*.parquet"))
    return merge(*(_records(file) for file in files), key=lambda record: record.seq)


def with_archive(data: Path, records: Iterator[Record]) -> Iterator[Record]:
    """The whole log: what was moved and what was not, each record once."""
    both = merge(archived(data), records, key=lambda record: record.seq)
    for _, same in groupby(both, key=lambda record: record.seq):
        yield next(same)


def _old(records: Iterator[Record], before: float) -> list[Record]:
    return [record for record in islice(records, AT_ONCE) if record.at < before]


def _parquet(records: list[Record]) -> bytes:
    rows = [_row(record) for record in records]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), sink, compression="zstd")
    return sink.getvalue()


def _row(record: Record) -> dict[str, Any]:
    event = record.event
    impression = getattr(event, "impression", None)
    kind = str(type(event).__struct_config__.tag)
    return {
        "seq": record.seq,
        "stream": record.stream,
        "at": record.at,
        "kind": kind,
        "impression": impression,
        "body": encode(event),
    }


def _records(file: Path) -> Iterator[Record]:
    for batch in pq.ParquetFile(file).iter_batches(1000):
        for row in batch.to_pylist():
            yield Record(row["seq"], row["stream"], row["at"], decode(row["body"]))
