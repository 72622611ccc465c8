"""The event log for other tools: JSON lines as it happened, Parquet with one row per shown item."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.service.log.events import Closed, Created, Experiment, Fed, Ranked, Record
from rankloop.service.log.projection import Open, View
from rankloop.service.ranker.config import Plan, plan_of, with_base_score
from rankloop.service.ranker.trainer import features_of

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
        ("pinned", pa.list_(pa.string())),
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
    """Closed impressions, one row each: what the learner ranked, in the order shown, and the feedback that counted.

    What it was not asked to rank stands in `pinned`, so that the propensity is that of the ranking.
    """
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
    """A row for every impression that has closed, with the feedback that counted."""
    view, plan = View(None), None
    shown: dict[str, Record] = {}
    for record in records:
        event = record.event
        if isinstance(event, Created) and plan is None:
            plan = plan_of(event.body)
        elif isinstance(event, Ranked):
            shown.setdefault(event.impression, record)
        known = view.open.get(event.impression) if isinstance(event, Fed | Closed) else None
        view.reopen(record)
        if known is not None and known.ranked.impression not in view.open:
            yield _row(shown.pop(known.ranked.impression), known, plan)


def _row(record: Record, impression: Open, plan: Plan | None) -> dict[str, Any]:
    ranked, fed = impression.ranked, impression.fed
    asked = set(range(len(ranked.ids)) if ranked.asked is None else ranked.asked)
    ranking = [i for i in ranked.shown if i in asked]
    features = features_of(ranked)
    revealed = {} if fed is None else dict(zip(ranking if fed.what == "reward" else fed.items, fed.values))
    told = {i: value for i, value in revealed.items() if i in asked}
    return {
        "seq": record.seq,
        "at": record.at,
        "impression": ranked.impression,
        "query_id": ranked.query_id,
        "state": ranked.state,
        "log_propensity": ranked.log_propensity,
        "evaluation": ranked.mixed is not None,
        "ranking": _names(ranked, ranking),
        "pinned": _names(ranked, [i for i in ranked.shown if i not in asked]),
        "features": (features if plan is None else with_base_score(features, plan))[ranking].tolist(),
        "context": ranked.context,
        "feedback": None if fed is None else fed.what,
        "items": _names(ranked, told),
        "values": list(told.values()),
    }


def _names(ranked: Ranked, items: Iterable[int]) -> list[str]:
    return [str(ranked.ids[i]) for i in items]
