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

    def query_lines(self, at: float, attributes: dict[str, Any]) -> bytes:
        """Return the ranking, shown `at` seconds since 1970, as a UBI query."""
        attributes = {name: value for name, value in attributes.items() if value is not None}
        hits = {"query_response_hit_ids": list(self.shown), "timestamp": _time(at), "query_attributes": attributes}
        return _lines(QUERIES, self._ids() | {"user_query": self.user_query} | hits)

    def event_lines(self, at: float, kind: str, position: int, value: float) -> bytes:
        """Return the UBI event of feedback of a kind on a position, from 0."""
        visitor_fields = {"session_id": self.session, "user_id": self.user}
        ids = self._ids()
        document = {
            "application": ids.pop("application"),
            "action_name": ACTION_BY_FEEDBACK.get(kind, kind)[:MAX_ID],
            **ids,
            **{name: text[:MAX_ID] for name, text in visitor_fields.items() if text},
            "timestamp": _time(at),
            "user_query": self.user_query,
            "event_attributes": {
                "object": {"object_id": self.shown[position][:MAX_OBJECT]},
                "position": {"ordinal": position + 1},
                "weight": value,
            },
        }
        return _lines(EVENTS, document)

    def _ids(self) -> dict[str, str]:
        client = self.user or self.session or self.application
        ids = {"application": self.application, "query_id": self.query_id, "client_id": client}
        return {name: text[:MAX_ID] for name, text in ids.items()}


def _lines(index: str, document: dict[str, Any]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in ({"create": {"_index": index}}, document)).encode()


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
