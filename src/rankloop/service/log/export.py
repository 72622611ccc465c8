"""The event log for other tools: JSON lines as it happened, Parquet with one row per shown item."""

import io
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.service.log.events import Closed, ComparisonCreated, Created, FeedbackReceived, Ranked, Record
from rankloop.service.log.projection import OpenImpression, Projection
from rankloop.service.ranker.config import RankerConfig, config_of

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

    def drain(self) -> bytes:
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
        table["features"] = event.all_features.tolist()
    elif isinstance(event, Created | ComparisonCreated):
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
            yield sink.drain()
    if rows:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
    writer.close()
    yield sink.drain()


def impression_rows(records: Iterator[Record]) -> Iterator[dict[str, Any]]:
    """A row for every impression that has closed, with the feedback that counted."""
    projection, config = Projection(None), None
    shown: dict[str, Record] = {}
    for record in records:
        event = record.event
        if isinstance(event, Created) and config is None:
            config = config_of(event.body)
        elif isinstance(event, Ranked):
            shown.setdefault(event.impression, record)
        known = projection.open.get(event.impression) if isinstance(event, FeedbackReceived | Closed) else None
        projection.reopen(record)
        if known is not None and known.ranked.impression not in projection.open:
            yield _row(shown.pop(known.ranked.impression), known, config)


def _row(record: Record, impression: OpenImpression, config: RankerConfig | None) -> dict[str, Any]:
    ranked, feedback = impression.ranked, impression.feedback
    candidates = set(range(len(ranked.ids)) if ranked.candidates is None else ranked.candidates)
    ranking = [i for i in ranked.order if i in candidates]
    features = ranked.all_features
    revealed = (
        {} if feedback is None else dict(zip(ranking if feedback.kind == "reward" else feedback.items, feedback.values))
    )
    values = {i: value for i, value in revealed.items() if i in candidates}
    return {
        "seq": record.seq,
        "at": record.at,
        "impression": ranked.impression,
        "query_id": ranked.query_id,
        "state": ranked.state_number,
        "log_propensity": ranked.log_propensity,
        "evaluation": ranked.mixed is not None,
        "ranking": _names(ranked, ranking),
        "pinned": _names(ranked, [i for i in ranked.order if i not in candidates]),
        "features": (features if config is None else config.with_base_score(features))[ranking].tolist(),
        "context": ranked.context,
        "feedback": None if feedback is None else feedback.kind,
        "items": _names(ranked, values),
        "values": list(values.values()),
    }


def _names(ranked: Ranked, items: Iterable[int]) -> list[str]:
    return [str(ranked.ids[i]) for i in items]
