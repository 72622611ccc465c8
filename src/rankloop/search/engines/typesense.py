"""Typesense as a search engine."""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import typesense
from typesense.exceptions import ObjectNotFound

from rankloop.search.engine import MAX_FACET_VALUES, TextDocument, TextQuery
from rankloop.search.engines import adapter
from rankloop.search.engines.adapter import EngineAnswer, EngineHit, EngineSettings

HIGHLIGHT_WORDS = 15  # before and after a highlighted word
DEFAULT_PORTS = {"http": 80, "https": 443}


class TypesenseAdapter:
    """Searches a collection. Fields that are counted must be facets of its schema; a date is a number of seconds.

    `text_match` packs several criteria into one integer, whose size says nothing. So the score of a document is that
    of its position: 1 / log2(2 + position).
    """

    def __init__(self, settings: EngineSettings) -> None:
        parts = urlsplit(settings.url)
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        node = {"host": parts.hostname, "port": port, "protocol": parts.scheme, "path": parts.path}
        options: Any = {"connection_timeout_seconds": settings.timeout_seconds, "num_retries": 0}
        self._settings = settings
        self._client = typesense.Client({"nodes": [node], "api_key": settings.key} | options)
        self._collection: Any = self._client.collections[settings.collection]
        self._title, self._body, self._at = (settings.column(part) for part in ("title", "body", "at"))

    def close(self) -> None:
        self._client.api_call.close()

    def count(self) -> int:
        return int(self._collection.retrieve()["num_documents"])

    def documents(self, ids: Sequence[str]) -> list[TextDocument]:
        documents = list[TextDocument]()
        for id in ids:
            with suppress(ObjectNotFound):
                documents.append(self._settings.document(self._collection.documents[id].retrieve()))
        return documents

    def search(self, query: TextQuery, n: int) -> EngineAnswer:
        answer = self._collection.documents.search(self._parameters(query, n))
        hits = list[EngineHit]()
        for position, hit in enumerate(answer["hits"]):
            pieces = [part.get("snippet", "") for part in hit.get("highlights", []) if part["field"] == self._body]
            document = self._settings.document(hit["document"])
            hits.append(EngineHit(document, 1.0 / math.log2(2 + position), adapter.snippet_from("".join(pieces[:1]))))
        facets = {
            facet["field_name"]: {str(entry["value"]): int(entry["count"]) for entry in facet["counts"]}
            for facet in answer.get("facet_counts", [])
        }
        return EngineAnswer(hits, facets)

    def _parameters(self, query: TextQuery, n: int) -> dict[str, Any]:
        filters = list[str]()
        for condition in query.filters:
            if condition.field != "at":
                value = condition.value.replace("`", "")
                filters.append(f"{condition.field}:=`{value}`")
            elif self._at:
                filters += [f"{self._at}:>={int(condition.start)}"] if condition.start else []
                filters += [f"{self._at}:<{int(condition.end)}"] if condition.end else []
        matching = {"q": adapter.operator_text(query) or "*", "prefix": "true" if query.prefix else "false"}
        matching |= {"query_by": f"{self._title},{self._body}", "query_by_weights": "2,1"}
        # With this threshold any of the words is enough.
        answer: dict[str, Any] = {"per_page": n, "drop_tokens_threshold": n, "filter_by": " && ".join(filters)}
        facets = {"facet_by": ",".join(self._settings.fields), "max_facet_values": MAX_FACET_VALUES}
        highlight = {"highlight_fields": self._body, "highlight_affix_num_tokens": HIGHLIGHT_WORDS}
        highlight |= {"highlight_start_tag": adapter.MARK_START, "highlight_end_tag": adapter.MARK_END}
        return matching | answer | facets | highlight
