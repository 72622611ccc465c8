"""Meilisearch as a search engine."""

from collections.abc import Sequence

import meilisearch
from meilisearch.errors import MeilisearchApiError

from rankloop.search.engine import TextDocument, TextQuery
from rankloop.search.engines import adapter
from rankloop.search.engines.adapter import EngineAnswer, EngineHit, EngineSettings

CROPPED_WORDS = 35  # of a snippet


class MeilisearchAdapter:
    """Searches an index. Fields to filter or count must be `filterableAttributes`; a date is a number of seconds."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        client = meilisearch.Client(settings.url, settings.key or None, timeout=max(int(settings.timeout_seconds), 1))
        self._index = client.index(settings.collection)
        self._body = settings.column("body")

    def close(self) -> None:
        """Do nothing: the client keeps no connection."""

    def count(self) -> int:
        return int(self._index.get_stats().number_of_documents)

    def documents(self, ids: Sequence[str]) -> list[TextDocument]:
        documents = list[TextDocument]()
        for id in ids:
            try:
                documents.append(self._settings.document(vars(self._index.get_document(id))))
            except MeilisearchApiError as error:
                if error.code not in ("document_not_found", "invalid_document_id"):
                    raise
        return documents

    def search(self, query: TextQuery, n: int) -> EngineAnswer:
        filters, at = list[str](), self._settings.column("at")
        for condition in query.filters:
            if condition.field != "at":
                filters.append(f"{condition.field} = {adapter.quoted(condition.value)}")
            elif at:
                filters += [f"{at} >= {int(condition.start)}"] if condition.start else []
                filters += [f"{at} < {int(condition.end)}"] if condition.end else []
        parameters = {"limit": n, "filter": filters, "facets": list(self._settings.fields), "showRankingScore": True}
        parameters |= {"attributesToHighlight": [self._body], "attributesToCrop": [self._body]}
        parameters |= {"highlightPreTag": adapter.MARK_START, "highlightPostTag": adapter.MARK_END}
        parameters |= {"cropLength": CROPPED_WORDS}
        answer = self._index.search(adapter.operator_text(query), parameters)
        hits = list[EngineHit]()
        for hit in answer["hits"]:
            snippet = adapter.snippet_from(str(hit.get("_formatted", {}).get(self._body, "")))
            hits.append(EngineHit(self._settings.document(hit), float(hit["_rankingScore"]), snippet))
        return EngineAnswer(hits, answer.get("facetDistribution") or {})
