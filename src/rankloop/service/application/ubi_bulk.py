"""The log of a ranker as a bulk file of User Behavior Insights 1.3: queries, and what was done with their hits."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from rankloop.service.records import Closed, FeedbackReceived, Ranked, Record

QUERIES, EVENTS = "ubi_queries", "ubi_events"  # the usual names of the indices
MAX_ID, MAX_OBJECT = 100, 256  # characters, as the schemas have it
ACTION_BY_FEEDBACK = {"clicks": "click", "reward": "click", "relevances": "rating", "preferred": "reorder"}


def ubi_bulk(records: Iterable[Record], application: str) -> Iterator[bytes]:
    """Yield a UBI query for each impression, and a UBI event for each item with feedback.

    Args:
      records: Of a ranker.
      application: Its name.
    """
    shown = dict[str, Ranked]()
    for record in records:
        event = record.event
        if isinstance(event, Ranked):
            shown.setdefault(event.impression, event)
            attributes = {"state": event.state_number, "log_propensity": event.log_propensity}
            fields: dict[str, Any] = {
                "query_response_hit_ids": [str(event.ids[i]) for i in event.order],
                "query_attributes": {name: value for name, value in attributes.items() if value is not None},
            }
            yield _lines(QUERIES, event, application, event.at or record.at, fields)
        elif isinstance(event, FeedbackReceived) and event.impression in shown:
            ranked, kind = shown[event.impression], event.feedback_kind
            positions = {item: position for position, item in enumerate(ranked.order)}
            items = ranked.order[:1] if kind == "reward" else event.items  # a reward belongs to the first item
            visitor = {"session_id": ranked.session[:MAX_ID], "user_id": ranked.user[:MAX_ID]}
            fields = {"action_name": ACTION_BY_FEEDBACK[kind]} | {name: text for name, text in visitor.items() if text}
            for item, value in zip(items, event.values or [1.0] * len(items)):
                if value != 0.0 or kind not in ("clicks", "reward"):
                    result = {
                        "object": {"object_id": str(ranked.ids[item])[:MAX_OBJECT]},
                        "position": {"ordinal": positions[item] + 1},
                        "weight": value,
                    }
                    yield _lines(EVENTS, ranked, application, record.at, fields | {"event_attributes": result})
        if isinstance(event, Closed) or (isinstance(event, FeedbackReceived) and event.final):
            shown.pop(event.impression, None)


def _lines(index: str, ranked: Ranked, application: str, at: float, fields: dict[str, Any]) -> bytes:
    """Return a document about a ranking as two lines of a bulk file."""
    client = ranked.user or ranked.session or application
    ids = {"application": application, "query_id": ranked.impression, "client_id": client}
    time = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    document: dict[str, Any] = {name: text[:MAX_ID] for name, text in ids.items()}
    document |= {"user_query": ranked.query_id, "timestamp": time} | fields
    return "".join(json.dumps(line) + "\n" for line in ({"create": {"_index": index}}, document)).encode()
