"""The log of a ranker as User Behavior Insights 1.3: a bulk file that OpenSearch and Elasticsearch take as it is."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from rankloop.service.log.events import Closed, FeedbackReceived, Ranked, Record

QUERIES, EVENTS = "ubi_queries", "ubi_events"  # the usual names of the indices
MAX_ID, MAX_OBJECT = 100, 256  # characters, as the schemas have it
ACTIONS = {"clicks": "click", "reward": "click", "relevances": "rating", "preferred": "reorder"}


def ubi_bulk(records: Iterable[Record], application: str) -> Iterator[bytes]:
    """A query for each impression, and an event for each item that feedback named; `application` is the ranker."""
    shown = dict[str, Ranked]()
    for record in records:
        event = record.event
        if isinstance(event, Ranked):
            shown.setdefault(event.impression, event)
            yield _lines(QUERIES, ubi_query(event, event.at or record.at, application))
        elif isinstance(event, FeedbackReceived) and event.impression in shown:
            ranked = shown[event.impression]
            yield b"".join(_lines(EVENTS, one) for one in ubi_events(event, ranked, record.at, application))
        if isinstance(event, Closed) or (isinstance(event, FeedbackReceived) and event.final):
            shown.pop(event.impression, None)


def ubi_query(ranked: Ranked, at: float, application: str) -> dict[str, Any]:
    """An impression as a query; what was typed is the query's id, which is all that a ranker was told."""
    attributes = {"state": ranked.state_number, "log_propensity": ranked.log_propensity}
    return {
        "application": application[:MAX_ID],
        "query_id": ranked.impression[:MAX_ID],
        "client_id": (ranked.user or ranked.session or application)[:MAX_ID],
        "user_query": ranked.query_id,
        "query_response_hit_ids": [str(ranked.ids[i]) for i in ranked.order],
        "timestamp": _time(at),
        "query_attributes": {name: value for name, value in attributes.items() if value is not None},
    }


def ubi_events(feedback: FeedbackReceived, ranked: Ranked, at: float, application: str) -> Iterator[dict[str, Any]]:
    """What was done with each item; a reward is that of the first one, and 0 is no event."""
    positions = {item: position for position, item in enumerate(ranked.order)}
    items = ranked.order[:1] if feedback.kind == "reward" else feedback.items
    values = feedback.values or [1.0] * len(items)
    for item, value in zip(items, values):
        if value == 0.0 and feedback.kind in ("clicks", "reward"):
            continue
        who = {"session_id": ranked.session, "user_id": ranked.user}
        yield {
            "application": application[:MAX_ID],
            "action_name": ACTIONS.get(feedback.kind, feedback.kind)[:MAX_ID],
            "query_id": ranked.impression[:MAX_ID],
            "client_id": (ranked.user or ranked.session or application)[:MAX_ID],
            **{name: text[:MAX_ID] for name, text in who.items() if text},
            "timestamp": _time(at),
            "user_query": ranked.query_id,
            "event_attributes": {
                "object": {"object_id": str(ranked.ids[item])[:MAX_OBJECT]},
                "position": {"ordinal": positions[item] + 1},
                "weight": value,
            },
        }


def _lines(index: str, document: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"create": {"_index": index}}) + b"\n" + msgspec.json.encode(document) + b"\n"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
