"""Export of the event log: JSON lines by event, Parquet by impression, and bulk files of User Behavior Insights 1.3."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from rankloop.features.schema import Schema
from rankloop.logs.service_export import OF_OUTCOME, arrow_fields, notes_of, typed_row
from rankloop.service import records as events
from rankloop.service.domain.configuration import config_of
from rankloop.service.domain.feedback_acceptance import TrackedImpression, closed_impressions, late_outcomes
from rankloop.service.domain.named_values import logged_values

MAX_ROWS_PER_GROUP = 2000  # of the Parquet file
UBI_QUERIES, UBI_EVENTS = "ubi_queries", "ubi_events"  # the usual names of the indices
MAX_UBI_ID, MAX_UBI_OBJECT = 100, 256  # characters, as the schemas have it
ACTION_BY_FEEDBACK = {"clicks": "click", "reward": "click", "relevances": "rating", "preferred": "reorder"}


def json_lines(records: Iterator[events.Record]) -> Iterator[bytes]:
    """Yield each event as a line of JSON."""
    for record in records:
        yield msgspec.json.encode(plain_record(record)) + b"\n"


def plain_record(record: events.Record) -> dict[str, Any]:
    """Return a record as plain data."""
    event = record.event
    table: dict[str, Any] = {"seq": record.seq, "at": record.at, **msgspec.to_builtins(event)}
    if isinstance(event, events.Ranked) and event.schema:
        table |= logged_values(event)._asdict()
        table.pop("values")
        table.pop("features")
    elif isinstance(event, events.Ranked):
        table["features"] = event.all_features.tolist()
    elif isinstance(event, events.OutcomesReceived):
        table.pop("ranked", None)  # a copy
    elif isinstance(event, events.Created | events.ExperimentCreated):
        table.pop("start", None)
    return table


def parquet(
    read: Callable[[], Iterator[events.Record]], schemas: Sequence[Schema] = (), with_users: bool = False
) -> Iterator[bytes]:
    """Yield a Parquet file with one row per closed impression: the items in the order shown, and their feedback.

    Items that the learner did not rank are in `pinned`, so that the propensity is that of `ranking`. The names of the
    features are in the file's metadata. `base_model` is the model that computed the base score, if the ranker names it.

    Args:
      read: Reads the records of a ranker or an experiment. They are read twice if it has outcomes, since an outcome
        may come long after the impression has closed: `outcome.NAME` is a list in the order of `ranking`.
      schemas: All versions of the ranker's schema. It has a typed column for each field: a list in the order of
        `ranking` for a field of the items, a value for one of the context.
      with_users: Add `user`, `session` and `tags`, which a table with schemas always has.
    """
    import pyarrow as pa  # 30 MB, which a worker that serves does not need
    import pyarrow.parquet as pq

    created = next((record.event for record in read()), None)
    outcomes = list(created.body.outcomes) if isinstance(created, events.Created | events.ExperimentCreated) else []
    late = late_outcomes(read()) if outcomes else {}
    sink = io.BytesIO()
    text, number, texts, numbers = pa.string(), pa.float64(), pa.list_(pa.string()), pa.list_(pa.float64())
    types = {"seq": pa.int64(), "at": number, "impression": text, "query_id": text, "state": pa.int64()}
    types |= {"log_propensity": number, "evaluation": pa.bool_(), "ranking": texts, "pinned": texts}
    types |= {"features": pa.list_(numbers), "context": numbers, "feedback": text, "items": texts, "values": numbers}
    names: Sequence[str] = ()
    if isinstance(created, events.Created):
        if created.body.base is not None and created.body.base.model is not None:
            types["base_model"] = text
        names = () if schemas else config_of(created.body).problem.feature_names
    if schemas or with_users:
        types |= {"user": text, "session": text, "tags": pa.map_(text, text)}
    types |= {OF_OUTCOME + name: numbers for name in outcomes}
    arrow = pa.schema([*types.items(), *arrow_fields(schemas)]).with_metadata(notes_of(schemas, names))
    writer = pq.ParquetWriter(sink, arrow)
    rows = _impression_rows(read(), schemas, outcomes, late)
    while piece := list(islice(rows, MAX_ROWS_PER_GROUP)):
        writer.write_table(pa.Table.from_pylist(piece, arrow))
        yield sink.getvalue()
        sink.seek(0)  # pyarrow counts the position in the file itself
        sink.truncate()
    writer.close()
    yield sink.getvalue()


def _impression_rows(
    records: Iterator[events.Record],
    schemas: Sequence[Schema],
    outcomes: Sequence[str],
    late: Mapping[str, Sequence[events.OutcomesReceived]],
) -> Iterator[dict[str, Any]]:
    """Yield a row for every closed impression, with its merged feedback and all its outcomes."""
    for record, impression in closed_impressions(records):
        for event in late.get(impression.ranked.impression, ()):
            impression.add(event)
        row, ranking = _row(record, impression)
        for name in outcomes:
            by_item = impression.outcomes.get(name, {})
            row[OF_OUTCOME + name] = [by_item.get(item, 0.0) for item in ranking]
        ranked = impression.ranked
        if ranked.schema:
            values = logged_values(ranked)
            typed = typed_row(schemas, [values.rows[i] for i in ranking], values.context)
            yield row | typed | {"at": ranked.at}  # the time of the request, relative to which dates become ages
        else:
            yield row | {"features": ranked.all_features[ranking].tolist(), "context": ranked.context}


def _row(record: events.Record, impression: TrackedImpression) -> tuple[dict[str, Any], list[int]]:
    """Return the columns that every ranker has, and the items that the learner ranked, in the order shown."""
    ranked, feedback = impression.ranked, impression.feedback
    candidates = set(range(len(ranked.ids)) if ranked.candidates is None else ranked.candidates)
    ranking = [i for i in ranked.order if i in candidates]
    values: dict[int, float] = {}
    if feedback is not None:
        items = ranking if feedback.feedback_kind == "reward" else feedback.items
        values = {i: value for i, value in zip(items, feedback.values) if i in candidates}
    names = [str(id) for id in ranked.ids]
    row = {
        "seq": record.seq,
        "at": record.at,
        "impression": ranked.impression,
        "query_id": ranked.query_id,
        "state": ranked.state_number,
        "log_propensity": ranked.log_propensity,
        "evaluation": ranked.mixed is not None,
        "base_model": ranked.base_model or None,
        "ranking": [names[i] for i in ranking],
        "pinned": [names[i] for i in ranked.order if i not in candidates],
        "feedback": None if feedback is None else feedback.feedback_kind,
        "items": [names[i] for i in values],
        "values": list(values.values()),
        "user": ranked.user or None,
        "session": ranked.session or None,
        "tags": list(ranked.tags.items()) or None,
    }
    return row, ranking


def ubi_bulk(records: Iterable[events.Record], application: str) -> Iterator[bytes]:
    """Yield a UBI query for each impression, and a UBI event for each item with feedback.

    Args:
      records: Of a ranker.
      application: Its name.
    """
    shown = dict[str, events.Ranked]()
    for record in records:
        event = record.event
        if isinstance(event, events.Ranked):
            shown.setdefault(event.impression, event)
            attributes = {"state": event.state_number, "log_propensity": event.log_propensity}
            fields: dict[str, Any] = {
                "query_response_hit_ids": [str(event.ids[i]) for i in event.order],
                "query_attributes": {name: value for name, value in attributes.items() if value is not None},
            }
            yield _ubi_lines(UBI_QUERIES, event, application, event.at or record.at, fields)
        elif isinstance(event, events.FeedbackReceived) and event.impression in shown:
            ranked, kind = shown[event.impression], event.feedback_kind
            positions = {item: position for position, item in enumerate(ranked.order)}
            items = ranked.order[:1] if kind == "reward" else event.items  # a reward belongs to the first item
            visitor = {"session_id": ranked.session[:MAX_UBI_ID], "user_id": ranked.user[:MAX_UBI_ID]}
            fields = {"action_name": ACTION_BY_FEEDBACK[kind]} | {name: text for name, text in visitor.items() if text}
            for item, value in zip(items, event.values or [1.0] * len(items)):
                if value != 0.0 or kind not in ("clicks", "reward"):
                    result = {
                        "object": {"object_id": str(ranked.ids[item])[:MAX_UBI_OBJECT]},
                        "position": {"ordinal": positions[item] + 1},
                        "weight": value,
                    }
                    yield _ubi_lines(UBI_EVENTS, ranked, application, record.at, fields | {"event_attributes": result})
        if isinstance(event, events.Closed) or (isinstance(event, events.FeedbackReceived) and event.final):
            shown.pop(event.impression, None)


def _ubi_lines(index: str, ranked: events.Ranked, application: str, at: float, fields: dict[str, Any]) -> bytes:
    """Return a document about a ranking as two lines of a bulk file."""
    client = ranked.user or ranked.session or application
    ids = {"application": application, "query_id": ranked.impression, "client_id": client}
    time = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    document: dict[str, Any] = {name: text[:MAX_UBI_ID] for name, text in ids.items()}
    document |= {"user_query": ranked.query_id, "timestamp": time} | fields
    return "".join(json.dumps(line) + "\n" for line in ({"create": {"_index": index}}, document)).encode()
