"""The event log for other tools: JSON lines as it happened, Parquet with one row per shown item."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.service.events import Closed, Created, Experiment, Fed, Ranked, Record
from rankloop.service.rows import features_of

ROWS = 2000
SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("at", pa.float64()),
        ("impression", pa.string()),
        ("query_id", pa.string()),
        ("state", pa.int64()),
        ("log_propensity", pa.float64()),
        ("evaluation", pa.bool_()),
        ("ranking", pa.list_(pa.string())),
        ("features", pa.list_(pa.list_(pa.float64()))),
        ("context", pa.list_(pa.float64())),
        ("feedback", pa.string()),
        ("items", pa.list_(pa.string())),
        ("values", pa.list_(pa.float64())),
    ]
)


class _Sink(io.RawIOBase):
    """A file that hands on what is written to it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        return self._size

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def json_lines(records: Iterator[Record]) -> Iterator[bytes]:
    """One event per line, with ids instead of numbers where that is possible without looking back."""
    for record in records:
        yield msgspec.json.encode(plain(record)) + b"\n"


def plain(record: Record) -> dict[str, Any]:
    """A record as plain data."""
    event = record.event
    table: dict[str, Any] = {"seq": record.seq, "at": record.at, **msgspec.to_builtins(event)}
    if isinstance(event, Ranked):
        table["features"] = features_of(event).tolist()
    elif isinstance(event, Created | Experiment):
        table.pop("start", None)
    return table


def parquet(records: Iterator[Record]) -> Iterator[bytes]:
    """Closed impressions, one row each: features and ids in the order shown, and what was revealed."""
    sink = _Sink()
    writer = pq.ParquetWriter(sink, SCHEMA)
    rows: list[dict[str, Any]] = []
    for row in impression_rows(records):
        rows.append(row)
        if len(rows) == ROWS:
            writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
            rows.clear()
            yield sink.taken()
    if rows:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
    writer.close()
    yield sink.taken()


def impression_rows(records: Iterator[Record]) -> Iterator[dict[str, Any]]:
    """A row for every impression that has closed."""
    waiting: dict[str, tuple[Record, Ranked, dict[int, float], str]] = {}
    for record in records:
        event = record.event
        if isinstance(event, Ranked):
            waiting.setdefault(event.impression, (record, event, {}, ""))
        elif isinstance(event, Fed) and event.impression in waiting:
            first, ranked, values, _ = waiting[event.impression]
            values.update(zip(event.items or [ranked.shown[0]], event.values or [1.0] * len(event.items)))
            waiting[event.impression] = (first, ranked, values, event.what)
            if event.final:
                yield _row(*waiting.pop(event.impression))
        elif isinstance(event, Closed) and event.impression in waiting:
            yield _row(*waiting.pop(event.impression))


def _row(record: Record, ranked: Ranked, values: dict[int, float], what: str) -> dict[str, Any]:
    features = features_of(ranked)
    return {
        "seq": record.seq,
        "at": record.at,
        "impression": ranked.impression,
        "query_id": ranked.query_id,
        "state": ranked.state,
        "log_propensity": ranked.log_propensity,
        "evaluation": ranked.mixed is not None,
        "ranking": [str(ranked.ids[i]) for i in ranked.shown],
        "features": features[ranked.shown].tolist(),
        "context": ranked.context,
        "feedback": what or None,
        "items": [str(ranked.ids[i]) for i in values],
        "values": list(values.values()),
    }
