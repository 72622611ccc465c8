"""Servers that answer by HTTP in the documented shapes of search engines, over documents of an embedded engine.

The requests come from the engines' official Python clients. A request that the documentation does not have is refused
with status 400, so that a misspelt parameter fails the test.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from rankloop.search.engine import QueryFilter, TextDocument, TextQuery, seconds_of
from rankloop.search.local_engine import LocalEngine
from rankloop.search.texts import read_text
from tests.search.sources import Listed

FIELDS = ("section",)
DATED_FIELD = "published"


class FakeServer:
    """Documents behind a handler of requests; `requests` keeps what came in, `broken` makes every answer fail."""

    key_header = ""

    def __init__(self, documents: Sequence[TextDocument], folder: Path) -> None:
        self.documents = {document.id: document for document in documents}
        self.engine = LocalEngine(folder, meaning="off")
        self.engine.refresh(Listed(documents))
        self.requests: list[tuple[str, str, Any]] = []
        self.broken, self.slow_seconds = False, 0.0

    def values(self, id: str) -> dict[str, Any]:
        document = self.documents[id]
        dated = {DATED_FIELD: int(document.at)} if document.at else {}
        return {"id": id, "title": document.title, "body": document.body} | dated | dict(document.fields)

    def find(self, query: TextQuery, n: int, start: str, end: str) -> list[tuple[str, float, str]]:
        """The best documents: id, score and the highlighted piece of the body."""
        candidates = self.engine.candidates(query, n)
        ids = [candidate.id for candidate in candidates]
        pieces = []
        for snippet in self.engine.snippets(query, ids):
            text = snippet.text
            for a, b in reversed(snippet.highlights):
                text = text[:a] + start + text[a:b] + end + text[b:]
            pieces.append(text if snippet.highlights else "")
        return [(candidate.id, candidate.score, piece) for candidate, piece in zip(candidates, pieces)]

    def facets(self, query: TextQuery) -> dict[str, dict[str, int]]:
        return {name: counts for name, counts in self.engine.facets(query).items() if name in FIELDS}

    def handle(self, method: str, path: str, parameters: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        raise NotImplementedError


def only(keys: Any, *allowed: str) -> None:
    unknown = set(keys) - set(allowed)
    if unknown:
        raise ValueError(f"unknown parameters {sorted(unknown)}")


class FakeOpenSearch(FakeServer):
    """`_search`, `_mget`, `_count` and `_mapping`, as of OpenSearch 2 and Elasticsearch 8."""

    def handle(self, method: str, path: str, parameters: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        call = path.rpartition("/")[2]
        if not path.startswith("/articles/"):
            return 404, {"error": {"type": "index_not_found_exception"}, "status": 404}
        if call == "_mapping":
            text = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
            properties = {"title": text, "body": text, "section": text, "published": {"type": "date"}}
            return 200, {"articles": {"mappings": {"properties": properties}}}
        if call == "_count":
            return 200, {"count": len(self.documents), "_shards": {"total": 1, "successful": 1, "failed": 0}}
        if call == "_mget":
            only(body, "ids")
            documents = [self._entry(id) | {"found": True} for id in body["ids"] if id in self.documents]
            missing = [
                {"_index": "articles", "_id": id, "found": False} for id in body["ids"] if id not in self.documents
            ]
            return 200, {"docs": documents + missing}
        if call == "_search":
            return 200, self._search(body)
        return 400, {"error": path}

    def _entry(self, id: str) -> dict[str, Any]:
        source = self.values(id)
        source.pop("id")
        if DATED_FIELD in source:
            source[DATED_FIELD] = "1970-01-02T00:00:00Z" if source[DATED_FIELD] == 86400 else source[DATED_FIELD] * 1000
        return {"_index": "articles", "_id": id, "_source": source}

    def _search(self, body: Any) -> dict[str, Any]:
        only(body, "size", "query", "_source", "highlight", "aggs")
        clauses = body["query"]["bool"]
        only(clauses, "must", "filter", "must_not")
        words, prefix, phrases, excluded, filters = "", False, [], [], []
        for part in clauses.get("must", []):
            match = part["multi_match"]
            only(match, "query", "fields", "type")
            assert match["fields"] == ["title^2", "body"]
            words, prefix = match["query"], match["type"] == "bool_prefix"
            assert match["type"] in ("bool_prefix", "most_fields")
        for part in clauses.get("filter", []):
            if "multi_match" in part:
                assert part["multi_match"]["type"] == "phrase"
                phrases.append(f'"{part["multi_match"]["query"]}"')
            elif "term" in part:
                ((field, term),) = part["term"].items()
                assert field.endswith(".keyword")  # a term query on a text field finds nothing
                only(term, "value", "case_insensitive")
                filters.append(QueryFilter(field.removesuffix(".keyword"), term["value"]))
            else:
                dates = part["range"][DATED_FIELD]
                only(dates, "gte", "lt", "format")
                assert dates["format"] == "epoch_second"
                filters.append(QueryFilter("at", "", float(dates.get("gte", 0)), float(dates.get("lt", 0))))
        for part in clauses.get("must_not", []):
            excluded.append(part["multi_match"]["query"])
        query = read_text(" ".join([words, *phrases, *(f"-{word}" for word in excluded)]), prefix=prefix)
        query = query._replace(filters=tuple(filters))
        marks = body["highlight"]
        hits = []
        for id, score, piece in self.find(query, body["size"], marks["pre_tags"][0], marks["post_tags"][0]):
            hit = self._entry(id) | {"_score": score}
            hits.append(hit | ({"highlight": {"body": [piece]}} if piece else {}))
        counts = self.facets(query)
        aggregations = {
            name: {
                "buckets": [{"key": value, "doc_count": count} for value, count in counts.get(name, {}).items()],
                "sum_other_doc_count": 0,
            }
            for name, part in body["aggs"].items()
            if part["terms"]["field"] == f"{name}.keyword"
        }
        total = {"value": len(hits), "relation": "eq"}
        return {"took": 1, "timed_out": False, "hits": {"total": total, "hits": hits}, "aggregations": aggregations}


class FakeSolr(FakeServer):
    """`/select` with edismax and with a lucene query of ids."""

    def handle(self, method: str, path: str, parameters: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if path.rstrip("/") != "/solr/articles/select":
            return 404, {"error": {"msg": f"no core at {path}", "code": 404}}
        values = body if isinstance(body, dict) and body else parameters
        first = {name: texts[0] for name, texts in values.items()}
        if first["q"] == "*:*" and first.get("rows") == "0":
            return 200, {"response": {"numFound": len(self.documents), "start": 0, "docs": []}}
        if first["q"].startswith("id:("):
            ids = re.findall(r'"((?:[^"\\]|\\.)*)"', first["q"])
            docs = [self._row(id) for id in ids if id in self.documents]
            return 200, {"response": {"numFound": len(docs), "start": 0, "docs": docs}}
        hl = [f"hl.{name}" for name in ("method", "fl", "snippets", "fragsize", "tag.pre", "tag.post")]
        facet = [f"facet.{name}" for name in ("field", "limit", "mincount")]
        only(values, "q", "defType", "qf", "mm", "q.alt", "uf", "fq", "fl", "rows", "hl", "facet", "wt", *hl, *facet)
        assert first["defType"] == "edismax"
        assert first["qf"] == "title^2 body"
        query = read_text("" if first["q"] == "*:*" else first["q"].replace("+", " "))
        query = query._replace(filters=tuple(self._filter(text) for text in values.get("fq", [])))
        docs, highlighting = [], {}
        for id, score, piece in self.find(query, int(first["rows"]), first["hl.tag.pre"], first["hl.tag.post"]):
            docs.append(self._row(id) | {"score": score})
            highlighting[id] = {"body": [piece]} if piece else {}
        counts = self.facets(query)
        flat = {
            name: [x for pair in counts.get(name, {}).items() for x in pair] for name in values.get("facet.field", [])
        }
        response = {"numFound": len(docs), "start": 0, "maxScore": 1.0, "docs": docs}
        return 200, {
            "responseHeader": {"status": 0},
            "response": response,
            "highlighting": highlighting,
            "facet_counts": {"facet_fields": flat, "facet_queries": {}},
        }

    def _row(self, id: str) -> dict[str, Any]:
        values = self.values(id)
        if DATED_FIELD in values:
            values[DATED_FIELD] = "1970-01-02T00:00:00Z" if values[DATED_FIELD] == 86400 else "2024-05-01T00:00:00Z"
        return values | {"title": [values["title"]]}  # schemaless cores keep lists

    def _filter(self, text: str) -> QueryFilter:
        dates = re.fullmatch(r"published:\[(\S+) TO (\S+)\}", text)
        if dates:
            start, end = (0.0 if date == "*" else seconds_of(date) for date in dates.groups())
            return QueryFilter("at", "", start, end)
        field, value = re.fullmatch(r'(\w+):"(.*)"', text).groups()  # type: ignore[union-attr]
        return QueryFilter(field, value)


class FakeMeilisearch(FakeServer):
    """`/indexes/…/search`, `/stats` and `/documents/…`."""

    key_header = "Authorization"

    def handle(self, method: str, path: str, parameters: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if path == "/indexes/articles/stats":
            return 200, {"numberOfDocuments": len(self.documents), "isIndexing": False, "fieldDistribution": {}}
        document = re.fullmatch(r"/indexes/articles/documents/(.*)", path)
        if document:
            id = unquote(document[1])
            if id in self.documents:
                return 200, self.values(id)
            return 404, {"message": "not found", "code": "document_not_found", "type": "invalid_request", "link": ""}
        if path != "/indexes/articles/search":
            return 404, {"message": path, "code": "index_not_found", "type": "invalid_request", "link": ""}
        texts = ("attributesToHighlight", "attributesToCrop", "cropLength", "highlightPreTag", "highlightPostTag")
        only(body, "q", "limit", "filter", "facets", "showRankingScore", *texts)
        query = read_text(body["q"], prefix=True)
        query = query._replace(filters=tuple(self._filter(text) for text in body["filter"]))
        found = self.find(query, body["limit"], body["highlightPreTag"], body["highlightPostTag"])
        largest = max([score for _, score, _ in found], default=1.0)
        hits = [
            self.values(id) | {"_formatted": self.values(id) | {"body": piece}, "_rankingScore": score / largest}
            for id, score, piece in found
        ]
        counts = self.facets(query)
        distribution = {name: counts.get(name, {}) for name in body["facets"]}
        return 200, {"hits": hits, "query": body["q"], "facetDistribution": distribution, "processingTimeMs": 1}

    def _filter(self, text: str) -> QueryFilter:
        start, end = re.fullmatch(r"published >= (\d+)", text), re.fullmatch(r"published < (\d+)", text)
        if start or end:
            return QueryFilter("at", "", float(start[1]) if start else 0.0, float(end[1]) if end else 0.0)
        field, value = re.fullmatch(r'(\w+) = "(.*)"', text).groups()  # type: ignore[union-attr]
        return QueryFilter(field, value)


class FakeTypesense(FakeServer):
    """`/collections/…`, `/documents/search` and `/documents/…`."""

    key_header = "X-TYPESENSE-API-KEY"

    def handle(self, method: str, path: str, parameters: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if path == "/collections/articles":
            return 200, {"name": "articles", "num_documents": len(self.documents), "fields": []}
        if path != "/collections/articles/documents/search":
            id = unquote(path.rpartition("/")[2])
            if path.startswith("/collections/articles/documents/") and id in self.documents:
                return 200, self.values(id)
            return 404, {"message": f"Could not find a document with id: {id}"}
        first = {name: texts[0] for name, texts in parameters.items()}
        highlight = ("highlight_fields", "highlight_affix_num_tokens", "highlight_start_tag", "highlight_end_tag")
        searched = ("q", "query_by", "query_by_weights", "prefix", "per_page", "drop_tokens_threshold")
        only(first, *searched, *highlight, "filter_by", "facet_by", "max_facet_values")
        assert int(first["per_page"]) <= 250
        query = read_text("" if first["q"] == "*" else first["q"], prefix=first["prefix"] == "true")
        parts = [text for text in first.get("filter_by", "").split(" && ") if text]
        query = query._replace(filters=tuple(self._filter(text) for text in parts))
        hits = []
        found = self.find(query, int(first["per_page"]), first["highlight_start_tag"], first["highlight_end_tag"])
        for id, score, piece in found:
            highlights = [{"field": "body", "snippet": piece, "matched_tokens": []}] if piece else []
            text_match = 578730123365711900 + int(score * 1000)
            hits.append({"document": self.values(id), "highlights": highlights, "text_match": text_match})
        counts = self.facets(query)
        facets = [
            {
                "field_name": name,
                "counts": [
                    {"value": value, "count": n, "highlighted": value} for value, n in counts.get(name, {}).items()
                ],
            }
            for name in first.get("facet_by", "").split(",")
            if name
        ]
        return 200, {"found": len(hits), "hits": hits, "facet_counts": facets, "page": 1, "out_of": len(self.documents)}

    def _filter(self, text: str) -> QueryFilter:
        start, end = re.fullmatch(r"published:>=(\d+)", text), re.fullmatch(r"published:<(\d+)", text)
        if start or end:
            return QueryFilter("at", "", float(start[1]) if start else 0.0, float(end[1]) if end else 0.0)
        field, value = re.fullmatch(r"(\w+):=`(.*)`", text).groups()  # type: ignore[union-attr]
        return QueryFilter(field, value)


FAKES = {
    "opensearch": (FakeOpenSearch, "/articles"),
    "elasticsearch": (FakeOpenSearch, "/articles"),
    "solr": (FakeSolr, "/solr/articles"),
    "meilisearch": (FakeMeilisearch, "/articles"),
    "typesense": (FakeTypesense, "/articles"),
}


@contextmanager
def fake_server(name: str, documents: Sequence[TextDocument]) -> Iterator[tuple[str, Any]]:
    """The text for `--engine`, and the server behind it."""
    fake_class, path = FAKES[name]
    with tempfile.TemporaryDirectory() as folder:
        fake = fake_class(documents, Path(folder))

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                body: Any = None
                if "form" in self.headers.get("Content-Type", ""):
                    body = parse_qs(content)
                elif content:
                    body = json.loads(content)
                fake.requests.append((self.command, self.path, dict(self.headers)))
                threading.Event().wait(fake.slow_seconds)
                status, answer = 503, {"message": "broken", "error": "broken"}
                if not fake.broken:
                    try:
                        status, answer = fake.handle(self.command, parts.path, parse_qs(parts.query), body)
                    except (ValueError, AssertionError, KeyError, AttributeError) as error:
                        status, answer = 400, {"message": repr(error), "error": repr(error)}
                data = json.dumps(answer).encode()
                self.send_response(status)
                kind = "application/json"
                if name == "elasticsearch":  # the client refuses servers without this header
                    self.send_header("X-Elastic-Product", "Elasticsearch")
                    kind = "application/vnd.elasticsearch+json;compatible-with=9"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"{name}=http://127.0.0.1:{server.server_address[1]}{path}", fake
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
            fake.engine.close()
