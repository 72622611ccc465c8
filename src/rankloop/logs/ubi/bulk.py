"""Rankings and what was done with them as documents of User Behavior Insights 1.3, in a bulk file."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

QUERIES, EVENTS = "ubi_queries", "ubi_events"  # the usual names of the indices
MAX_ID, MAX_OBJECT = 100, 256  # characters, as the schemas have it
ACTION_BY_FEEDBACK = {"clicks": "click", "reward": "click", "relevances": "rating", "preferred": "reorder"}


class UbiRanking(NamedTuple):
    """A ranking with its query, its user and the items shown, best first."""

    application: str
    query_id: str
    user_query: str
    user: str
    session: str
    shown: Sequence[str]

    @property
    def client(self) -> str:
        """The id of the client: the user, else the session, else the application."""
        return (self.user or self.session or self.application)[:MAX_ID]


def query_lines(ranking: UbiRanking, at: float, attributes: dict[str, Any]) -> bytes:
    """Return a ranking as a UBI query; its text is the query id.

    Args:
      ranking: The ranking.
      at: The time in seconds since 1970.
      attributes: Further attributes.
    """
    document = {
        "application": ranking.application[:MAX_ID],
        "query_id": ranking.query_id[:MAX_ID],
        "client_id": ranking.client,
        "user_query": ranking.user_query,
        "query_response_hit_ids": list(ranking.shown),
        "timestamp": _time(at),
        "query_attributes": {name: value for name, value in attributes.items() if value is not None},
    }
    return _lines(QUERIES, document)


def event_lines(ranking: UbiRanking, at: float, kind: str, position: int, value: float) -> bytes:
    """Return the UBI event of feedback on a position.

    Args:
      ranking: The ranking.
      at: The time in seconds since 1970.
      kind: The kind of feedback.
      position: From 0.
      value: The value.
    """
    visitor_fields = {"session_id": ranking.session, "user_id": ranking.user}
    document = {
        "application": ranking.application[:MAX_ID],
        "action_name": ACTION_BY_FEEDBACK.get(kind, kind)[:MAX_ID],
        "query_id": ranking.query_id[:MAX_ID],
        "client_id": ranking.client,
        **{name: text[:MAX_ID] for name, text in visitor_fields.items() if text},
        "timestamp": _time(at),
        "user_query": ranking.user_query,
        "event_attributes": {
            "object": {"object_id": ranking.shown[position][:MAX_OBJECT]},
            "position": {"ordinal": position + 1},
            "weight": value,
        },
    }
    return _lines(EVENTS, document)


def _lines(index: str, document: dict[str, Any]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in ({"create": {"_index": index}}, document)).encode()


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
