"""OpenSearch and Elasticsearch as search engines: one query language, two clients."""

from collections.abc import Sequence
from typing import Any

from rankloop.search.engine import MAX_FACET_VALUES, TextDocument, TextQuery
from rankloop.search.engines import adapter
from rankloop.search.engines.adapter import EngineAnswer, EngineHit, EngineSettings


class OpenSearchAdapter:
    """Searches an index by `multi_match`. The id of a document is its `_id`.

    A text field is filtered and counted by its subfield of type keyword, where the mapping has one.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings, self._client = settings, self._connected(settings)
        self._title, self._body, self._at = (settings.column(part) for part in ("title", "body", "at"))
        mapping: Any = self._client.indices.get_mapping(index=settings.collection)
        properties = next(iter(mapping.values()))["mappings"].get("properties", {})
        self._exact = dict[str, str]()
        for name in settings.fields:
            subfields = properties[name].get("fields", {}) if properties.get(name, {}).get("type") == "text" else {}
            keywords = [f"{name}.{part}" for part, kind in subfields.items() if kind.get("type") == "keyword"]
            self._exact[name] = keywords[0] if keywords else name

    def _connected(self, settings: EngineSettings) -> Any:
        from opensearchpy import OpenSearch

        return OpenSearch(hosts=[settings.url], timeout=settings.timeout_seconds, max_retries=0)

    def close(self) -> None:
        self._client.close()

    def count(self) -> int:
        return int(self._client.count(index=self._settings.collection)["count"])

    def documents(self, ids: Sequence[str]) -> list[TextDocument]:
        entries = self._client.mget(index=self._settings.collection, body={"ids": list(ids)})["docs"]
        found_documents = [entry for entry in entries if entry.get("found")]
        return [self._settings.document(entry["_source"], entry["_id"]) for entry in found_documents]

    def search(self, query: TextQuery, n: int) -> EngineAnswer:
        answer = self._client.search(index=self._settings.collection, body=self._request(query, n))
        hits = [
            EngineHit(
                self._settings.document(hit["_source"], hit["_id"]),
                float(hit["_score"] or 0.0),
                adapter.snippet_from(" … ".join(hit.get("highlight", {}).get(self._body, []))),
            )
            for hit in answer["hits"]["hits"]
        ]
        counts = answer.get("aggregations", {})
        facets = {
            name: {str(bucket["key"]): int(bucket["doc_count"]) for bucket in counts[name]["buckets"]}
            for name in self._settings.fields
            if name in counts
        }
        return EngineAnswer(hits, facets)

    def _request(self, query: TextQuery, n: int) -> dict[str, Any]:
        fields = [f"{self._title}^2", self._body]
        words = adapter.plain_text(query.words[: adapter.MAX_ENGINE_WORDS])

        def match(text: str, kind: str) -> dict[str, Any]:
            return {"multi_match": {"query": text, "fields": fields, "type": kind}}

        kind = "bool_prefix" if query.prefix else "most_fields"
        parts = {
            "must": [match(words, kind)] if words else [],
            "filter": [match(adapter.plain_text(phrase), "phrase") for phrase in query.phrases],
            "must_not": [match(word, "most_fields") for word in query.excluded],
        }
        for condition in query.filters:
            if condition.field != "at":
                term = {"value": condition.value, "case_insensitive": True}
                parts["filter"].append({"term": {self._exact[condition.field]: term}})
            elif self._at:
                limits = {"gte": condition.start, "lt": condition.end}
                dates = {name: int(seconds) for name, seconds in limits.items() if seconds}
                parts["filter"].append({"range": {self._at: dates | {"format": "epoch_second"}}})
        marks = {"pre_tags": [adapter.MARK_START], "post_tags": [adapter.MARK_END]}
        piece = {"number_of_fragments": 1, "fragment_size": adapter.SNIPPET_CHARACTERS}
        return {
            "size": n,
            "query": {"bool": {name: clauses for name, clauses in parts.items() if clauses}},
            "_source": [name for name in (self._title, self._body, self._at, *self._settings.fields) if name],
            "highlight": marks | {"fields": {self._body: piece}},
            "aggs": {
                name: {"terms": {"field": self._exact[name], "size": MAX_FACET_VALUES}}
                for name in self._settings.fields
            },
        }


class ElasticsearchAdapter(OpenSearchAdapter):
    """Searches Elasticsearch by its own client."""

    def _connected(self, settings: EngineSettings) -> Any:
        from elasticsearch import Elasticsearch

        options: dict[str, Any] = {"api_key": settings.key} if settings.key else {}
        return Elasticsearch(settings.url, request_timeout=settings.timeout_seconds, max_retries=0, **options)
