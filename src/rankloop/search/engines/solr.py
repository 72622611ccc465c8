"""Solr as a search engine, by its extended DisMax query parser."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pysolr

from rankloop.search.engine import MAX_FACET_VALUES, TextDocument, TextQuery
from rankloop.search.engines import adapter
from rankloop.search.engines.adapter import EngineAnswer, EngineHit, EngineSettings


class SolrAdapter:
    """Searches a core or collection by `edismax`; any word of the query is enough."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._client: Any = pysolr.Solr(f"{settings.url}/{settings.collection}", timeout=settings.timeout_seconds)
        self._id, self._title, self._body, self._at = (settings.column(part) for part in ("id", "title", "body", "at"))
        names = [self._id, self._title, self._body, self._at, *settings.fields]
        self._returned = ",".join(name for name in names if name)

    def close(self) -> None:
        self._client.get_session().close()

    def count(self) -> int:
        return int(self._client.search("*:*", rows=0).hits)

    def documents(self, ids: Sequence[str]) -> list[TextDocument]:
        either = " ".join(map(adapter.quoted, ids))
        parameters = {"fl": self._returned, "rows": len(ids), "q.op": "OR", "defType": "lucene"}
        return [self._settings.document(row) for row in self._client.search(f"{self._id}:({either})", **parameters)]

    def search(self, query: TextQuery, n: int) -> EngineAnswer:
        results = self._client.search(self._text(query), **self._parameters(query, n))
        highlighting = results.highlighting or {}
        hits = list[EngineHit]()
        for row in results:
            document = self._settings.document(row)
            pieces = highlighting.get(document.id, {}).get(self._body, [])
            hits.append(EngineHit(document, float(row["score"]), adapter.snippet_from(" … ".join(pieces))))
        counts = (results.facets or {}).get("facet_fields", {})
        return EngineAnswer(hits, {name: dict(zip(map(str, flat[::2]), flat[1::2])) for name, flat in counts.items()})

    def _text(self, query: TextQuery) -> str:
        """Return the query in the syntax of edismax; words have only letters and digits, so none is an operator."""
        words = adapter.plain_text(query.words[: adapter.MAX_ENGINE_WORDS]).lower()
        prefix_terms = [f"{query.words[-1]}*"] if query.prefix and query.words else []
        phrases = [f"+{adapter.quoted(adapter.plain_text(phrase))}" for phrase in query.phrases]
        return " ".join([words, *prefix_terms, *phrases, *(f"-{word}" for word in query.excluded)]).strip() or "*:*"

    def _parameters(self, query: TextQuery, n: int) -> dict[str, Any]:
        filters = list[str]()
        for condition in query.filters:
            if condition.field != "at":
                filters.append(f"{condition.field}:{adapter.quoted(condition.value)}")
            elif self._at:
                filters.append(f"{self._at}:[{_iso_date(condition.start)} TO {_iso_date(condition.end)}}}")
        fields = list(self._settings.fields)
        matching = {"defType": "edismax", "qf": f"{self._title}^2 {self._body}", "mm": "1", "q.alt": "*:*"}
        answer = {"uf": "* -_query_", "fq": filters, "fl": f"{self._returned},score", "rows": n}
        highlight = {"hl": "true", "hl.method": "unified", "hl.fl": self._body, "hl.snippets": 1}
        highlight |= {"hl.fragsize": adapter.SNIPPET_CHARACTERS}
        highlight |= {"hl.tag.pre": adapter.MARK_START, "hl.tag.post": adapter.MARK_END}
        facets = {"facet": "true" if fields else "false", "facet.field": fields, "facet.mincount": 1}
        facets |= {"facet.limit": MAX_FACET_VALUES}
        return matching | answer | highlight | facets


def _iso_date(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC, or `*` for 0: no limit."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}" if seconds else "*"
